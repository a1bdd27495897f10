//! Sealing of packets to the group: AES-256-GCM around each packet ([`treecast_wire::seal`] has the layout).
//!
//! A key is derived from a secret and the key's id, so that two senders of one carousel, or one that was started again, share the
//! ticket's secret and never a key. A [`Sealer`] owns its counter and cannot be cloned: no nonce is used twice.

mod key;
mod opener;
mod sealer;

pub use key::{Secret, draw_group_key};
pub use opener::{Opener, Refused};
pub use sealer::Sealer;
