//! Sees to it that no two routers serve the same interface.
//!
//! A router that was killed leaves its program at its interfaces, and the next router takes it over. The
//! program of a running router looks the same, but must be left alone. So a router opens an abstract Unix
//! socket for each interface that it serves. Such sockets belong to a network namespace, like the numbers of
//! interfaces, and disappear with their process however it ends (unix(7)).

use std::{
    collections::BTreeMap,
    io::{self, ErrorKind},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
};

use super::Error;
use treecast_host::{interface::Interface, unix};

/// The interfaces, by number, that this process has claimed. No other router serves them while this value
/// exists.
#[derive(Debug, Default)]
pub struct Claims(BTreeMap<u32, UnixListener>);

impl Claims {
    /// Claims an interface. Returns whether this router has it now.
    pub fn take(&mut self, interface: u32) -> Result<bool, Error> {
        if self.0.contains_key(&interface) {
            return Ok(true);
        }
        let bound =
            SocketAddr::from_abstract_name(name(interface)).and_then(|at| UnixListener::bind_addr(&at));
        match bound {
            Ok(listener) => self.0.insert(interface, listener),
            Err(error) if error.kind() == ErrorKind::AddrInUse => return Ok(false),
            Err(source) => {
                return Err(Error::System { what: "cannot claim an interface for this router", source });
            }
        };
        Ok(true)
    }

    /// Gives up the claims on interfaces for which `is_kept` returns false.
    pub fn retain(&mut self, is_kept: impl Fn(u32) -> bool) {
        self.0.retain(|index, _| is_kept(*index));
    }
}

/// Returns the error that another router serves an interface.
pub fn refusal(interface: &Interface) -> Error {
    Error::Served { name: interface.name.clone(), by: who(interface) }
}

/// Returns in words which process serves an interface that is taken.
pub fn who(interface: &Interface) -> String {
    // A process of another PID namespace has no number here.
    let process = owner(interface.index).ok().filter(|process| *process != 0);
    process.map_or_else(|| "in another container".into(), |process| format!("pid {process}"))
}

/// Whether a running router serves this interface.
pub fn is_taken(interface: u32) -> bool {
    // Where nobody listens, the name is refused. Whoever has no place for one more who asks is there.
    !matches!(owner(interface), Err(error) if error.kind() == ErrorKind::ConnectionRefused)
}

fn owner(interface: u32) -> io::Result<i32> {
    // Its owner takes no connections: when many have asked, there is no place for one more, and nothing to wait for.
    Ok(unix::peer(&unix::connect_at_once(&name(interface))?)?.process)
}

fn name(interface: u32) -> String {
    format!("treecast-router-interface-{interface}")
}
