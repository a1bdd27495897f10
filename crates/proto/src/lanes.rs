//! Which of a session's groups serves a receiver, where the sender decides: nobody waits for a slower one.
//!
//! Each group is a lane with a congestion control of its own, which follows the slowest receiver of the lane. All receivers begin in lane 0.
//! When one receiver alone limits a lane, a *trial* shows what the others gain without it: it is set aside, so that its
//! reports limit nothing, and the rate grows. If the rate stays at [`WORTH`] times what the receiver bears, the receiver moves to another
//! lane. If somebody else limits the rate before that, it is set aside, too, while those aside are a minority. Otherwise all count again, and
//! the next trial comes after twice as long. While many others say that they bear about as little, no trial begins: equal receivers
//! cost nothing.
//!
//! Lanes other than lane 0 are empty at first. A receiver goes to the lane whose rate is next to what it bears, or to an empty one. The
//! members of a lane that bears nearly as much as a faster one go back there.

use std::{collections::BTreeMap, time::Duration};

use crate::Instant;

/// How much faster the others must be able to go, as a multiple of what the slow receivers bear.
pub const WORTH: f64 = 1.5;

/// A lane that bears this share of a faster one's rate is not worth its bytes.
const NEARLY: f64 = 0.75;

/// The shortest time, and the fewest rounds of feedback, for which the others must be able to go faster before a receiver moves.
const SHORTEST_WORTH: Duration = Duration::from_millis(100);
const WORTH_ROUNDS: u32 = 3;

/// The shortest time for which one receiver limits a lane before a trial begins; no less than [`LOOK_ROUNDS`] rounds of feedback.
const SHORTEST_LIMITING: Duration = Duration::from_millis(200);

/// The rounds of feedback over which the receivers are counted that are in the same trouble. Of equal receivers, about one speaks in a round.
pub const LOOK_ROUNDS: u32 = 8;

/// The largest share of a lane's receivers that may be in the same trouble as the one that limits it.
const MINORITY: f64 = 0.25;

/// The shortest time, and the fewest round trips, for which a lane is nearly as fast as another before its members go there.
const SHORTEST_NEARLY: Duration = Duration::from_secs(2);
const NEARLY_ROUND_TRIPS: u32 = 20;

/// A trial that has shown nothing after this time, or after so many round trips, has failed.
const LONGEST_TRIAL: Duration = Duration::from_millis(1500);
const TRIAL_ROUND_TRIPS: u32 = 24;

/// The pause after a failed trial, and the longest one. Each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(4);
const LAST_PAUSE: Duration = Duration::from_secs(256);

/// How long a receiver stays in a lane before it goes back to a faster one, at first and at most. It doubles each time.
const FIRST_STAY: Duration = Duration::from_secs(3);
const LAST_STAY: Duration = Duration::from_secs(192);

/// The most receivers that are set aside together.
const MOST_ASIDE: usize = 16;

/// A lane with members that are silent for this long does not reach them.
const SILENCE: Duration = Duration::from_secs(3);

/// What a lane's congestion control says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lane {
    pub rate_bps: u64,
    /// The receiver that limits the rate, and how much it bears. `None` if nobody does.
    pub limiting: Option<(u32, u64)>,
    pub round_trip: Duration,
    /// Whether the lane sends as much as it may.
    pub is_used: bool,
    /// When a member last said anything about the rate. `None` if nobody has.
    pub heard: Option<Instant>,
    /// How many other receivers have said in the last [`LOOK_ROUNDS`] rounds of feedback that they bear less than [`WORTH`] times as much
    /// as the one that limits the rate. Receivers aside do not count.
    pub alike: u32,
    /// The time in which every receiver of the lane has had its turn to report.
    pub feedback_round: Duration,
}

/// What the caller is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Reports of this receiver do not limit its lane, or they do again.
    Aside { lane: u8, receiver: u32, is_aside: bool },
    /// The receiver is to go to this lane. [`Lanes::moved`] tells when it has gone.
    Move { receiver: u32, lane: u8 },
}

/// The sender's choice of lanes. Call [`Lanes::joined`], [`Lanes::left`] and [`Lanes::moved`] when that happens, and [`Lanes::decide`]
/// several times a round trip.
#[derive(Debug)]
pub struct Lanes {
    lanes: Vec<State>,
    members: BTreeMap<u32, Member>,
}

#[derive(Debug, Default)]
struct State {
    /// Who limits the lane, and since when.
    limits: Option<(u32, Instant)>,
    /// Since when the lane is nearly as fast as a faster one.
    nearly_since: Option<Instant>,
    /// Since when it has had members.
    peopled: Option<Instant>,
    trial: Option<Trial>,
    /// No trial begins before this time.
    rests_until: Instant,
    /// The pause after the last failed trial.
    pause: Duration,
}

#[derive(Debug)]
struct Trial {
    /// Who is aside, the first one first.
    aside: Vec<u32>,
    /// The most that one of them bears, in bits a second.
    bears_bps: u64,
    until: Instant,
    /// Since when the rate has been worth a move, while nobody limited it.
    worth_since: Option<Instant>,
}

#[derive(Debug, Default)]
struct Member {
    lane: u8,
    /// Where it has been asked to go.
    goes_to: Option<u8>,
    /// It does not go back to a faster lane before this time, and how long that was the last time.
    stays_until: Instant,
    stay: Duration,
    /// A slower lane does not reach it.
    is_fixed: bool,
}

/// # What happens
impl Lanes {
    /// Creates the choice for a session with so many lanes, of which at least one.
    pub fn new(lanes: u8) -> Self {
        Self { lanes: (0..lanes.max(1)).map(|_| State::default()).collect(), members: BTreeMap::new() }
    }

    pub fn joined(&mut self, receiver: u32) {
        self.members.entry(receiver).or_default();
    }

    pub fn left(&mut self, receiver: u32) {
        self.members.remove(&receiver);
        for state in &mut self.lanes {
            if let Some(trial) = &mut state.trial {
                trial.aside.retain(|aside| *aside != receiver);
            }
            state.trial.take_if(|trial| trial.aside.is_empty());
        }
    }

    /// The receiver is served by this lane now.
    pub fn moved(&mut self, now: Instant, receiver: u32, lane: u8) {
        let Some(member) = self.members.get_mut(&receiver) else { return };
        if lane > 0 && member.lane != lane {
            let length = if member.stay.is_zero() { FIRST_STAY } else { member.stay * 2 };
            member.stay = length.min(LAST_STAY);
            member.stays_until = now + member.stay;
        }
        (member.lane, member.goes_to) = (lane, None);
        let state = self.lanes.get_mut(usize::from(lane));
        if let Some(state) = state {
            state.peopled.get_or_insert(now);
        }
    }

    /// Returns the lane of a receiver.
    pub fn lane_of(&self, receiver: u32) -> u8 {
        self.members.get(&receiver).map_or(0, |member| member.lane)
    }

    /// Returns how many receivers a lane serves.
    pub fn members(&self, lane: u8) -> usize {
        self.members.values().filter(|member| member.lane == lane).count()
    }
}

/// # What is to be done
impl Lanes {
    /// Returns what is to be done now, as the lanes' congestion controls are.
    pub fn decide(&mut self, now: Instant, lanes: &[Lane]) -> Vec<Order> {
        let mut orders = Vec::new();
        for number in 0..self.lanes.len().min(lanes.len()) {
            let count = self.members(number as u8);
            if count == 0 {
                let state = &mut self.lanes[number];
                *state = State { rests_until: state.rests_until, pause: state.pause, ..State::default() };
                continue;
            }
            if number > 0 {
                self.look_back(now, number, lanes, &mut orders);
            }
            match self.lanes[number].trial.is_some() {
                true => self.judge(now, number, lanes, &mut orders),
                false => self.look_for_trial(now, number, lanes, &mut orders),
            }
        }
        orders
    }

    /// Begins a trial where one receiver has limited a lane for a while, and others have no such trouble.
    fn look_for_trial(&mut self, now: Instant, number: usize, lanes: &[Lane], orders: &mut Vec<Order>) {
        let (lane, count) = (&lanes[number], self.members(number as u8));
        let state = &mut self.lanes[number];
        let Some((receiver, bears_bps)) = lane.limiting.filter(|_| lane.is_used) else {
            state.limits = None;
            return;
        };
        let since = state.limits.filter(|(other, _)| *other == receiver).map_or(now, |(_, since)| since);
        state.limits = Some((receiver, since));
        let long = SHORTEST_LIMITING.max(lane.feedback_round * LOOK_ROUNDS);
        if now < since + long || now < state.rests_until || count < 2 || !is_minority(lane.alike, count) {
            return;
        }
        let is_free = |member: &Member| member.goes_to.is_none() && !member.is_fixed;
        // Most receivers cannot be slower than most.
        if self.members(0) * 2 <= self.members.len() {
            return;
        }
        if self.lanes.len() < 2 || !self.members.get(&receiver).is_some_and(is_free) {
            return;
        }
        let until = now + LONGEST_TRIAL.max(lane.round_trip * TRIAL_ROUND_TRIPS);
        self.lanes[number].trial = Some(Trial { aside: vec![receiver], bears_bps, until, worth_since: None });
        orders.push(Order::Aside { lane: number as u8, receiver, is_aside: true });
    }

    /// Ends a trial that has shown something, or nothing for too long.
    fn judge(&mut self, now: Instant, number: usize, lanes: &[Lane], orders: &mut Vec<Order>) {
        let (lane, count) = (&lanes[number], self.members(number as u8));
        let state = &mut self.lanes[number];
        let Some(trial) = &mut state.trial else { return };
        let is_worth = lane.rate_bps as f64 >= trial.bears_bps as f64 * WORTH;
        let is_free = lane.limiting.is_none_or(|(_, bears)| bears as f64 >= trial.bears_bps as f64 * WORTH);
        let since = (is_worth && is_free).then(|| trial.worth_since.unwrap_or(now));
        trial.worth_since = since;
        let long = SHORTEST_WORTH.max(lane.feedback_round * WORTH_ROUNDS);
        if since.is_some_and(|since| now < since + long) {
            return;
        }
        if since.is_some() {
            let (aside, bears_bps) = (std::mem::take(&mut trial.aside), trial.bears_bps);
            (state.trial, state.limits, state.pause) = (None, None, Duration::ZERO);
            let to = self.place(number, bears_bps, lanes);
            for receiver in aside {
                if let Some(member) = self.members.get_mut(&receiver) {
                    member.goes_to = Some(to);
                    orders.push(Order::Move { receiver, lane: to });
                }
            }
            return;
        }
        let other = lane.limiting.filter(|(other, _)| !trial.aside.contains(other));
        if let Some((receiver, bears_bps)) = other.filter(|_| now < trial.until) {
            let aside = trial.aside.len() + 1;
            let is_free = self.members.get(&receiver).is_some_and(|member| !member.is_fixed);
            if aside <= MOST_ASIDE && aside * 2 < count + 1 && is_minority(lane.alike, count) && is_free {
                trial.bears_bps = trial.bears_bps.max(bears_bps);
                trial.aside.push(receiver);
                orders.push(Order::Aside { lane: number as u8, receiver, is_aside: true });
                return;
            }
        }
        if other.is_some() || now >= trial.until {
            let aside = std::mem::take(&mut trial.aside);
            let lane = number as u8;
            let back = |receiver| Order::Aside { lane, receiver, is_aside: false };
            orders.extend(aside.into_iter().map(back));
            state.pause = if state.pause.is_zero() { FIRST_PAUSE } else { (state.pause * 2).min(LAST_PAUSE) };
            (state.trial, state.limits, state.rests_until) = (None, None, now + state.pause);
        }
    }

    /// Chooses a lane for receivers that bear so much: the lane whose rate is within [`WORTH`] of that, or an empty one, or the nearest.
    fn place(&self, from: usize, bears_bps: u64, lanes: &[Lane]) -> u8 {
        let distance = |number: &usize| {
            let ratio = lanes[*number].rate_bps.max(1) as f64 / bears_bps.max(1) as f64;
            ratio.max(1.0 / ratio)
        };
        let slower = || (1..self.lanes.len().min(lanes.len())).filter(|number| *number != from);
        let is_peopled = |number: &usize| {
            let goes = |member: &Member| member.goes_to.unwrap_or(member.lane) == *number as u8;
            self.members.values().any(goes)
        };
        let nearest =
            slower().filter(is_peopled).min_by(|one, other| distance(one).total_cmp(&distance(other)));
        let fits = nearest.filter(|number| distance(number) <= WORTH);
        let empty = || slower().find(|number| !is_peopled(number));
        fits.or_else(empty).or(nearest).unwrap_or(from) as u8
    }

    /// Sends the members of a slower lane back when it is nearly as fast as another, or when it does not reach them.
    fn look_back(&mut self, now: Instant, number: usize, lanes: &[Lane], orders: &mut Vec<Order>) {
        let lane = &lanes[number];
        let peopled = self.lanes[number].peopled.unwrap_or(now);
        let heard = lane.heard.map_or(peopled, |heard| heard.max(peopled));
        let is_silent =
            now.saturating_duration_since(heard) > SILENCE.max(lane.round_trip * TRIAL_ROUND_TRIPS);
        let is_near = |other: &usize| {
            let faster = &lanes[*other];
            let ratio = lane.rate_bps as f64 / faster.rate_bps.max(1) as f64;
            faster.is_used && (NEARLY..=1.0 / NEARLY).contains(&ratio)
        };
        let to =
            (0..number).filter(|other| self.members(*other as u8) > 0).find(is_near).filter(|_| lane.is_used);
        let state = &mut self.lanes[number];
        let since = to.map(|_| state.nearly_since.unwrap_or(now));
        state.nearly_since = since;
        let long = SHORTEST_NEARLY.max(lane.round_trip * NEARLY_ROUND_TRIPS);
        let goes_to = match (to, since) {
            _ if is_silent => 0,
            (Some(to), Some(since)) if now >= since + long => to as u8,
            _ => return,
        };
        for (receiver, member) in &mut self.members {
            let is_free = member.lane == number as u8 && member.goes_to.is_none();
            if is_free && (is_silent || now >= member.stays_until) {
                (member.goes_to, member.is_fixed) = (Some(goes_to), is_silent);
                orders.push(Order::Move { receiver: *receiver, lane: goes_to });
            }
        }
    }
}

fn is_minority(alike: u32, count: usize) -> bool {
    f64::from(alike) <= count as f64 * MINORITY
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(40);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// Receivers with what each bears, and how a lane's congestion control follows the slowest of them.
    struct World {
        lanes: Lanes,
        bears: BTreeMap<u32, u64>,
        aside: Vec<u32>,
        rates: [f64; 4],
        now: u64,
        told: Vec<(u64, Order)>,
        /// Whether moves reach their receivers.
        moves: bool,
        /// Whether members of slower lanes answer.
        hear_slower: bool,
    }

    impl World {
        fn new(bears: &[u64]) -> Self {
            let bears: BTreeMap<u32, u64> = (0..).zip(bears.iter().copied()).collect();
            let mut lanes = Lanes::new(4);
            bears.keys().for_each(|receiver| lanes.joined(*receiver));
            let (moves, hear_slower) = (true, true);
            Self {
                lanes,
                bears,
                aside: Vec::new(),
                rates: [1e6; 4],
                now: 0,
                told: Vec::new(),
                moves,
                hear_slower,
            }
        }

        fn lane(&self, number: u8) -> Lane {
            let members = self.bears.iter().filter(|(receiver, _)| self.lanes.lane_of(**receiver) == number);
            let counted: Vec<(u32, u64)> =
                members.filter(|(one, _)| !self.aside.contains(one)).map(|(one, bps)| (*one, *bps)).collect();
            let rate = self.rates[usize::from(number)];
            let slowest = counted.iter().copied().min_by_key(|(_, bps)| *bps);
            let limiting = slowest.filter(|(_, bps)| *bps as f64 <= rate);
            let others = counted.iter().filter(|(one, _)| limiting.is_none_or(|(first, _)| first != *one));
            Lane {
                rate_bps: rate as u64,
                limiting,
                round_trip: ROUND_TRIP,
                is_used: true,
                heard: (number == 0 || self.hear_slower).then(|| at(self.now)),
                alike: limiting.map_or(0, |(_, bears)| {
                    let least = (bears as f64 * WORTH).min(rate * 1.1);
                    others.filter(|(_, bps)| (*bps as f64) < least).count() as u32
                }),
                feedback_round: ROUND_TRIP,
            }
        }

        fn run(&mut self, millis: u64) {
            for _ in 0..millis / 10 {
                self.now += 10;
                let lanes: Vec<Lane> = (0..4).map(|number| self.lane(number)).collect();
                for order in self.lanes.decide(at(self.now), &lanes) {
                    self.told.push((self.now, order));
                    match order {
                        Order::Aside { receiver, is_aside: true, .. } => self.aside.push(receiver),
                        Order::Aside { receiver, .. } => self.aside.retain(|aside| *aside != receiver),
                        Order::Move { receiver, lane } if self.moves => {
                            self.aside.retain(|aside| *aside != receiver);
                            self.lanes.moved(at(self.now), receiver, lane);
                        }
                        Order::Move { .. } => {}
                    }
                }
                for (number, lane) in (0..).zip(&lanes) {
                    let most = self.lane(number as u8).limiting.map_or(f64::MAX, |(_, bps)| bps as f64);
                    self.rates[number] = (lane.rate_bps as f64 * 1.05).min(most);
                }
            }
        }

        fn lanes(&self) -> Vec<u8> {
            self.bears.keys().map(|receiver| self.lanes.lane_of(*receiver)).collect()
        }
    }

    #[test]
    fn a_bad_receiver_goes_to_a_slower_lane_within_a_second() {
        let mut world = World::new(&[20_000_000, 20_000_000, 20_000_000, 2_000_000]);
        world.run(3_000);
        assert_eq!(world.lanes(), [0, 0, 0, 1], "{:?}", world.told);
        assert!(world.told.last().is_some_and(|(when, _)| *when < 1_500), "{:?}", world.told);
        assert_eq!(world.rates[0], 20e6);
    }

    #[test]
    fn equal_receivers_are_left_alone() {
        for count in [1, 2, 3, 10, 100] {
            let mut world = World::new(&vec![20_000_000; count]);
            world.run(60_000);
            assert_eq!(world.told, [], "{count}");
        }
    }

    /// The others bear more, but not enough: what is tried costs less and less.
    #[test]
    fn trials_that_show_nothing_become_rare() {
        let mut world = World::new(&[13_000_000, 13_000_000, 10_000_000]);
        world.run(120_000);
        assert_eq!(world.lanes(), [0, 0, 0]);
        let trials =
            world.told.iter().filter(|(_, order)| matches!(order, Order::Aside { is_aside: true, .. }));
        assert!((3..=6).contains(&trials.count()), "{:?}", world.told);
    }

    #[test]
    fn several_slow_ones_share_lanes_by_what_they_bear() {
        let fast = [100_000_000; 12];
        let world = |slow: &[u64]| {
            let mut world = World::new(&[&fast, slow].concat());
            world.run(20_000);
            world
        };
        let told = world(&[2_000_000, 2_100_000, 20_000_000]);
        let lanes = &told.lanes()[fast.len()..];
        assert!(told.lanes()[..fast.len()].iter().all(|lane| *lane == 0));
        assert!(
            lanes[0] == lanes[1] && lanes[0] != lanes[2] && !lanes.contains(&0),
            "{lanes:?} {:?}",
            told.told
        );
        let many = world(&[1_000_000, 4_000_000, 12_000_000, 30_000_000]);
        assert!(many.lanes().iter().all(|lane| *lane < 4));
        assert_eq!(many.rates[0], 100e6, "{:?} {:?}", many.lanes(), many.told);
    }

    #[test]
    fn whoever_recovers_goes_back_up_and_not_for_ever() {
        let mut world = World::new(&[20_000_000, 20_000_000, 2_000_000]);
        world.run(3_000);
        assert_eq!(world.lanes(), [0, 0, 1]);
        world.bears.insert(2, 20_000_000);
        world.run(10_000);
        assert_eq!(world.lanes(), [0, 0, 0], "{:?}", world.told);
        for _ in 0..10 {
            world.bears.insert(2, 2_000_000);
            world.run(3_000);
            world.bears.insert(2, 20_000_000);
            world.run(3_000);
        }
        let ups = world.told.iter().filter(|(_, order)| matches!(order, Order::Move { lane: 0, .. })).count();
        assert!((2..=6).contains(&ups), "{ups} {:?}", world.told);
    }

    #[test]
    fn a_lane_that_reaches_nobody_is_given_up_for_good() {
        let mut world = World::new(&[20_000_000, 20_000_000, 2_000_000]);
        world.hear_slower = false;
        world.run(60_000);
        let moves: Vec<_> =
            world.told.iter().filter(|(_, order)| matches!(order, Order::Move { .. })).collect();
        assert_eq!((moves.len(), world.lanes()), (2, vec![0, 0, 0]), "{moves:?}");
    }

    #[test]
    fn a_receiver_that_does_not_move_or_leaves_holds_up_nothing() {
        let mut world = World::new(&[20_000_000, 20_000_000, 2_000_000]);
        world.moves = false;
        world.run(30_000);
        assert_eq!(world.told.len(), 2, "aside, and asked once: {:?}", world.told);
        assert_eq!(world.rates[0], 20e6, "it stays aside");
        world.lanes.left(2);
        world.bears.remove(&2);
        world.run(1_000);
        assert_eq!(world.told.len(), 2);
    }
}
