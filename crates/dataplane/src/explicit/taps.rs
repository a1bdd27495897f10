//! Packet sockets (`packet(7)`) at several interfaces, one at each.

use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use socket2::Socket;
use treecast_host::{
    packet::{self, Addressee},
    poller::Poller,
};

/// The most bytes of a frame that are read: longer than any, as a super-packet has 64 KiB at most.
const MAX_FRAME_LEN: usize = 1 << 17;

/// The sockets, by the number of their interface.
pub struct Taps {
    sockets: BTreeMap<u32, Socket>,
    poll: Poller,
    buffer: Vec<u8>,
}

impl Taps {
    pub fn new() -> io::Result<Self> {
        Ok(Self { sockets: BTreeMap::new(), poll: Poller::new()?, buffer: vec![0; MAX_FRAME_LEN] })
    }

    pub fn has(&self, interface: u32) -> bool {
        self.sockets.contains_key(&interface)
    }

    pub fn add(&mut self, interface: u32, socket: Socket) -> io::Result<()> {
        self.poll.watch(&socket, interface.into())?;
        self.sockets.insert(interface, socket);
        Ok(())
    }

    /// Closes the socket at an interface. It is not watched any more then.
    pub fn remove(&mut self, interface: u32) {
        self.sockets.remove(&interface);
    }

    /// Keeps a socket at each of these interfaces and at no others from now on. Missing ones are opened by `open`.
    /// Returns the interfaces that have none any more.
    pub fn attend(
        &mut self,
        interfaces: &[u32],
        open: impl Fn(u32) -> io::Result<Socket>,
    ) -> io::Result<Vec<u32>> {
        for interface in interfaces {
            if !self.has(*interface) {
                self.add(*interface, open(*interface)?)?;
            }
        }
        let gone: Vec<_> = self.sockets.keys().copied().filter(|one| !interfaces.contains(one)).collect();
        gone.iter().for_each(|interface| self.remove(*interface));
        Ok(gone)
    }

    /// The interfaces at which frames wait.
    pub fn ready(&mut self) -> io::Result<Vec<u32>> {
        let tokens = self.poll.tokens(Some(Duration::ZERO))?;
        Ok(tokens.into_iter().map(|token| token as u32).collect())
    }

    /// Takes the next frame off an interface. `None`: none waits.
    pub fn next(&mut self, interface: u32) -> Option<(&[u8], Addressee)> {
        let (len, to) = packet::receive(self.sockets.get(&interface)?, &mut self.buffer).ok()?;
        Some((&self.buffer[..len], to))
    }
}

impl AsFd for Taps {
    /// Readable when a frame waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }
}
