//! The observations of a run.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use super::{
    groups::Groups,
    message::{Ear, Header, Heard, Host},
    plan::{self, Test, What},
};
use crate::{finding::Finding, host::Querier};

/// The time after a leave in which groups usually end: two queries with a second each to answer (RFC 9776, section 8.8), and more.
pub(super) const USUAL_LEAVE: Duration = Duration::from_millis(3500);
/// The time after a leave in which they must have ended.
pub(super) const STILL: Duration = Duration::from_secs(10);

/// The largest number of paths that are traced.
const MAX_TRACES: usize = 6;

/// All that was seen in a run. The first host is the doctor's own.
#[derive(Debug, Clone, Default)]
pub struct Observation {
    pub hosts: Vec<Host>,
    /// The findings of each host about itself, and the queriers that it heard.
    pub examined: Vec<(Vec<Finding>, Vec<Querier>)>,
    pub(super) groups: Groups,
    pub(super) tests: Vec<Test>,
    pub(super) ears: Vec<Ear>,
    /// Hosts that take no part: how they were named, why, and what to do about it, unless it is the usual.
    pub unreachable: Vec<(String, String, Option<&'static str>)>,
    /// Hosts that cannot be reached by unicast in a family, and why.
    pub(super) no_unicast: Vec<(usize, bool, String)>,
    pub(super) traces: Vec<Trace>,
    /// Hosts that went away in mid-run.
    pub(super) gone: BTreeSet<usize>,
}

/// The routers between two hosts, and how far packets with an extension header come.
#[derive(Debug, Clone)]
pub(super) struct Trace {
    pub from: usize,
    pub to: usize,
    pub plain: Vec<Option<IpAddr>>,
    pub with_header: Vec<Option<IpAddr>>,
}

impl Observation {
    /// The packets of a test of `sender` that a program on `host` got.
    pub(super) fn delivered(&self, host: usize, sender: usize, test: usize) -> Option<&Heard> {
        find(&self.ears[host].delivered, sender, test, false)
    }

    /// The number of different packets of a test that came to the interface of `host`. `None` if it could not look.
    pub(super) fn arrived(&self, host: usize, sender: usize, test: usize) -> Option<u32> {
        let captured = self.ears[host].captured.as_ref()?;
        Some(find(captured, sender, test, false).map_or(0, |heard| heard.packets))
    }

    /// The packets of a test that came to the interface of `host`, with details.
    pub(super) fn captured(&self, host: usize, sender: usize, test: usize) -> Option<&Heard> {
        find(self.ears[host].captured.as_ref()?, sender, test, false)
    }

    /// The number of routers between two hosts, by the hop limit of plain unicast. `None` if that does not arrive.
    fn routers(&self, from: usize, to: usize) -> Option<u8> {
        let plain =
            self.tests.iter().position(|test| *test == Test { what: What::Unicast, is_ipv4: false })?;
        Some(plan::HOP_LIMIT.saturating_sub(self.delivered(to, from, plain)?.hop_limit))
    }

    /// The pairs of hosts between which packets with an extension header get lost, with one such header, and the number of routers.
    pub(super) fn lost_headers(&self) -> BTreeMap<(usize, usize), (Header, u8)> {
        let mut lost = BTreeMap::new();
        for (number, test) in self.tests.iter().enumerate() {
            let What::Header(header) = test.what else { continue };
            for from in (0..self.hosts.len()).filter(|from| self.hosts[*from].is_root) {
                for to in plan::unicast_peers(&self.hosts, from) {
                    let is_lost = self.delivered(to, from, number).is_none()
                        && self.arrived(to, from, number).unwrap_or(0) == 0;
                    if let Some(routers) =
                        self.routers(from, to).filter(|_| is_lost && lost.len() < MAX_TRACES)
                    {
                        lost.insert((from, to), (header, routers));
                    }
                }
            }
        }
        lost
    }

    /// Whether packets were exchanged between any two hosts. Hosts that share no family exchange none.
    pub fn has_tested(&self) -> bool {
        let is_here = |host: &usize| !self.gone.contains(host);
        let here = || (0..self.hosts.len()).filter(is_here);
        let shares = |one: usize, other: usize| {
            [true, false].iter().any(|is_ipv4| {
                self.hosts[one].address(*is_ipv4).is_some() && self.hosts[other].address(*is_ipv4).is_some()
            })
        };
        self.ears.len() == self.hosts.len()
            && here().any(|one| here().any(|other| one != other && shares(one, other)))
    }

    /// Leaves a host out from now on.
    pub(super) fn lose(&mut self, host: usize, why: String) {
        if self.gone.insert(host) {
            self.unreachable.push((self.hosts[host].name.clone(), why, None));
        }
    }

    /// The packets of a test that left their sender: `None` if it could not look.
    pub(super) fn left(&self, sender: usize, test: usize) -> Option<Heard> {
        let captured = self.ears[sender].captured.as_ref()?;
        Some(find(captured, sender, test, true).cloned().unwrap_or_default())
    }
}

fn find(heard: &[Heard], sender: usize, test: usize, is_own: bool) -> Option<&Heard> {
    heard
        .iter()
        .find(|it| usize::from(it.sender) == sender && usize::from(it.test) == test && it.is_own == is_own)
}
