//! All tests of this crate that stand outside its sources, as one program: it is linked once.

mod carousel;
mod receive_session;
mod send_session;
mod udp;
