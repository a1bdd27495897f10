//! The status of a running program, and the way in which others on its host ask for it.
//!
//! Each program listens at an abstract Unix socket, whose name is made of the program's and of its file's path. It answers its own
//! user and root with one JSON object. Such names belong to a network namespace, as the program's interfaces do.

use std::{
    collections::BTreeMap,
    fmt,
    io::{self, Read, Write},
    net::Ipv6Addr,
    os::{
        fd::{AsFd, BorrowedFd},
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener, UnixStream},
    },
    path::Path,
    thread,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use treecast_host::{unix, user};

use crate::{
    Prefix,
    message::{Preference, PrefixState},
};

use super::{Error, doing, event::TunnelEnd};

/// The longest time that an answer takes.
const PATIENCE: Duration = Duration::from_secs(5);

/// The status of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "program", rename_all = "lowercase")]
pub enum Status {
    Srms {
        stub: String,
        providers: Vec<Provider>,
        /// Each mDHCPv6 server and name server, and whether it knows the newest states.
        told: Vec<(String, bool)>,
        newest_stamp: u64,
        newest_epoch: u64,
    },
    Tms {
        name: String,
        tunnels: Vec<Tunnel>,
        /// The newest stamp of each stub.
        newest_stamps: BTreeMap<String, u64>,
    },
    Dhcp {
        name: String,
        /// The states of the stub's prefixes that the SRMS has told last.
        states: Vec<PrefixState>,
        links: Vec<Link>,
        newest_stamps: BTreeMap<String, u64>,
    },
    Dns {
        zone: String,
        serial: u32,
        networks: Vec<Network>,
        /// The time of each key's newest update, in seconds since 1970.
        newest_updates: BTreeMap<String, u64>,
    },
    /// The client of a host's interface, or mRCS.
    Addresses {
        interfaces: Vec<Interface>,
        /// The prefixes that the server has told last, and whether new connections should use each.
        prefixes: Vec<(Prefix, bool)>,
    },
    Watch {
        /// Each interface, and whether it is up.
        interfaces: Vec<(String, bool)>,
    },
}

/// An access link, its prefix, and its tunnel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provider {
    pub name: String,
    pub prefix: Prefix,
    pub preference: Preference,
    pub epoch: u64,
    /// `None`: nothing is known yet.
    pub is_up: Option<bool>,
    pub tunnel: Option<Tunnel>,
}

/// An end of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tunnel {
    #[serde(flatten)]
    pub end: TunnelEnd,
    /// The time until it is removed if nobody asks for it, in seconds. `None`: it stays.
    pub left_s: Option<u64>,
}

/// A link that an mDHCPv6 server serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    pub name: String,
    pub leases: Vec<Lease>,
    /// The counter of the last message that was signed. Zero: there was none.
    pub counter: u64,
}

/// An interface identifier that a client has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The client's DUID, in hexadecimal digits.
    pub duid: String,
    /// The identifier, as an address such as `::80`.
    pub ifid: Ipv6Addr,
    /// The time that is left of it, in seconds.
    pub left_s: u64,
}

/// A network of the stub, as the name server lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    pub name: String,
    pub prefixes: Vec<Prefix>,
    /// The blocks whose prefixes are discouraged.
    pub discouraged: Vec<Prefix>,
}

/// An interface whose addresses are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    pub name: String,
    /// Each address, and whether new connections should use it.
    pub addresses: Vec<(Ipv6Addr, bool)>,
}

/// The address at which a program is asked, made of its name and the path of its file.
pub fn address(program: &str, file: &Path) -> String {
    let path = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let hash = blake3::hash(path.as_os_str().as_encoded_bytes()).to_hex();
    format!("treecast-mast-{}-{program}", hash.get(..16).unwrap_or_default())
}

/// The address at which the client of an interface is asked.
pub fn address_of_host(interface: &str) -> String {
    format!("treecast-mast-host-{interface}")
}

/// Answers those who ask.
pub struct Listener(UnixListener);

impl Listener {
    pub fn open(address: &str) -> io::Result<Self> {
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(address)?)?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    /// Answers one who has asked. The answer is written by a thread: a slow reader holds nothing up.
    pub fn answer(&self, status: impl FnOnce() -> Status) {
        let Ok((stream, _)) = self.0.accept() else { return };
        if !is_friend(&stream) {
            return;
        }
        let Ok(text) = serde_json::to_vec(&status()) else { return };
        let write = move || {
            let timed = stream.set_nonblocking(false).and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
            // Whoever does not read gets nothing.
            _ = timed.and_then(|()| (&stream).write_all(&text));
        };
        _ = thread::Builder::new().name("status".into()).spawn(write);
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Asks a program. `None`: it does not run here.
pub fn ask(address: &str) -> Result<Option<Status>, Error> {
    let failed = |error: io::Error| doing(format!("cannot ask {address}"))(error);
    let mut stream = match unix::connect_at_once(address) {
        Ok(stream) => stream,
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if !is_friend(&stream) {
        return Err(Error::new(format!(
            "{address} is the socket of another user: ask as that user, or as root"
        )));
    }
    let mut text = Vec::new();
    let read = stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.read_to_end(&mut text));
    read.map_err(failed)?;
    if text.is_empty() {
        return Err(Error::new(format!("{address} does not answer: ask as the program's user, or as root")));
    }
    serde_json::from_slice(&text).map(Some).map_err(|error| failed(error.into()))
}

/// Whether the other end's user is this one, or root.
fn is_friend(stream: &UnixStream) -> bool {
    unix::peer(stream).is_ok_and(|peer| peer.user == 0 || peer.user == user::effective())
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Srms { stub, providers, told, newest_stamp, newest_epoch } => {
                write!(f, "SRMS of {stub}: newest stamp {newest_stamp}, newest epoch {newest_epoch}")?;
                providers.iter().try_for_each(|provider| write!(f, "\n  {provider}"))?;
                told.iter().try_for_each(|(server, knows)| {
                    let knows = if *knows {
                        "knows the newest states"
                    } else {
                        "does not know the newest states yet"
                    };
                    write!(f, "\n  {server} {knows}")
                })
            }
            Self::Tms { name, tunnels, newest_stamps } => {
                write!(f, "TMS of {name}: {} tunnels", tunnels.len())?;
                tunnels.iter().try_for_each(|tunnel| write!(f, "\n  {tunnel}"))?;
                write_newest(f, "stamp", newest_stamps)
            }
            Self::Dhcp { name, states, links, newest_stamps } => {
                write!(f, "mDHCPv6 server {name}")?;
                for PrefixState { prefix, preference, epoch } in states {
                    write!(f, "\n  {prefix} is {preference}, epoch {epoch}")?;
                }
                for Link { name, leases, .. } in links {
                    write!(f, "\n  {name}: {} leases", leases.len())?;
                    leases.iter().try_for_each(|Lease { duid, ifid, left_s }| {
                        write!(f, "\n    {ifid} for DUID {duid}, {left_s} s left")
                    })?;
                }
                write_newest(f, "stamp", newest_stamps)
            }
            Self::Dns { zone, serial, networks, newest_updates } => {
                write!(f, "name server of {zone}: serial {serial}")?;
                for Network { name, prefixes, discouraged } in networks {
                    write!(f, "\n  {name}: {}", list(prefixes))?;
                    if !discouraged.is_empty() {
                        write!(f, "; discouraged: {}", list(discouraged))?;
                    }
                }
                write_newest(f, "update", newest_updates)
            }
            Self::Addresses { interfaces, prefixes } => {
                write!(f, "prefixes: {}", if prefixes.is_empty() { "none yet" } else { "" })?;
                prefixes.iter().try_for_each(|(prefix, is_preferred)| {
                    write!(f, "\n  {prefix} is {}", preferred(*is_preferred))
                })?;
                for Interface { name, addresses } in interfaces {
                    addresses.iter().try_for_each(|(address, is_preferred)| {
                        write!(f, "\n  {address} on {name} is {}", preferred(*is_preferred))
                    })?;
                }
                Ok(())
            }
            Self::Watch { interfaces } => {
                f.write_str("interfaces that the SRMS is told about:")?;
                interfaces.iter().try_for_each(|(name, is_up)| write!(f, "\n  {name} is {}", up(*is_up)))
            }
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, prefix, preference, epoch, is_up, tunnel } = self;
        write!(f, "{name}: {prefix} is {preference}, epoch {epoch}; ")?;
        write!(f, "the link is {}; ", is_up.map_or("not known yet", up))?;
        match tunnel {
            Some(tunnel) => write!(f, "{tunnel}"),
            None => f.write_str("no tunnel"),
        }
    }
}

impl fmt::Display for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { end: TunnelEnd { peer, prefix, interface, kind, id, inner_own, inner_peer }, left_s } =
            self;
        write!(
            f,
            "tunnel {interface} ({kind} {id}) to {peer} for {prefix}: {inner_own} here, {inner_peer} there"
        )?;
        left_s.map_or(Ok(()), |left_s| write!(f, ", {left_s} s left"))
    }
}

fn up(is_up: bool) -> &'static str {
    if is_up { "up" } else { "down" }
}

fn preferred(is_preferred: bool) -> &'static str {
    if is_preferred { "preferred" } else { "discouraged" }
}

fn list(prefixes: &[Prefix]) -> String {
    prefixes.iter().map(Prefix::to_string).collect::<Vec<_>>().join(", ")
}

fn write_newest(f: &mut fmt::Formatter<'_>, what: &str, newest: &BTreeMap<String, u64>) -> fmt::Result {
    newest.iter().try_for_each(|(name, number)| write!(f, "\n  newest {what} of {name}: {number}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::TunnelKind;

    fn status() -> Status {
        let prefix: Prefix = "2001:db8:a:100::/56".parse().unwrap();
        let end = TunnelEnd {
            peer: "A".into(),
            prefix,
            interface: "mast1f".into(),
            kind: TunnelKind::Vxlan,
            id: 31,
            inner_own: "2001:db8:a:ff00::3f".parse().unwrap(),
            inner_peer: "2001:db8:a:ff00::3e".parse().unwrap(),
        };
        let provider = Provider {
            name: "A".into(),
            prefix,
            preference: Preference::Discouraged,
            epoch: 7,
            is_up: Some(false),
            tunnel: Some(Tunnel { end, left_s: None }),
        };
        let told = vec![("dhcp1".into(), true), ("[::1]:53".into(), false)];
        let (newest_stamp, newest_epoch) = (9, 7);
        Status::Srms { stub: "stub1".into(), providers: vec![provider], told, newest_stamp, newest_epoch }
    }

    #[test]
    fn a_program_answers_and_one_that_does_not_run_is_told_apart() {
        let name = format!("treecast-mast-test-{}", std::process::id());
        assert_eq!(ask(&name).unwrap(), None);
        let listener = Listener::open(&name).unwrap();
        let asking = thread::spawn(move || ask(&name).unwrap());
        treecast_host::poller::wait_readable([Some(listener.as_fd())], Duration::from_secs(60)).unwrap();
        listener.answer(status);
        assert_eq!(asking.join().unwrap(), Some(status()));
    }

    #[test]
    fn a_status_says_in_words_what_is_so() {
        let text = status().to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "SRMS of stub1: newest stamp 9, newest epoch 7");
        let provider = "  A: 2001:db8:a:100::/56 is discouraged, epoch 7; the link is down; tunnel mast1f (vxlan 31) to A for \
                        2001:db8:a:100::/56: 2001:db8:a:ff00::3f here, 2001:db8:a:ff00::3e there";
        assert_eq!(lines[1], provider);
        assert_eq!(
            lines[2..],
            ["  dhcp1 knows the newest states", "  [::1]:53 does not know the newest states yet"]
        );
    }

    #[test]
    fn each_file_has_addresses_of_its_own() {
        let one = address("srms", Path::new("/etc/a.toml"));
        assert!(one.starts_with("treecast-mast-") && one.ends_with("-srms"), "{one}");
        assert_ne!(one, address("srms", Path::new("/etc/b.toml")));
    }
}
