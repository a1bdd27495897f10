//! A descriptor in reserve, for when a process has no other left.

use std::{
    fs::File,
    net::{IpAddr, TcpListener},
};

/// A descriptor that is given up for a moment, to close a connection that cannot be taken.
#[derive(Debug)]
pub(super) struct Spare(Option<File>);

impl Spare {
    pub fn new() -> Self {
        Self(File::open("/dev/null").ok())
    }

    /// Closes the next connection of a listener if this process has no descriptor left. Returns the address that it came from. `None`
    /// if there are descriptors, or there is no connection.
    pub fn turn_away(&mut self, listener: &TcpListener) -> Option<IpAddr> {
        if File::open("/dev/null").is_ok() {
            return None;
        }
        self.0 = None;
        let from = listener.accept().ok().map(|(_, from)| from.ip());
        *self = Self::new();
        from
    }
}
