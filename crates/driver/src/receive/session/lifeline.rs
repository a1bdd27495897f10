//! Whether the connection to the sender still is one. A network may lose it without a word: the receiver's address has
//! changed, or a device on the way has forgotten the connection.

use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
    time::Duration,
};

use treecast_proto::{Instant, object::ReceiverInput};

use super::{super::ReceiveError, Session};

/// Time between two looks at this host's addresses.
const INTERVAL: Duration = Duration::from_secs(1);

/// The number of looks in a row that must miss the address before it is gone. IPv6 takes an address back for a second
/// or two while it sees whether somebody else has it (RFC 4862, 5.4).
const LOOKS: u32 = 3;

#[derive(Debug)]
pub(super) struct Lifeline {
    /// The address of this host's end of the connection.
    local: Option<SocketAddr>,
    next: Instant,
    missed: u32,
    /// Whether something has come over the connection since it was last asked.
    heard: bool,
}

impl Lifeline {
    pub fn new(local: Option<SocketAddr>) -> Self {
        Self { local, next: Instant::ZERO, missed: 0, heard: false }
    }

    /// The address of the connection that this host has no more.
    fn lost_address(&mut self, now: Instant) -> Option<IpAddr> {
        let local = self.local.filter(|_| now >= self.next)?;
        self.next = now + INTERVAL;
        self.missed = if has_address(local) { 0 } else { self.missed + 1 };
        (self.missed >= LOOKS).then_some(local.ip())
    }
}

/// Whether this host has the address still. What cannot be told is yes.
fn has_address(mut address: SocketAddr) -> bool {
    address.set_port(0);
    UdpSocket::bind(address).map_or_else(|error| error.kind() != io::ErrorKind::AddrNotAvailable, |_| true)
}

impl Session<'_> {
    /// Something may have come over the connection.
    pub(super) fn note_read(&mut self, heard: bool) {
        self.wire.lifeline.heard |= heard;
        if heard {
            self.delivery.machine.handle(self.delivery.clock.now(), ReceiverInput::Listened { heard });
        }
    }

    /// Reads the connection once more before a silent sender is given up.
    pub(super) fn listen_if_asked(&mut self) -> Result<(), ReceiveError> {
        if !std::mem::take(&mut self.delivery.line.listens) {
            return Ok(());
        }
        self.wire.lifeline.heard = false;
        self.receive_control()?;
        self.delivery.handle(ReceiverInput::Listened { heard: self.wire.lifeline.heard }, None);
        Ok(())
    }

    /// Gives the connection up when this host has lost its address: nothing can come to it any more.
    pub(super) fn look_at_address(&mut self, now: Instant) {
        if self.wire.connection.is_some()
            && let Some(address) = self.wire.lifeline.lost_address(now)
        {
            self.wire.connection = None;
            let reason = format!("this host has the address {address} no more");
            self.delivery.handle(ReceiverInput::Disconnected { reason }, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_gone_when_several_looks_have_missed_it() {
        let looks = |address: &str| {
            let mut lifeline = Lifeline::new(Some(address.parse().unwrap()));
            let at = |millis| Instant::ZERO + Duration::from_millis(millis);
            (0..30).map(|step| lifeline.lost_address(at(200 * step)).is_some()).position(|is_lost| is_lost)
        };
        assert_eq!(looks("127.0.0.1:7000"), None);
        // TEST-NET-1 (RFC 5737) is nobody's.
        assert_eq!(looks("192.0.2.1:7000"), Some(10), "two seconds after the first look");
    }
}
