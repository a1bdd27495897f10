//! All tests of this crate that stand outside its sources, as one program: it is linked once.

mod mead_router;
mod membership;
mod mtrace2;
mod router_packets;
mod xcast_router;
