//! The kernel's interface to links, addresses, routes and queueing disciplines (rtnetlink, RFC 3549).
//!
//! Raw messages rather than the `rtnetlink` crate, because a lab of a thousand nodes sends ten
//! thousand requests to a thousand sockets: here a whole namespace is configured by one `send` and
//! one `recv`, where that crate takes a round trip through an async runtime for every request and has
//! no queueing disciplines at all. `tc -batch` has those, for 4 ms of a process in each namespace.

mod message;
mod request;

use std::io::{self, Read};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

pub use message::Batch;
pub use request::{
    Bridge, End, Port, add_address, add_bridge, add_clsact, add_ingress_filter, add_multicast_route,
    add_netem, add_route, add_tbf, add_veth, delete_group, delete_route, disable_automatic_address,
    set_address_permanent, set_port_router, set_querier, set_splitting, set_up,
};

/// The kernel answers while it is asked; this only turns a fault of ours into an error.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// What the kernel refused, and why.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {error}")]
struct Refusal {
    what: String,
    error: io::Error,
}

/// Whether an error of [`Netlink::run`] is the kernel's refusal with this `errno`.
pub fn is_refused_with(error: &io::Error, errno: i32) -> bool {
    let refusal = error.get_ref().and_then(|inner| inner.downcast_ref::<Refusal>());
    refusal.is_some_and(|refusal| refusal.error.raw_os_error() == Some(errno))
}

/// A socket in the namespace of the thread that opened it; it may be used from any other.
pub struct Netlink {
    socket: Socket,
}

impl Netlink {
    /// Opens a socket to the calling thread's network namespace.
    pub fn open() -> io::Result<Self> {
        let protocol = Some(Protocol::from(libc::NETLINK_ROUTE));
        let socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, protocol)?;
        socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Self { socket })
    }

    /// Carries out the requests in order, and waits for the last. The first refusal is returned, with
    /// what was asked for; some of the requests after it may have been carried out nevertheless.
    pub fn run(&self, mut batch: Batch) -> io::Result<()> {
        for part in batch.cut() {
            self.socket.send(batch.bytes(&part))?;
            self.wait_for(part.last_sequence, &batch)?;
        }
        Ok(())
    }

    /// Reads answers until the one to `last_sequence`: refusals of others come before it.
    fn wait_for(&self, last_sequence: u32, batch: &Batch) -> io::Result<()> {
        let mut outcome = Ok(());
        let mut buffer = vec![0; 32 * 1024];
        loop {
            let length = (&self.socket).read(&mut buffer)?;
            for answer in message::answers(&buffer[..length]) {
                if let Some(error) = answer.error() {
                    let what = batch.description(answer.sequence);
                    let refusal = Refusal { what: what.to_owned(), error };
                    outcome = outcome.and(Err(io::Error::other(refusal)));
                }
                if answer.sequence == last_sequence {
                    return outcome;
                }
            }
        }
    }
}
