//! `host`: the mDHCPv6 client of one of a host's interfaces. It sets the interface's addresses.

use std::{
    fs::File,
    io::Read,
    net::UdpSocket,
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use ed25519_dalek::{SigningKey, VerifyingKey};
use treecast_host::{
    clock,
    interface::Interface,
    netlink::{Monitor, Netlink, requests::Lifetimes},
};

use crate::{
    Prefix,
    dhcp::{
        ALL_SERVERS, CLIENT_PORT, SERVER_PORT,
        client::{self, Client, Dropped, Wants},
    },
};

use super::{
    Error, Tell,
    addresses::{Addresses, Setter, Unwanted, Wanted},
    doing,
    event::Drops,
    sockets,
    status::Status,
};

/// A DUID of a link-layer address, and Ethernet (RFC 8415, 11.4).
const DUID_LL_ETHERNET: [u8; 4] = [0, 3, 0, 1];

/// The configuration of the client of an interface.
#[derive(Debug, Clone)]
pub struct HostConfig {
    pub interface: String,
    /// The public key of the server, 64 hexadecimal digits. `None`: any server is believed, and no push.
    pub server_key: Option<String>,
    /// The interface identifier that the host would like.
    pub ifid: Option<u64>,
}

/// The public key of a server, as hosts are told it.
pub fn public_key(secret: &[u8; 32]) -> String {
    blake3::Hash::from_bytes(SigningKey::from_bytes(secret).verifying_key().to_bytes()).to_hex().to_string()
}

/// Reads a public key.
pub fn parse_public_key(text: &str) -> Result<VerifyingKey, Error> {
    let wrong = || {
        Error::new(format!(
            "{text:?} is no server's public key: expected 64 hexadecimal digits, as `treecast mast key` prints"
        ))
    };
    let bytes = blake3::Hash::from_hex(text.trim()).map_err(|_| wrong())?;
    VerifyingKey::from_bytes(bytes.as_bytes()).map_err(|_| wrong())
}

/// The socket and machine of a client, without what it does with what it hears.
pub struct Hearing {
    pub client: Client,
    index: u32,
    socket: UdpSocket,
    dropped: Dropped,
    drops: Drops,
}

/// The sockets and machine of a host's interface.
pub struct Daemon {
    hearing: Hearing,
    addresses: Addresses,
    setter: Setter,
    monitor: Monitor,
    looks: Netlink,
}

impl Hearing {
    pub fn new(
        interface: &str,
        server_key: Option<VerifyingKey>,
        ifid: Option<u64>,
        wants: Wants,
    ) -> Result<Self, Error> {
        let found = Interface::named(interface).map_err(|error| Error::new(error.to_string()))?;
        let mac = found.mac.ok_or_else(|| {
            Error::new(format!("interface {interface} has no Ethernet address, which a client is known by"))
        })?;
        let mut seed = [0; 32];
        let random = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut seed));
        random.map_err(doing("cannot draw a random number"))?;
        let name = blake3::hash(interface.as_bytes());
        let group = u32::from_be_bytes(*name.as_bytes().first_chunk().expect("a hash has 32 bytes"));
        let config = client::Config {
            duid: [&DUID_LL_ETHERNET[..], &mac].concat(),
            group,
            ifid,
            server_key,
            wants,
            seed,
        };
        Ok(Self {
            client: Client::new(config, clock::monotonic()),
            index: found.index,
            socket: sockets::open_on(interface, found.index, CLIENT_PORT, &[])?,
            dropped: Dropped::default(),
            drops: Drops::default(),
        })
    }

    /// The prefixes that the server has told last, and whether new connections should use each.
    pub fn status(&self) -> Vec<(Prefix, bool)> {
        self.client.prefixes().iter().map(|listed| (listed.prefix, listed.preferred_s > 0)).collect()
    }

    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Reads what has come.
    pub fn read(&mut self, tell: Tell<'_>) {
        let mut last = None;
        sockets::read(&self.socket, |bytes, from| {
            self.client.handle(clock::monotonic(), bytes);
            last = Some(from.from);
        });
        let dropped = self.client.dropped;
        let reasons = [
            ("malformed", dropped.malformed, self.dropped.malformed),
            ("forged", dropped.forged, self.dropped.forged),
            ("replayed", dropped.replayed, self.dropped.replayed),
        ];
        for (reason, count, before) in reasons {
            if let Some(from) = last.filter(|_| count != before) {
                self.drops.add_many(clock::monotonic(), (reason, count - before), from.ip(), tell);
            }
        }
        self.dropped = dropped;
    }

    /// Sends what is due. Returns when the next message is.
    pub fn send(&mut self) -> Duration {
        while let Some(message) = self.client.poll(clock::monotonic()) {
            // What is lost is sent again.
            _ = sockets::send_on(&self.socket, &message, ALL_SERVERS, SERVER_PORT, self.index);
        }
        self.client.deadline()
    }
}

impl Daemon {
    pub fn new(host: &HostConfig) -> Result<Self, Error> {
        let key = host.server_key.as_deref().map(parse_public_key).transpose()?;
        let netlink = || Netlink::open().map_err(doing("cannot ask the kernel"));
        Ok(Self {
            hearing: Hearing::new(&host.interface, key, host.ifid, Wants::Addresses)?,
            addresses: Addresses::new(&host.interface),
            setter: Setter::Kernel(netlink()?),
            monitor: Monitor::open().map_err(doing("cannot watch the interfaces"))?,
            looks: netlink()?,
        })
    }

    /// The addresses that the interface should have.
    fn wanted(&self, now: Duration) -> Vec<Wanted> {
        let seconds =
            |until: Duration| u32::try_from(until.saturating_sub(now).as_secs()).unwrap_or(u32::MAX - 1);
        let wanted = |it: client::Address| Wanted {
            address: it.address,
            prefix_length: it.prefix_length,
            times: Lifetimes {
                preferred_s: seconds(it.preferred_until),
                // The kernel refuses an address that is over, and this one is not quite.
                valid_s: seconds(it.valid_until).max(1),
            },
            ends: [it.preferred_until, it.valid_until],
        };
        self.hearing.client.addresses(now).into_iter().map(wanted).collect()
    }
}

impl super::Daemon for Daemon {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.hearing.descriptor(), self.monitor.as_fd()]
    }

    fn read(&mut self, index: usize, tell: Tell<'_>) -> Result<(), Error> {
        if index == 0 {
            self.hearing.read(tell);
        } else if self.monitor.changes().map_err(doing("cannot watch the interfaces"))?.interfaces {
            self.addresses.look(&mut self.looks).map_err(doing("cannot list the interfaces"))?;
        }
        Ok(())
    }

    fn status(&self) -> Status {
        Status::Addresses { interfaces: vec![self.addresses.status()], prefixes: self.hearing.status() }
    }

    fn work(&mut self, tell: Tell<'_>) -> Result<Option<Duration>, Error> {
        let due = self.hearing.send();
        let wanted = self.wanted(clock::monotonic());
        self.addresses.apply(&mut self.setter, &wanted, Unwanted::Remove, tell);
        Ok(Some(due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_key_comes_back_and_anything_else_is_refused() {
        let text = public_key(&[7; 32]);
        assert_eq!(parse_public_key(&text).unwrap(), SigningKey::from_bytes(&[7; 32]).verifying_key());
        for wrong in ["", "ab", "zz"] {
            assert!(parse_public_key(wrong).is_err());
        }
    }
}
