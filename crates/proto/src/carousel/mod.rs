//! Carousel: the same objects again and again until nobody listens, without any feedback but that
//! of multicast itself (librecast-updates-2022, 2.2 and A.3).
//!
//! One loop is every object once, and no loop keeps step with losses (`turns.rs`). Before an object's first
//! block, and every [`ANNOUNCE_BYTES`] of it, go [`Contents`], Begin-of-File and, once it is known,
//! [`Digest`], so that a receiver may join at any moment; behind its last block go End-of-File and Digest. A
//! receiver keeps what it has not, goes on through as many loops as it takes, and leaves when it has them
//! all.
//!
//! Several senders may be one carousel: each begins its loops at another place, and a receiver takes what any of them
//! sends. One that stops, or that cannot read an object any more, ends nothing that another one goes on with.
//!
//! As soon as its hash is known, an object's chunk hashes ([`crate::object::chunks`]) go out with its
//! announcements, each page in front of its blocks. A receiver whose copy is wrong compares its chunks and
//! takes the wrong ones alone again.
//!
//! In a secure carousel the sender signs what its blocks and symbols are, and those that it has not signed never get to a
//! receiver's machine ([`Proofs`]).
//!
//! With forward error correction ([`crate::fec`]) the first loop is as it is without, and every later one is
//! of new repair symbols: a receiver that listens, from whatever moment on, needs as many packets of each
//! source block as it has blocks, and no particular one. Such a loop is several passes (see `pass.rs`), each
//! a share of every source block.
//!
//! Where receivers can reach the sender by datagram, they may report what they lack ([`Message::Lacking`]), and loops bring the
//! union of that (`lacks.rs`). That is for updates by difference.
//!
//! A carousel may have several groups, each with a loop and a rate of its own. The loops begin at different places, so that a
//! receiver that listens to several groups gets other blocks from each.
//!
//! The IoT updater's dialect has no messages, since each of its frames carries the file's size and hash:
//! there the sender only sends blocks, and [`iotup_inputs`] turns a frame into a receiver's inputs.
//!
//! [`Message::Lacking`]: treecast_wire::message::Message::Lacking
//! [`Contents`]: treecast_wire::message::Contents
//! [`Digest`]: treecast_wire::message::Digest

mod iotup;
mod lacks;
#[cfg(test)]
mod many_tests;
mod object;
mod pass;
mod proofs;
mod receiver;
mod ring;
mod said;
mod sender;
mod turns;

pub use iotup::iotup_inputs;
pub use proofs::{Proofs, block_hash, copies};
pub use receiver::{Progress, Receiver, ReceiverConfig};
pub use ring::SenderConfig;
pub use sender::{End, Sender};

/// The number of bytes of an object that are sent between two announcements of it. At 10 Mbit/s a receiver
/// that joins waits less than a second for an announcement, and announcements take 0.04 % of the rate.
pub const ANNOUNCE_BYTES: u64 = 1 << 20;
