//! Starts `treecast mead` at a node, reads what it tells, and ends it.

use std::{
    io,
    time::{Duration, Instant},
};

use treecast_driver::explicit::event::{Counted, MeadEvent};

use crate::site::{Program, Said};

/// The address to which programs send packets for the group (meadcast-thesis-2024, listing A.8).
pub const TUN_ADDRESS: &str = "fd15::1";

/// A running `treecast mead`. It is ended when this value is dropped.
pub struct MeadSender {
    program: Program,
    /// The time at which the sender's first discovery was over.
    discovered: Option<Instant>,
    /// The number of groups that it has had.
    groups: u64,
    /// The number of routers that have registered for the newest group (Xcast+).
    registered: usize,
    /// The longest packet that the sender's device takes, in bytes.
    pub mtu_bytes: u32,
}

/// The counts of a sender, and the resources that it used.
pub struct Done {
    /// The time at which the sender's first discovery was over.
    pub discovered: Option<Instant>,
    /// The number of transmission groups that the sender has had. A new one begins each time when the assignment of
    /// receivers to packets changes.
    pub groups: u64,
    /// The sender's counters at its end.
    pub counted: Counted,
    pub cpu: Duration,
}

/// The time that a sender may take for anything.
const PATIENCE: Duration = Duration::from_secs(20);

impl MeadSender {
    /// Takes over a program that has just started, and waits until it accepts packets.
    pub fn new(program: Program) -> io::Result<Self> {
        let mut sender = Self { program, discovered: None, groups: 0, registered: 0, mtu_bytes: 0 };
        sender.mtu_bytes = sender.wait_for(|event| match event {
            MeadEvent::Ready { mtu_bytes, .. } => Some(*mtu_bytes),
            _ => None,
        })?;
        Ok(sender)
    }

    /// Waits until the first discovery is over. The group that results is in use a moment later.
    pub fn wait_discovered(&mut self) -> io::Result<()> {
        self.wait_for(|event| matches!(event, MeadEvent::Tree { .. }).then_some(()))
    }

    /// Waits until the sender has a group in which exactly this number of routers have registered.
    pub fn wait_registered(&mut self, routers: usize) -> io::Result<()> {
        let is_group = |event: &MeadEvent| matches!(event, MeadEvent::Group(_)).then_some(());
        self.wait_for(is_group)?;
        while self.registered != routers {
            self.wait_for(is_group)?;
        }
        Ok(())
    }

    /// Listens until an event is one that is wanted. Returns what is wanted of it.
    fn wait_for<T>(&mut self, wanted: impl Fn(&MeadEvent) -> Option<T>) -> io::Result<T> {
        let end = Instant::now() + PATIENCE;
        loop {
            let (at, event) = self.program.event(end)?;
            match &event {
                MeadEvent::Tree { .. } => _ = self.discovered.get_or_insert(at),
                MeadEvent::Group(group) => {
                    self.groups += 1;
                    self.registered = group.registered.as_ref().map_or(self.registered, Vec::len);
                }
                _ => {}
            }
            if let Some(found) = wanted(&event) {
                return Ok(found);
            }
        }
    }

    /// Ends the sender.
    pub fn end(mut self) -> io::Result<Done> {
        self.program.handle.signal(libc::SIGTERM);
        let counted = self.wait_for(|event| match event {
            MeadEvent::Done(counted) => Some(*counted),
            _ => None,
        })?;
        let end = Instant::now() + PATIENCE;
        let ended = loop {
            if let (_, Said::Ended(ended, _)) = self.program.next(end)? {
                break ended;
            }
        };
        let cpu = ended.cpu_user + ended.cpu_system;
        Ok(Done { discovered: self.discovered, groups: self.groups, counted, cpu })
    }
}
