//! LGMP: receivers mend losses among themselves (lgmp-mbone-1999, section 2).
//!
//! A session's receivers are in *local groups*. Each has a multicast address of its own, and a *controller*, which is one of
//! its members. What a member lacks it asks for in its group, where any member that has it sends it again. Only what nobody
//! there has does the controller ask for from the controller above, and in the end from the sender. Members report to
//! their controller by unicast, and controllers to the ones above: what is received by everyone below, what is missing, and
//! what is missing but obtainable below (the paper's three states). So a controller can die at any time, and another
//! member goes on with what the reports of the next half second say.
//!
//! - [`Sender`] and [`Receiver`] are the machines. A receiver takes objects as a carousel's does
//!   ([`crate::carousel`]), whose machine it holds, and adds the asking, the mending and the group.
//! - [`control`] is LGCP: the members of each group, and its controller.
//!
//! # The paper's three schemes
//!
//! They are one implementation with three settings ([`Mode`]), as in the paper's own measurements (4.1).
//!
//! | | who is asked | who sends again | what the controller asks for above |
//! |---|---|---|---|
//! | [`Mode::Sender`] | the sender, by unicast | the sender, to the session's group | |
//! | [`Mode::Hierarchical`] | the group | its controller | all that it lacks itself, at once |
//! | [`Mode::Local`] | the group | any member, after a random time | what nobody has sent again in time |
//!
//! Where local groups have no multicast addresses ([`Copies`]), a member asks one other member at a time, and repairs go to those who ask.

mod accounts;
mod clients;
pub mod control;
mod loss;
mod pace;
mod receiver;
mod repairs;
mod sender;
mod shelf;
mod sorted;
mod states;
mod timing;
mod wants;

use std::time::Duration;

use treecast_wire::message::{GroupId, Member};

pub use clients::{MAX_CHILDREN, MAX_MEMBERS};
pub use control::Place;
pub use receiver::{Figures, Receiver, ReceiverConfig};
pub use sender::{Sender, SenderConfig, SenderFigures};
pub use treecast_wire::ticket::LocalMode as Mode;

/// The time between two reports of a member or controller to the controller above it.
const REPORT: Duration = Duration::from_millis(500);

/// The place of a receiver whose groups were made by hand (the paper's static LGCP, 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat {
    pub group: GroupId,
    /// The group's controller at the start. It is replaced when it dies.
    pub controller: Member,
    /// The controller above, or the sender.
    pub parent: Member,
    /// The number of the group's members, its controller not counted.
    pub members: u16,
}

/// The way a receiver is reached where local groups have no multicast addresses. There, a member asks another one,
/// and repairs go to the members that lack them, one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copies {
    /// The sender's address, which the ticket tells.
    pub sender: Member,
    /// The UDP port of the receiver's own address at which copies of the sender's packets come. 0: they come by multicast.
    pub port: u16,
}

/// The settings of the sender's copies, on a fanout without multicast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopiesSent {
    /// The key of the receivers' tokens: random bytes.
    pub key: [u8; 32],
    /// Whether all copies of a block share the rate. Otherwise the rate is that of each.
    pub share_rate: bool,
}

/// The time without a request for copies after which the sender sends a receiver none any more.
const LISTENING: Duration = Duration::from_millis(3_500);

/// The settings of a session, which are the same for all its members.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuning {
    /// The share of packets, from 0 to 1, above which a receiver counts as congested and sets the flag CONGESTION.
    pub congestion_loss: f64,
    /// The highest rate at which a member sends repairs, in bits a second.
    pub repair_rate_bps: u64,
    /// An object that is not whole this long after its beginning was heard of is given up (semi-reliable transfer). `None`
    /// gives up nothing.
    pub deadline: Option<Duration>,
    /// Whether objects are added while the session runs. A receiver that comes late gets those that begin after it has come.
    pub is_feed: bool,
    /// Whether members send an empty packet to the session's group now and then: some networks bring a group's packets only to
    /// hosts that send to it ("Member must be Sender", 4.4).
    pub member_must_send: bool,
}

impl Tuning {
    /// The usual `congestion_loss` in a session whose sender shares links: a TCP connection gives way at such losses, too.
    pub const SHARED_LOSS: f64 = 0.02;
}

impl Default for Tuning {
    /// Local groups mend most losses at no cost to the sender. A receiver that loses half of what is sent at a rate that a person has set
    /// is behind a link that cannot carry it.
    fn default() -> Self {
        Self {
            congestion_loss: 0.5,
            repair_rate_bps: 10_000_000,
            deadline: None,
            is_feed: false,
            member_must_send: false,
        }
    }
}

/// A time as messages carry it, in microseconds and never 0, which stands for none.
fn stamp_us(now: crate::Instant) -> u64 {
    now.as_nanos() / 1_000 + 1
}

/// The time since a timestamp of one's own, in microseconds. `None` when it is not one.
fn since_us(now: crate::Instant, echo_us: u64) -> Option<u32> {
    let since = stamp_us(now).checked_sub(echo_us).filter(|_| echo_us != 0)?;
    u32::try_from(since).ok()
}

/// Converts a share from 0 to 1 to the form in messages, in 65,535ths.
fn share(share: f64) -> u16 {
    (share.clamp(0.0, 1.0) * f64::from(u16::MAX)) as u16
}

fn share_of(share: u16) -> f64 {
    f64::from(share) / f64::from(u16::MAX)
}
