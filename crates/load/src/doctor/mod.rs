//! The doctor: what hinders multicast on a host and between hosts, and what to do about it.
//!
//! [`host`] looks at one host, and [`network`] at what arrives between hosts. Both first collect plain facts, and then
//! judge them with functions that touch no machine. So every judgement is tested without a network.

pub mod finding;
pub mod glop;
pub mod host;
pub mod network;
mod packet;
pub mod trace;

/// Reads a packet and the probe in it, and says nothing of them: for tests with random bytes.
pub(crate) fn read_packet(bytes: &[u8]) {
    let packets = [packet::Packet::in_frame(bytes, true), packet::Packet::parse(bytes)];
    packets.iter().flatten().for_each(|packet| network::read_probe(packet.payload));
}
