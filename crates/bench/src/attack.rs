//! A session under attack, beside one without. The attacker sends junk to the group's port as fast as one
//! process can, and opens ten thousand connections that say nothing.

use std::{
    io::Read,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use serde::Serialize;
use socket2::{Domain, Socket, Type};
use treecast_driver::udp::{DEFAULT_MULTICAST_HOPS, GroupAddress, open_group_sender};
use treecast_host::{file_limit, interface::Interface};
use treecast_wire::ticket::Ticket;

use super::{
    crew::Crew,
    ours::{self, Delivery, Ours},
    stage::{Result, Stage},
};

/// The number of receivers of the session. One more client is the attacker; each receiver gets what it sends.
const RECEIVERS: u32 = 3;

/// The number of connections that are opened and say nothing.
const HALF_OPEN: usize = 10_000;

/// The time after which an attack ends by itself.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// The lengths of junk packets: nothing, less than a header, a header, a sealed packet without content, full
/// packets.
const LENGTHS: [usize; 8] = [0, 1, 31, 32, 64, 200, 1420, 1452];

/// The comparison of a session under attack with one without.
#[derive(Debug, Clone, Serialize)]
pub struct Attack {
    pub alone: Ours,
    pub attacked: Ours,
}

impl Attack {
    /// The goodput under attack, divided by the goodput without.
    pub fn share(&self) -> f64 {
        self.alone.slowest_seconds() / self.attacked.slowest_seconds()
    }
}

/// Whether there are enough clients.
pub(super) fn is_possible(stage: &Stage) -> bool {
    stage.receivers > RECEIVERS
}

pub(super) fn measure(stage: &Stage) -> Result<Attack> {
    let session = Delivery { source: &stage.source, receivers: RECEIVERS, plain: false };
    let alone = ours::measure(stage, session)?;
    let (ticket, attacker) = (stage.path("ticket"), format!("client{RECEIVERS}"));
    // The attacker waits for the one to come.
    std::fs::remove_file(&ticket)?;
    let interface = stage.interface(&attacker)?;
    let mut crew = Crew::default();
    crew.hire(stage, &attacker, &["attack", &interface, &ticket.to_string_lossy()])?;
    let attacked = ours::measure(stage, session)?;
    Ok(Attack { alone, attacked })
}

/// The attacker's process. It goes on until its input ends.
pub(super) fn run(interface: &str, ticket: &Path) -> Result<()> {
    file_limit::raise();
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    super::answer("ready")?;
    // The input carries no data. Its end, or the end of this process, ends the attack.
    std::thread::spawn(move || {
        _ = std::io::stdin().read_to_end(&mut Vec::new());
        over.store(true, Ordering::Relaxed);
    });
    let deadline = Instant::now() + TIME_LIMIT;
    let go_on = || !is_over.load(Ordering::Relaxed) && Instant::now() < deadline;
    let Some(ticket) = wait_for_ticket(ticket, go_on)? else { return Ok(()) };
    let control = ticket.control.first().copied().ok_or("the ticket names no control address")?;
    let strangers: Vec<Socket> = (0..HALF_OPEN).map_while(|_| knock(control)).collect();
    let interface = Interface::named(interface)?;
    let to = GroupAddress { group: ticket.group, source: None, interface };
    flood(&to, go_on)?;
    drop(strangers);
    Ok(())
}

fn wait_for_ticket(path: &Path, go_on: impl Fn() -> bool) -> Result<Option<Ticket>> {
    while go_on() {
        match std::fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return Ok(Some(text.trim().parse()?)),
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    Ok(None)
}

/// Opens a connection without waiting for it. `None` if no descriptors are left.
fn knock(to: SocketAddr) -> Option<Socket> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).ok()?;
    socket.set_nonblocking(true).ok()?;
    // The connection is established in the background.
    _ = socket.connect(&to.into());
    Some(socket)
}

/// Sends junk to the group while `go_on` returns true.
fn flood(to: &GroupAddress, go_on: impl Fn() -> bool) -> Result<()> {
    let socket = open_group_sender(to, DEFAULT_MULTICAST_HOPS)?;
    let mut round = 0_u8;
    while go_on() {
        let junk = [round; 1452];
        for len in LENGTHS {
            // A full queue is no reason to stop.
            _ = socket.send_to(&junk[..len], to.scoped());
        }
        round = round.wrapping_add(1);
    }
    Ok(())
}
