//! `watch`: tells an SRMS on another host which interfaces of this router are up (SNMP informs, RFC 3416). It is for routers without
//! an SNMP agent of their own.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use treecast_host::{
    clock,
    netlink::{Monitor, Netlink},
};
use treecast_wire::snmp::{LinkNotice, parse_notice_answer};

use crate::errand::Errand;

use super::{
    Error, Event, Tell,
    config::{Config, Watch},
    doing, sockets,
    srms::COMMUNITY,
    status::Status,
};

/// The time between two notifications of the same state. An SRMS that was started anew learns it then.
const REFRESH: Duration = Duration::from_secs(30);

/// An interface, and what the SRMS knows of it.
struct Watched {
    name: String,
    index: u32,
    is_up: Option<bool>,
    errand: Errand,
    /// The number of the last notification.
    number: i64,
}

/// The socket and state of the program.
pub struct Daemon {
    interfaces: Vec<Watched>,
    community: Vec<u8>,
    srms: SocketAddr,
    socket: UdpSocket,
    netlink: Netlink,
    monitor: Monitor,
    numbers: i64,
}

impl Daemon {
    pub fn new(config: &Config) -> Result<Self, Error> {
        let watch = config.file.watch.as_ref();
        let watch = watch.ok_or_else(|| Error::new("the file has no section [watch]".into()))?;
        let now = clock::monotonic();
        let watched = |name: &String| Watched {
            name: name.clone(),
            index: 0,
            is_up: None,
            errand: Errand::at(now),
            number: 0,
        };
        let mut daemon = Self {
            interfaces: watch.interfaces.iter().map(watched).collect(),
            community: watch.community.as_deref().unwrap_or(COMMUNITY).as_bytes().to_vec(),
            srms: watch.srms,
            socket: sockets::open(from(watch))?,
            netlink: Netlink::open().map_err(doing("cannot ask the kernel"))?,
            monitor: Monitor::open().map_err(doing("cannot watch the interfaces"))?,
            // Numbers of an earlier run are not used again.
            numbers: (super::unix_us() >> 10) as i64 & i64::from(i32::MAX >> 1),
        };
        daemon.look(None)?;
        let missing = daemon.interfaces.iter().find(|it| it.index == 0);
        missing.map_or(Ok(()), |it| Err(Error::new(format!("interface {} does not exist here", it.name))))?;
        Ok(daemon)
    }

    /// Takes note of the interfaces' states.
    fn look(&mut self, mut tell: Option<Tell<'_>>) -> Result<(), Error> {
        let interfaces = self.netlink.interfaces().map_err(doing("cannot list the interfaces"))?;
        for watched in &mut self.interfaces {
            let found = interfaces.values().find(|it| it.name == watched.name);
            // One that is gone is down, and was known by this number.
            watched.index = found.map_or(watched.index, |it| it.index);
            let is_up = found.is_some_and(|it| it.is_running);
            if watched.is_up.replace(is_up) != Some(is_up) {
                watched.errand = Errand::at(clock::monotonic());
                watched.number = 0;
                if let Some(tell) = &mut tell {
                    tell(Event::Link { provider: watched.name.clone(), is_up });
                }
            }
        }
        Ok(())
    }
}

impl super::Daemon for Daemon {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.socket.as_fd(), self.monitor.as_fd()]
    }

    fn read(&mut self, index: usize, tell: Tell<'_>) -> Result<(), Error> {
        if index == 1 {
            let changes = self.monitor.changes().map_err(doing("cannot watch the interfaces"))?;
            return if changes.interfaces { self.look(Some(tell)) } else { Ok(()) };
        }
        let mut numbers = Vec::new();
        sockets::read(&self.socket, |bytes, from| {
            let is_srms = from.from.ip().to_canonical() == self.srms.ip().to_canonical();
            numbers.extend(parse_notice_answer(bytes, &self.community).filter(|_| is_srms));
        });
        for watched in self.interfaces.iter_mut().filter(|it| numbers.contains(&it.number)) {
            watched.errand.done(clock::monotonic(), REFRESH);
        }
        Ok(())
    }

    fn status(&self) -> Status {
        let interface = |it: &Watched| (it.name.clone(), it.is_up == Some(true));
        Status::Watch { interfaces: self.interfaces.iter().map(interface).collect() }
    }

    fn work(&mut self, _tell: Tell<'_>) -> Result<Option<Duration>, Error> {
        let now = clock::monotonic();
        for watched in &mut self.interfaces {
            let Some(is_up) = watched.is_up.filter(|_| watched.errand.try_now(now)) else { continue };
            self.numbers += 1;
            watched.number = self.numbers;
            let notice = LinkNotice {
                community: self.community.clone(),
                number: watched.number,
                wants_answer: true,
                interface: watched.index,
                is_up,
            };
            // It is sent again until it is answered.
            _ = self.socket.send_to(&notice.to_bytes((now.as_millis() / 10) as u32), self.srms);
        }
        Ok(self.interfaces.iter().map(|it| it.errand.due()).min())
    }
}

/// The address that notifications come from.
fn from(watch: &Watch) -> SocketAddr {
    let any: IpAddr =
        if watch.srms.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    SocketAddr::new(watch.from.unwrap_or(any), 0)
}
