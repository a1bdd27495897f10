//! rtnetlink (RFC 3549, rtnetlink(7)): links, addresses, routes, neighbours, queueing disciplines and counters.
//!
//! [`Netlink`] is a socket to the kernel. [`Batch`]es of requests change things; the requests are in
//! [`requests`], [`policy`] and [`tunnels`]. Queries are methods of [`Netlink`], in `queries`, [`bridges`] and [`counters`]. [`Monitor`] reports
//! changes.
//!
//! The messages are written and read by hand, and not with the crates `rtnetlink` or `netlink-packet-route`. A
//! lab of a thousand nodes sends ten thousand requests: here, one `send` and one `recv` configure a whole
//! namespace. Counters are read ten times a second without building a tree of attributes. And those crates have
//! neither the 64-bit counters nor netem nor tbf. They would replace the reading and writing of messages, which
//! is a file of 200 lines (`message.rs`).

pub mod bridges;
pub mod counters;
mod message;
mod monitor;
pub mod policy;
mod queries;
pub mod requests;
pub mod tunnels;

use std::{
    io::{self, Read},
    time::Duration,
};

use socket2::{Domain, Protocol, Socket, Type};

pub(crate) use self::message::{error_of, messages, write};
pub use self::{
    message::{Attributes, Batch},
    monitor::{Changes, Monitor},
    queries::{BpfFilter, Interface, Route},
};

/// The time for which an answer is awaited. A kernel answers before a request returns, so the time only matters
/// if it does not.
const PATIENCE: Duration = Duration::from_secs(5);

/// The size of the buffer for answers in bytes. It holds the largest message of a dump.
const BUFFER_LEN: usize = 32 * 1024;

/// A request that the kernel refused, and the reason.
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

/// A netlink socket in the namespace of the thread that opened it. Any thread may use it.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Netlink {
    /// Opens a socket to the calling thread's network namespace.
    pub fn open() -> io::Result<Self> {
        Ok(Self { socket: open(libc::NETLINK_ROUTE)?, sequence: 0, buffer: vec![0; BUFFER_LEN] })
    }

    /// Carries out the requests in order, and waits for the last one. Returns the first refusal, with the
    /// description of its request. Some of the requests after it may have been carried out nevertheless.
    pub fn run(&self, mut batch: Batch) -> io::Result<()> {
        for part in batch.cut() {
            self.socket.send(batch.bytes(&part))?;
            self.wait_for(part.last_sequence, &batch)?;
        }
        Ok(())
    }

    /// Reads answers until the one to `last_sequence`. Refusals of other requests come before it.
    fn wait_for(&self, last_sequence: u32, batch: &Batch) -> io::Result<()> {
        let mut outcome = Ok(());
        let mut buffer = vec![0; BUFFER_LEN];
        loop {
            let length = (&self.socket).read(&mut buffer)?;
            for answer in messages(&buffer[..length]) {
                if answer.is_error()
                    && let Err(error) = error_of(answer.body)
                {
                    let what = batch.description(answer.sequence).to_owned();
                    outcome = outcome.and(Err(io::Error::other(Refusal { what, error })));
                }
                if answer.sequence == last_sequence {
                    return outcome;
                }
            }
        }
    }

    /// Requests all objects of a kind. Calls `take` with the type and body of each message of the answer.
    fn dump(&mut self, kind: u16, body: &[u8], take: impl FnMut(u16, &[u8])) -> io::Result<()> {
        self.ask(kind, libc::NLM_F_DUMP, body, take)
    }

    /// Sends a request. Calls `take` with the type and body of each message of the answer.
    fn ask(
        &mut self,
        kind: u16,
        flags: i32,
        body: &[u8],
        mut take: impl FnMut(u16, &[u8]),
    ) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut request = Vec::with_capacity(message::HEADER_LEN + body.len());
        write(&mut request, kind, flags, self.sequence, body);
        self.socket.send(&request)?;

        let is_dump = flags & libc::NLM_F_DUMP != 0;
        loop {
            let len = match (&self.socket).read(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            // The rest of a dump that was given up is no answer to this request.
            for message in messages(&self.buffer[..len]).filter(|message| message.sequence == self.sequence) {
                match i32::from(message.kind) {
                    libc::NLMSG_DONE => return Ok(()),
                    libc::NLMSG_ERROR => return error_of(message.body),
                    _ => take(message.kind, message.body),
                }
                if !is_dump {
                    return Ok(());
                }
            }
        }
    }
}

/// Opens a netlink socket for one of the kernel's subsystems.
pub(crate) fn open(subsystem: i32) -> io::Result<Socket> {
    let protocol = Some(Protocol::from(subsystem));
    let socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, protocol)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}
