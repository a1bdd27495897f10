//! Delays cables if the kernel has no netem, and sends the packets of others that cables have ([`background`]). One
//! process for each lab moves frames from one half of each cable to the other. It keeps their order, and sends each
//! when its delay is over.
//!
//! Frames are read and written with the kernel's offload headers (`PACKET_VNET_HDR`), so super-packets are not
//! divided, and checksums are left to those who need them.

mod queue;

use std::io::{self, Write};
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) use queue::MAX_FRAME_BYTES;
use queue::Queue;

use treecast_host::{namespace::Namespace, packet::FrameSocket, poller::Poller, process};
use treecast_proto::random::SplitMix64;

use crate::background::{self, Background};
use crate::daemon::Daemon;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::plan::{Hold, Plan};
use crate::state;

/// Starts the lab's relay, if its plan has cables that need one or that have packets of others.
pub(crate) fn start(plan: &Plan, lab: &str, options: &Options) -> Result<()> {
    const TIMEOUT: Duration = Duration::from_secs(20);
    if plan.relays.is_empty() && !background::is_wanted(plan) {
        return Ok(());
    }
    let mut command = Command::new(&options.program);
    command.args(["lab", "relay", lab]).env("TREECAST_LAB_STATE", &options.state_directory);
    let folder = options.state_directory.join(lab);
    Daemon::start(folder, "switch", &plan.switch, command)?.wait_for_line("ready", TIMEOUT)
}

/// Relays the delayed cables of a lab until the lab is taken down, which kills this process. Prints "ready"
/// when frames get through.
///
/// # Errors
/// [`Error::NoSuchLab`], and errors of the kernel.
pub fn relay(lab: &str, options: &Options) -> Result<()> {
    let record = state::peek(&options.state_directory, lab)?;
    let plan = record.ok_or_else(|| Error::NoSuchLab { name: lab.to_owned() })?.plan();
    let begin = || {
        Namespace::open(&plan.switch)?.enter()?;
        // A cable does not wait for a processor. Without this privilege, a busy machine makes delays longer.
        process::set_priority(-20);
        process::set_exact_timers();
        let relay = Relay::open(&plan)?;
        let background = Background::open(&plan)?;
        std::thread::Builder::new().spawn(|| background.run())?;
        let mut output = std::io::stdout();
        writeln!(output, "ready").and_then(|()| output.flush())?;
        Ok(relay)
    };
    begin().map_err(Error::system(format!("relay the cables of lab {lab}")))?.run()
}

/// Opens a socket for frames that arrive at interface `index` of the thread's namespace, and for sending
/// through it.
pub(crate) fn open(index: u32) -> io::Result<FrameSocket> {
    const BUFFER_BYTES: usize = 8 << 20;
    FrameSocket::open_both_ways(index, BUFFER_BYTES)
}

/// One direction of a cable.
struct Direction {
    from: FrameSocket,
    /// The index of the opposite direction, to whose socket frames are written.
    back: usize,
    hold: Hold,
    queue: Queue,
}

struct Relay {
    ways: Vec<Direction>,
    poll: Poller,
    spread: SplitMix64,
    /// Room for a frame that arrives.
    buffer: Vec<u8>,
}

impl Relay {
    fn open(plan: &Plan) -> std::io::Result<Self> {
        let poll = Poller::new()?;
        let mut ways = Vec::new();
        for relay in &plan.relays {
            for end in 0..2 {
                let from = open(relay.indices[end])?;
                poll.watch(&from, ways.len() as u64)?;
                let back = if end == 0 { ways.len() + 1 } else { ways.len() - 1 };
                ways.push(Direction { from, back, hold: relay.delays[end], queue: Queue::default() });
            }
        }
        Ok(Self { ways, poll, spread: SplitMix64(0), buffer: vec![0; MAX_FRAME_BYTES] })
    }

    fn run(&mut self) -> ! {
        loop {
            let due = self.ways.iter().filter_map(|way| way.queue.next_due()).min();
            let wait = due.map(|due| due.saturating_duration_since(Instant::now()));
            for way in self.poll.tokens(wait).unwrap_or_default() {
                self.take(way as usize);
            }
            self.pass_on();
        }
    }

    /// Queues frames that have arrived, a limited number at once, so that other directions get their turn.
    fn take(&mut self, index: usize) {
        const MAX_AT_ONCE: usize = 64;
        let way = &mut self.ways[index];
        for _ in 0..MAX_AT_ONCE {
            let Some(frame) = way.from.receive(&mut self.buffer) else { break };
            // The clock is read after the frame has arrived. Read before, it would delay a frame too little.
            way.queue.push(Instant::now() + delay(way.hold, self.spread.unit()), frame);
        }
    }

    /// Sends the frames that are due. A frame that the other half does not take is lost, as on a full cable.
    fn pass_on(&mut self) {
        let now = Instant::now();
        for index in 0..self.ways.len() {
            let way = &self.ways[index];
            let frames: Vec<_> = way.queue.due(now).collect();
            let mut left = &frames[..];
            while !left.is_empty() {
                let taken = self.ways[way.back].from.send_all(left).unwrap_or(0);
                left = &left[taken.max(1)..];
            }
            let count = frames.len();
            self.ways[index].queue.remove(count);
        }
    }
}

/// The delay for a spread: `delay - jitter` at 0, `delay + jitter` at 1.
fn delay(hold: Hold, spread: f64) -> Duration {
    hold.delay.saturating_sub(hold.jitter) + hold.jitter.mul_f64(2.0 * spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_drawn_around_its_middle() {
        let hold = Hold { delay: Duration::from_millis(10), jitter: Duration::from_millis(4) };
        assert_eq!(delay(hold, 0.0), Duration::from_millis(6));
        assert_eq!(delay(hold, 0.5), Duration::from_millis(10));
        assert_eq!(delay(hold, 1.0), Duration::from_millis(14));
    }
}
