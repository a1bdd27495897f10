//! Sends the same files and memory to many receivers, by reliable multicast.
//!
//! A program starts a [`Group`], sends objects to it, and is told when each is done. A [`Receiver`] joins with the group's
//! [`Ticket`], and is told of each object that is complete and verified. The calls are those of the VCMTP library
//! (interdomain-2013, section 4.6.2). Programs of this crate and the command `treecast` understand each other.
//!
//! ```
//! use treecast::{Group, Object, Receiver, ReceiverEvent};
//!
//! # fn main() -> Result<(), treecast::Error> {
//! let group = Group::builder().interface("lo").wait(2).start()?;
//! let join = || Receiver::builder(group.ticket().clone()).interface("lo").in_memory().join();
//! let receivers = [join()?, join()?];
//! group.send(Object::bytes("temperature", "21.5").retx_factor(10.0))?;
//! let report = group.close().wait()?;
//! assert_eq!(report.receivers.len(), 2);
//! for receiver in &receivers {
//!     let came = receiver.events().filter(|event| matches!(event, ReceiverEvent::Received(_)));
//!     assert_eq!(came.count(), 1);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Blocking and asynchronous
//!
//! Calls return at once. What takes time is a value that is both a [`Future`](std::future) and has a `wait`:
//! [`Transfer`] (an object), [`NextEvent`], [`Room`] (for another object) and [`Finish`] (the session's end). The futures
//! need no runtime, and work in every one.
//!
//! ```no_run
//! # async fn feed(group: treecast::Group, products: Vec<Vec<u8>>) -> Result<(), treecast::Error> {
//! for (number, product) in products.into_iter().enumerate() {
//!     group.room().await;
//!     group.send_bytes(format!("product/{number}"), product)?;
//! }
//! let report = group.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Each session has a thread of its own. Nothing that a session keeps grows without bound: objects that are not done are
//! [limited](GroupBuilder::most_outstanding), and so are events that nobody reads.
//!
//! # Everything that the command does
//!
//! `treecast send`, `receive`, `feed`, `discover`, `keys` and `status` deliver by this crate alone. [`GroupBuilder`] and
//! [`ReceiverBuilder`] have all their options; those that are structures are in [`unstable::options`]. [`GroupBuilder::run`] and
//! [`ReceiverBuilder::run`] hold a session in the thread of their caller, and tell every event in full ([`unstable::watch`]).
//!
//! # Memory
//!
//! Bytes in memory are sent from where they are. The group may own them, share them, or [borrow](Group::scope) them; it lets
//! go of them before it tells that they are done.
//!
//! # Security
//!
//! A session is encrypted, and its receivers check what the sender has signed, unless [`GroupBuilder::plain`] says otherwise.
//!
//! # Logs
//!
//! The session's events go to the crate `tracing`, too, under the target `treecast::session`. Without a subscriber, nothing
//! is logged.

#![warn(missing_docs)]

/// The example of the crate's page is run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
struct LibraryPage;

mod error;
mod events;
mod group;
mod kept;
pub mod limits;
mod object;
mod observers;
mod place;
mod receiver;
mod report;
mod session;
mod ticket;
pub mod unstable;
mod wait;

pub use error::{Error, ErrorKind};
pub use events::NextEvent;
pub use group::{
    Delivery, Fanout, Fec, GiveUp, Group, GroupBuilder, GroupEvent, GroupOption, GroupProgress, Priority,
    Rate, Repair, Room, Scope, Transfer,
};
pub use kept::KeptState;
pub use object::{Object, ObjectId};
pub use receiver::{
    Answer, ObjectKind, Offer, Received, Receiver, ReceiverBuilder, ReceiverEvent, ReceiverProgress,
};
pub use report::{GroupReport, ReceiverOutcome, ReceiverReport};
pub use session::Finish;
pub use ticket::Ticket;
