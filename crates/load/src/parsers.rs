//! The parsers of what strangers send that are private otherwise, for fuzzing and for tests with random bytes.

use crate::doctor;

/// Reads what the doctor asks a host, and what a host answers.
pub fn doctor(bytes: &[u8]) {
    doctor::network::read_any(bytes);
}

/// Reads a packet that the doctor hears on an interface, and the probe in it.
pub fn heard(bytes: &[u8]) {
    doctor::read_packet(bytes);
}
