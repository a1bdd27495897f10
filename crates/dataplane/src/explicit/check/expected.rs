//! Translates what the reference models say into what the program must do: an answer, frames, and counts.

use std::net::Ipv6Addr;

use treecast_proto::explicit::{
    mead::router::{Dropped, Outcome, Refused, Router},
    xcast::router as xcast,
};

use super::network::{self, ENTRANCE, Exit};
use crate::explicit::{
    shared::{Counter, FIRST_REFUSED, FIRST_XCAST_REASON, FIRST_XCAST_REFUSED},
    user_space::{counter, xcast_counter},
};

/// The expected outcome of a packet.
pub struct Expected {
    /// The name of the outcome in the report.
    pub name: String,
    pub verdict: Verdict,
    /// The counters that must go up by one, each as often as it stands here.
    pub counters: Vec<usize>,
}

pub enum Verdict {
    Drop,
    /// The program must pass the packet on to the kernel, in this form.
    Pass(Vec<u8>),
    /// The program must send these copies.
    Leave(Vec<(Exit, Vec<u8>)>),
}

impl Expected {
    /// Returns what the model does with a packet and the padding after it. The packet came to this host's
    /// Ethernet address, or to that of all Xcast routers.
    pub fn of(router: &Router, packet: &[u8], is_for_all: bool) -> Self {
        let arrival = xcast::Arrival { interface: ENTRANCE, is_for_all };
        match xcast::forward(router, packet, arrival, &mut network::next_hop) {
            // What Xcast is not, MEADcast may be.
            xcast::Outcome::Pass => Self::of_mead(router, packet),
            outcome => Self::of_xcast(router, packet, outcome),
        }
    }

    fn new(name: &str, verdict: Verdict, counters: &[Counter]) -> Self {
        let mut counters: Vec<_> = counters.iter().map(|counter| *counter as usize).collect();
        if let Verdict::Leave(copies) = &verdict {
            let by_kernel = copies.iter().filter(|(way, _)| *way == Exit::Kernel);
            counters.extend(by_kernel.map(|_| Counter::ByKernel as usize));
        }
        Self { name: name.to_owned(), verdict, counters }
    }

    fn of_mead(router: &Router, packet: &[u8]) -> Self {
        let malformed = |reason: usize, name| {
            let other = router.is_of_other_dialect(packet).then_some(Counter::OtherDialect as usize);
            let counters = [reason].into_iter().chain(other).collect();
            Self { counters, ..Self::new(name, Verdict::Drop, &[]) }
        };
        match router.forward(packet, ENTRANCE, &mut network::next_hop) {
            Outcome::Pass => Self::new("passed on", Verdict::Pass(packet.to_vec()), &[]),
            Outcome::Request { passed_on, .. } => {
                let padded = [&passed_on[..], &packet[passed_on.len()..]].concat();
                Self::new("requests", Verdict::Pass(padded), &[Counter::Requests])
            }
            Outcome::Drop(Dropped::Malformed(reason)) => malformed(reason as usize, reason.name()),
            Outcome::Drop(Dropped::HopLimit) => Self::new("hop-limit", Verdict::Drop, &[Counter::HopLimit]),
            Outcome::Drop(Dropped::NothingToDeliver) => {
                Self::new("nothing-to-deliver", Verdict::Drop, &[Counter::NothingToDeliver])
            }
            Outcome::Drop(Dropped::NoListener) => {
                Self::new("no-listener", Verdict::Drop, &[Counter::Data, Counter::NoListener])
            }
            Outcome::Refuse(refused) => Self::refused("", FIRST_REFUSED, refused, packet),
            Outcome::Forward(copies) if is_limited(router, copies.len()) => {
                Self::refused("", FIRST_REFUSED, Refused::Limited, packet)
            }
            Outcome::Forward(copies) => {
                let kinds = copies.iter().map(|copy| counter(copy.kind));
                let counters: Vec<_> = [Counter::Data].into_iter().chain(kinds).collect();
                let leaving = copies.into_iter().map(|copy| leaving(copy.packet, copy.interface));
                Self::new("forwarded", Verdict::Leave(leaving.collect()), &counters)
            }
        }
    }

    fn refused(kind: &str, first: usize, refused: Refused, packet: &[u8]) -> Self {
        let verdict = if refused.ends_here() { Verdict::Drop } else { Verdict::Pass(packet.to_vec()) };
        let name = format!("{kind}{}", refused.name());
        Self { counters: vec![first + refused as usize], ..Self::new(&name, verdict, &[]) }
    }

    fn of_xcast(router: &Router, packet: &[u8], outcome: xcast::Outcome) -> Self {
        match outcome {
            xcast::Outcome::Pass => unreachable!("it is handed to MEADcast's model"),
            xcast::Outcome::Drop(xcast::Dropped::Malformed(reason)) => Self {
                counters: vec![FIRST_XCAST_REASON + reason as usize],
                ..Self::new(&format!("xcast {}", reason.name()), Verdict::Drop, &[])
            },
            xcast::Outcome::Drop(xcast::Dropped::HopLimit) => {
                Self::new("xcast hop-limit", Verdict::Drop, &[Counter::XcastHopLimit])
            }
            xcast::Outcome::Drop(xcast::Dropped::NoListener) => {
                Self::new("xcast no-listener", Verdict::Drop, &[Counter::XcastData, Counter::XcastNoListener])
            }
            xcast::Outcome::Drop(xcast::Dropped::ForOthers) => {
                Self::new("xcast for-others", Verdict::Drop, &[Counter::XcastData, Counter::XcastForOthers])
            }
            xcast::Outcome::Refuse(refused) => Self::refused("xcast ", FIRST_XCAST_REFUSED, refused, packet),
            xcast::Outcome::Forward(copies) if is_limited(router, copies.len()) => {
                Self::refused("xcast ", FIRST_XCAST_REFUSED, Refused::Limited, packet)
            }
            xcast::Outcome::Forward(copies) => {
                let kinds = copies.iter().map(|copy| xcast_counter(copy.kind));
                let counters: Vec<_> = [Counter::XcastData].into_iter().chain(kinds).collect();
                let leaving = copies.into_iter().map(|copy| leaving(copy.packet, copy.interface));
                Self::new("xcast forwarded", Verdict::Leave(leaving.collect()), &counters)
            }
        }
    }
}

/// Whether so many copies are more than may be made at once. Where there is a limit, no source comes twice.
fn is_limited(router: &Router, copies: usize) -> bool {
    let most = router.guard.copies_per_second;
    most > 0 && copies as u64 > u64::from(most)
}

/// A copy, and how it leaves: to a group by the interface that is named.
fn leaving(packet: Vec<u8>, interface: Option<u32>) -> (Exit, Vec<u8>) {
    let octets: [u8; 16] = packet[24..40].try_into().expect("16 bytes");
    let way = match interface {
        Some(interface) => {
            Exit::Direct(interface, [0x33, 0x33, octets[12], octets[13], octets[14], octets[15]])
        }
        None => network::way(Ipv6Addr::from(octets)),
    };
    (way, packet)
}
