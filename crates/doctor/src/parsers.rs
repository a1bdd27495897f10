//! The parsers of what strangers send that are private otherwise, for fuzzing and for tests with random bytes.

use crate::{network, packet::Packet};

/// Reads what the doctor asks a host, and what a host answers.
pub fn messages(bytes: &[u8]) {
    network::read_any(bytes);
}

/// Reads a packet that the doctor hears on an interface, and the probe in it.
pub fn heard(bytes: &[u8]) {
    let packets = [Packet::in_frame(bytes, true), Packet::parse(bytes)];
    packets.iter().flatten().for_each(|packet| network::read_probe(packet.payload));
}
