//! `router`: mRCS, which keeps the addresses of a router itself (interdomain-2013, 6.3.2). It hears pushes as a host does, and makes
//! each interface's addresses of the providers' blocks, a network's number and an interface identifier.

use std::{
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use ed25519_dalek::SigningKey;
use treecast_host::netlink::{Monitor, Netlink, requests::Lifetimes};

use crate::dhcp::client::Wants;

use super::{
    Error, Tell,
    addresses::{Addresses, FOR_EVER, Setter, Unwanted, Wanted},
    config::{Config, RouterInterface},
    doing,
    host::{Hearing, parse_public_key},
    status::Status,
};

/// The bits of a network's prefix.
const NETWORK_BITS: u8 = 64;

/// The sockets and machine of mRCS.
pub struct Daemon {
    hearing: Hearing,
    interfaces: Vec<(RouterInterface, Addresses)>,
    setter: Setter,
    monitor: Monitor,
    looks: Netlink,
    /// The time for which addresses in the last listed blocks can be used, in seconds.
    valid_s: u32,
}

impl Daemon {
    pub fn new(config: &Config) -> Result<Self, Error> {
        let router = config.file.router.as_ref();
        let router = router.ok_or_else(|| Error::new("the file has no section [router]".into()))?;
        let key = match &router.server_key {
            Some(text) => parse_public_key(text)?,
            None => SigningKey::from_bytes(&config.dhcp(None)?.key(config)?).verifying_key(),
        };
        let netlink = || Netlink::open().map_err(doing("cannot ask the kernel"));
        let interface = |it: &RouterInterface| (it.clone(), Addresses::new(&it.name));
        Ok(Self {
            hearing: Hearing::new(&router.listen, Some(key), None, Wants::Prefixes)?,
            interfaces: router.interfaces.iter().map(interface).collect(),
            setter: match &router.apply[..] {
                [] => Setter::Kernel(netlink()?),
                program => Setter::Program(program.to_vec()),
            },
            monitor: Monitor::open().map_err(doing("cannot watch the interfaces"))?,
            looks: netlink()?,
            valid_s: 0,
        })
    }

    /// Sets all addresses as the prefixes that were heard last demand. Before any was heard, nothing is set.
    fn apply(&mut self, tell: Tell<'_>) {
        let listed = self.hearing.client.prefixes();
        if listed.is_empty() {
            return;
        }
        for (interface, addresses) in &mut self.interfaces {
            let wanted: Vec<Wanted> = (interface.addresses(&listed).into_iter())
                .map(|(address, _)| {
                    let is_discouraged = self.hearing.client.is_discouraged(address);
                    let preferred_s = if is_discouraged { 0 } else { FOR_EVER };
                    let times = Lifetimes { preferred_s, valid_s: FOR_EVER };
                    Wanted { address, prefix_length: NETWORK_BITS, times, ends: [Duration::ZERO; 2] }
                })
                .collect();
            addresses.apply(&mut self.setter, &wanted, Unwanted::Discourage(self.valid_s), tell);
        }
        self.valid_s = listed.iter().map(|it| it.valid_s).max().unwrap_or_default();
    }
}

impl super::Daemon for Daemon {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.hearing.descriptor(), self.monitor.as_fd()]
    }

    fn read(&mut self, index: usize, tell: Tell<'_>) -> Result<(), Error> {
        if index == 0 {
            self.hearing.read(tell);
        } else if self.monitor.changes().map_err(doing("cannot watch the interfaces"))?.interfaces
            && matches!(self.setter, Setter::Kernel(_))
        {
            for (_, addresses) in &mut self.interfaces {
                addresses.look(&mut self.looks).map_err(doing("cannot list the interfaces"))?;
            }
        }
        Ok(())
    }

    fn status(&self) -> Status {
        Status::Addresses {
            interfaces: self.interfaces.iter().map(|(_, addresses)| addresses.status()).collect(),
            prefixes: self.hearing.status(),
        }
    }

    fn work(&mut self, tell: Tell<'_>) -> Result<Option<Duration>, Error> {
        let due = self.hearing.send();
        self.apply(tell);
        Ok(Some(due))
    }
}
