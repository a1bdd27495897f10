//! A router's departure without loss. The router stops answering discovery, tells the senders whose requests
//! it has answered, and forwards data as long as some arrives for its receivers.
//!
//! The caller tells [`Departure`] all the time which requests the router answers and how many packets it
//! serves. From [`Departure::begin`] on, [`Departure::poll`] says which senders to tell, and when to go. A
//! sender that is told looks for routers at once ([`super::super::sender`]). A sender that does not know the
//! message finds other routers with its next discovery.

use std::{collections::BTreeMap, net::Ipv6Addr, time::Duration};

use super::Request;
use crate::Instant;

/// The time for which nobody must have been served before the router goes. Senders look for routers every 5 s
/// unless set otherwise, and wait 2 s for answers. So within this time even a sender that seldom sends has
/// changed to other routers.
pub const QUIET: Duration = Duration::from_secs(8);

/// Senders are told so long after the beginning. A packet may be lost.
const TELLINGS: [Duration; 3] = [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(3)];

/// Senders that were answered longer ago have ended, or have other routers: they ask every minute at the least often.
const MEMORY: Duration = Duration::from_secs(130);

/// Senders that are remembered. More are not told, and change over by themselves.
const MAX_SENDERS: usize = 1024;

/// The senders that use a router, and whether the router is leaving.
#[derive(Debug, Default)]
pub struct Departure {
    /// Senders with their last requests, and when those were answered.
    senders: BTreeMap<Ipv6Addr, (Instant, Request)>,
    /// Packets that the router has sent to its own receivers so far, and when they last became more.
    served: u64,
    served_at: Option<Instant>,
    leaving: Option<Leaving>,
}

#[derive(Debug, Clone, Copy)]
struct Leaving {
    began: Instant,
    ends: Instant,
    /// The number of [`TELLINGS`] that are done.
    told: usize,
}

/// An action that [`Departure::poll`] asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Act {
    /// Answer these requests with [`Request::farewell`].
    Tell(Vec<Request>),
    /// Stop forwarding. `is_late`: the router still served somebody, but its time is up.
    Go {
        /// Whether the time was over before the last sender had changed over.
        is_late: bool,
    },
}

impl Departure {
    /// Takes note that the router has answered a request.
    pub fn answered(&mut self, now: Instant, request: &Request) {
        if self.senders.len() < MAX_SENDERS || self.senders.contains_key(&request.sender) {
            self.senders.insert(request.sender, (now, request.clone()));
        }
    }

    /// Takes note of how many packets the router has sent to its own receivers since it started. The caller
    /// reports this about every second.
    pub fn served(&mut self, now: Instant, packets: u64) {
        if packets != self.served {
            self.served = packets;
            self.served_at = Some(now);
        }
        self.senders.retain(|_, (answered, _)| now - *answered < MEMORY);
    }

    /// Begins to leave: the router answers no more discovery, and goes `within` this time. Has no effect when
    /// the router is leaving already.
    pub fn begin(&mut self, now: Instant, within: Duration) {
        self.leaving.get_or_insert(Leaving { began: now, ends: now + within, told: 0 });
    }

    /// Ends the departure: the router stays.
    pub fn cancel(&mut self) {
        self.leaving = None;
    }

    /// Returns for how long the router has been leaving, and how long that may take at most.
    pub fn progress(&self, now: Instant) -> Option<(Duration, Duration)> {
        self.leaving.map(|leaving| (now - leaving.began, leaving.ends - now))
    }

    /// Returns the next action, or none when there is nothing to do now.
    pub fn poll(&mut self, now: Instant) -> Option<Act> {
        let goes_at = self.goes_at()?;
        let leaving = self.leaving.as_mut()?;
        if now >= goes_at {
            let is_late = self.served_at.is_some_and(|at| at + QUIET > now) && leaving.ends > leaving.began;
            self.leaving = None;
            return Some(Act::Go { is_late });
        }
        if now < leaving.began + *TELLINGS.get(leaving.told)? {
            return None;
        }
        leaving.told += 1;
        Some(Act::Tell(self.senders.values().map(|(_, request)| request.clone()).collect()))
    }

    /// Returns when [`Self::poll`] has something to do, unless something happens before.
    pub fn deadline(&self) -> Option<Instant> {
        let leaving = self.leaving?;
        let telling = TELLINGS.get(leaving.told).map(|after| leaving.began + *after);
        telling.into_iter().chain(self.goes_at()).min()
    }

    fn goes_at(&self) -> Option<Instant> {
        let Leaving { began, ends, .. } = self.leaving?;
        // A sender that has been answered may send at any moment.
        let used_at = self.served_at.max((!self.senders.is_empty()).then_some(began));
        Some(used_at.map_or(began, |at| at + QUIET).min(ends))
    }
}

#[cfg(test)]
mod tests {
    use treecast_wire::{
        ipv6::{self, next_header},
        mead::{Dialect, Header},
    };

    use super::*;
    use crate::explicit::mead::router::{Outcome, Router};

    const WITHIN: Duration = Duration::from_secs(75);

    fn at(seconds: f64) -> Instant {
        Instant::ZERO + Duration::from_secs_f64(seconds)
    }

    /// The request of a sender.
    fn request(sender: u16) -> Request {
        let node = |number| Ipv6Addr::new(0xfd14, 0, 0, 1, 0, 0, 0, number);
        let header = Header::request(node(1)).to_bytes(Dialect::Rfc);
        let packet = ipv6::Header::new(node(sender), node(1), next_header::ROUTING).packet(&[&header]);
        let router = Router { is_enabled: true, ..Router::default() };
        match router.forward(&packet, 1, &mut |_| None) {
            Outcome::Request { request, .. } => request,
            other => panic!("{other:?}"),
        }
    }

    /// Lets time pass by steps of a tenth of a second. Returns when it goes, whether it is late, and how often it has told whom.
    fn go(
        departure: &mut Departure,
        from: f64,
        mut served: impl FnMut(f64) -> u64,
    ) -> (f64, bool, Vec<usize>) {
        let mut tellings = Vec::new();
        for tenths in 0.. {
            let seconds = from + f64::from(tenths) / 10.0;
            departure.served(at(seconds), served(seconds));
            match departure.poll(at(seconds)) {
                Some(Act::Go { is_late }) => return (seconds, is_late, tellings),
                Some(Act::Tell(requests)) => tellings.push(requests.len()),
                None => assert!(departure.deadline().is_some_and(|deadline| deadline > at(seconds))),
            }
        }
        unreachable!("it goes some time")
    }

    #[test]
    fn a_router_that_nobody_uses_goes_at_once() {
        let mut departure = Departure::default();
        assert_eq!(departure.poll(at(0.0)), None, "it stays");
        departure.served(at(1.0), 100);
        departure.begin(at(20.0), WITHIN);
        assert_eq!(departure.poll(at(20.0)), Some(Act::Go { is_late: false }));
        assert_eq!(departure.poll(at(20.0)), None, "once");
    }

    #[test]
    fn it_goes_when_the_last_sender_has_changed_over() {
        let mut departure = Departure::default();
        departure.answered(at(9.0), &request(7));
        departure.answered(at(9.5), &request(8));
        departure.begin(at(10.0), WITHIN);
        let served = |seconds: f64| (seconds.min(13.0) * 10.0) as u64;
        let (gone, is_late, tellings) = go(&mut departure, 10.0, served);
        assert!((20.9..21.2).contains(&gone) && !is_late, "{gone}");
        assert_eq!(tellings, [2, 2, 2]);
    }

    #[test]
    fn senders_that_send_seldom_are_waited_for_and_long_silent_ones_are_not() {
        let mut departure = Departure::default();
        departure.answered(at(0.0), &request(7));
        departure.begin(at(100.0), WITHIN);
        assert_eq!(go(&mut departure, 100.0, |_| 0).0, 108.0);
        departure.served(at(131.0), 0);
        departure.begin(at(131.0), WITHIN);
        assert_eq!(go(&mut departure, 131.0, |_| 0).0, 131.0);
    }

    #[test]
    fn it_does_not_wait_for_ever_and_may_stay_after_all() {
        let served = |seconds: f64| (seconds * 10.0) as u64;
        let mut departure = Departure::default();
        departure.begin(at(0.0), WITHIN);
        let (gone, is_late, _) = go(&mut departure, 0.1, served);
        assert!((75.0..75.2).contains(&gone) && is_late, "{gone}");
        departure.begin(at(80.0), Duration::ZERO);
        assert_eq!(departure.poll(at(80.0)), Some(Act::Go { is_late: false }), "as it was told to");
        departure.begin(at(81.0), WITHIN);
        assert_eq!(departure.progress(at(82.0)), Some((Duration::from_secs(1), Duration::from_secs(74))));
        departure.cancel();
        assert_eq!((departure.poll(at(400.0)), departure.progress(at(400.0))), (None, None));
    }
}
