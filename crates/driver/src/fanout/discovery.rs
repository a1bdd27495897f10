//! Finds receivers that could share packets: with MEADcast by discovery of the routers on the paths to a
//! session's receivers, with Xcast by their addresses. ICMPv6 errors about the packets are handled as by
//! `treecast mead`. Lists are as short as the narrowest path needs, and receivers whose lists are refused are
//! in no list for a minute.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    os::fd::BorrowedFd,
    sync::Arc,
};

use treecast_host::interface::is_on_link;
use treecast_proto::{
    Instant,
    explicit::{
        finder::{self, Finder},
        lists::{List, planned},
        mead::sender::{Config, Event, Sender},
        xcast::sender as xcast,
    },
    fanout::{Plan, Way},
};
use treecast_wire::ipv6::{self, is_forwardable};

use super::{
    Kind, Lists, NAMED,
    lists::{Common, SharedList},
};
use crate::{
    explicit::{KeyWatch, News, carry_out, no_router_has_key},
    remedies::Advised,
    security::random,
    udp::NarrowWay,
    words::some_of,
};

/// Finds lists of receivers that could share packets.
#[derive(Debug)]
pub(crate) struct Discovery {
    how: Lists,
    /// Length of a full packet behind its IPv6 header, in bytes.
    payload_bytes: usize,
    source_port: u16,
    heeds_marks: bool,
    /// Says who is in which list; none before there is anybody.
    machine: Option<Finder>,
    /// The receivers at each address. The first of them is served by lists.
    hosts: BTreeMap<Ipv6Addr, Vec<(u32, u16)>>,
    lists: Vec<List>,
    has_news: bool,
    /// The watch over the domain's key. `None` without such a key, and once the user has been warned.
    key_watch: Option<KeyWatch>,
    /// Warnings for the user ...
    warnings: Vec<Advised>,
    /// ... and about which ways.
    narrow: Vec<NarrowWay>,
}

impl Discovery {
    /// Creates a discovery for datagrams of at most `datagram_len` bytes that leave from `source_port`.
    /// `heeds_marks` says whether routers may mark packets instead of dropping them.
    pub fn new(how: Lists, datagram_len: usize, source_port: u16, heeds_marks: bool) -> Self {
        Self {
            key_watch: how.sharing.key.as_ref().map(|_| KeyWatch::default()),
            how,
            payload_bytes: 8 + datagram_len,
            source_port,
            heeds_marks,
            machine: None,
            hosts: BTreeMap::new(),
            lists: Vec::new(),
            has_news: false,
            warnings: Vec::new(),
            narrow: Vec::new(),
        }
    }

    /// Returns the way that serves this discovery's lists: MEADcast or Xcast.
    pub fn way(&self) -> Way {
        self.how.kind.way()
    }

    /// Asks for routers on the paths to receivers that are known before they come. They will listen at `port`,
    /// if they can.
    pub fn expect(&mut self, now: Instant, port: u16) -> io::Result<()> {
        if self.how.kind == Kind::Xcast {
            return Ok(());
        }
        for ip in self.how.expected.clone() {
            self.machine(now)?.join(now, ip, port, is_on_link);
        }
        Ok(())
    }

    fn machine(&mut self, now: Instant) -> io::Result<&mut Finder> {
        if self.machine.is_none() {
            self.machine = Some(match self.how.kind {
                Kind::Mead => {
                    Finder::Mead(Box::new(Sender::new(now, config(&self.how, self.payload_bytes)?)))
                }
                Kind::Xcast => {
                    let max = self.how.limits.max;
                    let config = xcast::Config { max, channel: None, key: None };
                    Finder::Xcast(Box::new(xcast::Sender::new(config)))
                }
            });
        }
        self.machine.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Whether nothing is known yet, but will be soon.
    pub fn is_first(&self) -> bool {
        let awaits = |machine: &Finder| machine.counters().discoveries == 0;
        self.how.kind == Kind::Mead && self.machine.as_ref().is_some_and(awaits)
    }

    /// Notes that a receiver hears packets at `address`. Returns false if no list can reach that address.
    pub fn join(&mut self, now: Instant, receiver: u32, address: SocketAddr) -> io::Result<bool> {
        let IpAddr::V6(ip) = address.ip() else { return Ok(false) };
        if !is_forwardable(ip) {
            return Ok(false);
        }
        let here = self.hosts.entry(ip).or_default();
        here.push((receiver, address.port()));
        let is_first = here.len() == 1;
        self.has_news = true;
        if is_first {
            self.machine(now)?.join(now, ip, address.port(), is_on_link);
        }
        Ok(true)
    }

    pub fn leave(&mut self, now: Instant, receiver: u32) {
        self.has_news = true;
        let Some(machine) = &mut self.machine else { return };
        let is_expected = |ip: &Ipv6Addr| self.how.kind == Kind::Mead && self.how.expected.contains(ip);
        self.hosts.retain(|ip, here| {
            let first = here.first().copied();
            here.retain(|(other, _)| *other != receiver);
            match here.first() {
                None if is_expected(ip) => {}
                None => machine.leave(now, *ip),
                Some(next) if first != Some(*next) => machine.join(now, *ip, next.1, is_on_link),
                Some(_) => {}
            }
            !here.is_empty()
        });
    }

    /// The socket for routers' responses. With Xcast, which has none, the one for errors.
    pub fn responses(&self) -> Option<BorrowedFd<'_>> {
        self.how.hearing.sockets().next()
    }

    /// Reads routers' responses, and their errors about packets.
    pub fn hear(&mut self, now: Instant) -> io::Result<()> {
        self.how.hearing.hear(now, self.machine.as_mut()).map(drop)
    }

    /// Sends requests that are due. Returns the time when there is more to do.
    pub fn carry_out(&mut self, now: Instant) -> Option<Instant> {
        let machine = self.machine.as_mut()?;
        let (news, deadline) = carry_out(machine, now, &self.how.form, &self.how.out.packets);
        for news in news {
            match news {
                // A request that does not leave is a router that is not found.
                News::Asked { .. } => {}
                News::Event(Event::Group(group)) => {
                    self.lists = group.fitted_lists(&self.how.form, self.payload_bytes);
                    self.has_news = true;
                }
                // A receiver that hears nothing for that is back at unicast, of which the kernel makes fragments.
                News::Event(Event::Narrow(receivers, mtu)) => {
                    let longest = ipv6::HEADER_LEN + self.payload_bytes;
                    let way =
                        |to: Ipv6Addr| NarrowWay { to: to.into(), mtu_bytes: mtu, packet_bytes: longest };
                    self.narrow.extend(receivers.into_iter().filter(|_| longest > mtu).map(way));
                }
                News::Event(Event::Unreachable(receivers, why)) => {
                    let line = format!("{} cannot be reached: {why}", some_of(&receivers, NAMED));
                    self.warnings.push(line.into());
                }
                News::Event(Event::Discovered) => {
                    let counters = machine.counters();
                    if self.key_watch.take_if(|watch| watch.misses_key(counters)).is_some() {
                        self.warnings.push(no_router_has_key());
                    }
                }
            }
        }
        deadline
    }

    /// Takes warnings for the user.
    pub fn take_warnings(&mut self) -> Vec<Advised> {
        std::mem::take(&mut self.warnings)
    }

    /// Takes receivers that were lately found to have a path too narrow for full packets.
    pub fn take_narrow(&mut self) -> Vec<NarrowWay> {
        std::mem::take(&mut self.narrow)
    }

    /// Takes the receivers of each list, if the lists have changed.
    pub fn take_lists(&mut self) -> Option<Vec<Vec<u32>>> {
        let number = |ip: &Ipv6Addr| self.hosts.get(ip)?.first().map(|(receiver, _)| *receiver);
        let members = |list: &List| list.receivers().filter_map(|ip| number(&ip)).collect::<Vec<_>>();
        std::mem::take(&mut self.has_news).then(|| self.lists.iter().map(members).collect())
    }

    /// The lists of a plan, each with those of its receivers that are in the plan.
    pub fn planned(&self, plan: &Plan) -> Vec<Arc<SharedList>> {
        let ports: BTreeMap<_, _> =
            self.hosts.iter().filter_map(|(ip, here)| Some((*ip, here.first()?.1))).collect();
        let mut form = self.how.form.clone();
        let mut others = ports.values();
        let first = others.next();
        form.has_ports = others.any(|port| Some(port) != first);
        let common = Common {
            out: Arc::clone(&self.how.out),
            way: self.way(),
            form,
            ports,
            source_port: self.source_port,
            heeds_marks: self.heeds_marks,
        };
        let number = |ip: Ipv6Addr| self.hosts.get(&ip)?.first().map(|(receiver, _)| *receiver);
        let lists = planned(&self.lists, &plan.lists, number);
        lists.into_iter().map(|list| Arc::new(SharedList::new(&common, list))).collect()
    }
}

fn config(how: &Lists, payload_bytes: usize) -> io::Result<Config> {
    Ok(Config {
        source: how.form.source,
        algorithm: how.sharing.algorithm(&how.form, payload_bytes),
        parameters: how.limits,
        delay: finder::DISCOVERY_DELAY,
        interval: finder::DISCOVERY_INTERVAL,
        timeout: finder::DISCOVERY_TIMEOUT,
        waits_for_traffic: false,
        requests_per_second: finder::REQUESTS_PER_SECOND,
        designated: None,
        key: how.sharing.key.clone(),
        seed: random()?,
    })
}
