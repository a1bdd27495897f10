//! Whether the eBPF program does what the reference models do: `treecast router check`.
//!
//! The program runs in the kernel (`BPF_PROG_TEST_RUN`) in a network of its own, whose routes the models have, too
//! ([`network`]). Compared are, of each packet, the verdict and every octet of every frame that comes out, in their order:
//! copies are caught where they leave an interface or come back to the kernel, and the last one, whose redirect a test run does
//! not carry out, is in the packet buffer. At the end the counters are compared.

use std::{
    collections::BTreeMap,
    net::Ipv6Addr,
    time::{Duration, Instant},
};

use treecast_proto::explicit::mead::router::{Outcome, Router};
use treecast_wire::xcast::{ALL_XCAST_ROUTERS, is_all_xcast_routers};

use super::{
    program::Program,
    shared::{COUNTERS, Counter},
};

mod expected;
mod network;
mod random;

use expected::{Expected, Verdict};
pub use network::next_hop;
use network::{ENTRANCE, Exit, Network};
use random::Random;

/// The program's answers (linux/pkt_cls.h).
const NEXT: i32 = -1;
const DROP: i32 = 2;
const REDIRECT: i32 = 7;

/// The longest time to wait for copies that have not come out yet.
const PATIENCE: Duration = Duration::from_millis(500);

/// Number of packets that are checked with the same router.
const PACKETS_A_ROUTER: u64 = 1000;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The result of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    pub packets: u64,
    /// The number of packets that came out: copies, and packets that were passed on.
    pub out: u64,
    /// The number of packets with each outcome.
    pub outcomes: BTreeMap<String, u64>,
}

/// Compares the program with the models on this number of random packets.
///
/// # Errors
/// If the two differ, with the packet and with what each of them made of it; or if the program cannot be
/// run: without root, or without the `ip` command of iproute2.
pub fn run(packets: u64, seed: u64, progress: &mut (dyn FnMut(u64) + Send)) -> Result<Report, Failure> {
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| compare(packets, seed, progress));
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn compare(packets: u64, seed: u64, progress: &mut dyn FnMut(u64)) -> Result<Report, Failure> {
    let mut stage = Stage::enter()?;
    let mut random = Random::new(seed);
    for number in 0..packets {
        if number.is_multiple_of(PACKETS_A_ROUTER) {
            stage.configure(random.router())?;
            progress(number);
        }
        let packet = random.packet(&stage.router);
        stage.check(&packet)?;
    }
    stage.check_counters()?;
    Ok(stage.report)
}

/// A network of its own with the program in it. The thread that enters the network stays there.
pub struct Stage {
    program: Program,
    network: Network,
    router: Router,
    expected: [u64; COUNTERS],
    report: Report,
}

impl Stage {
    /// Makes the network and moves the calling thread into it.
    pub fn enter() -> Result<Self, Failure> {
        let network = Network::enter()?;
        let mut program = Program::load().map_err(text)?;
        program.act_until(u64::MAX).map_err(text)?;
        for (interface, mac) in network.macs() {
            program.set_mac(*interface, *mac).map_err(text)?;
        }
        let router = Router::default();
        Ok(Self { program, network, router, expected: [0; COUNTERS], report: Report::default() })
    }

    /// Sets the program and the models to this router.
    pub fn configure(&mut self, router: Router) -> Result<(), Failure> {
        self.program.configure(&router, false, 0).map_err(text)?;
        self.router = router;
        Ok(())
    }

    /// Compares the program with the models on one packet, with whatever padding comes after it. A packet for
    /// all Xcast routers is tried in both ways in which it may arrive: at this host's Ethernet address, and at
    /// the group's.
    pub fn check(&mut self, packet: &[u8]) -> Result<(), Failure> {
        let octets = packet.get(24..40).and_then(|octets| octets.try_into().ok());
        if octets.is_some_and(|octets: [u8; 16]| is_all_xcast_routers(octets.into())) {
            let [.., a, b, c, d] = ALL_XCAST_ROUTERS.octets();
            self.check_frame(Some([0x33, 0x33, a, b, c, d]), packet)?;
            if self.router.guard.copies_per_second > 0 {
                // Its source has had copies made.
                return Ok(());
            }
        }
        self.check_frame(None, packet)
    }

    fn check_frame(&mut self, group: Option<[u8; 6]>, packet: &[u8]) -> Result<(), Failure> {
        let head = self.network.incoming_head(group);
        let (answer, frames) = self.expect(&head, packet, group.is_some());
        let result = self.program.test(ENTRANCE, &[&head[..], packet].concat());
        let (answered, last) = result.map_err(text)?;
        let mut seen = self.network.left()?;
        // On a busy machine, the kernel hands over copies for itself a little later (ksoftirqd).
        let expected = frames.len().saturating_sub(usize::from(answered != DROP));
        let patience = Instant::now() + PATIENCE;
        while seen.len() < expected && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
            seen.extend(self.network.left()?);
        }
        if answered != DROP {
            seen.push(last);
        }
        self.report.packets += 1;
        self.report.out += seen.len() as u64;
        if (answered, &seen) == (answer, &frames) {
            return self.check_request(packet);
        }
        let list =
            |frames: &[Vec<u8>]| frames.iter().map(|frame| format!("  {}\n", hex(frame))).collect::<String>();
        Err(format!(
            "the program differs from the model, for {:?}, in the packet\n  {}\nmodel: answer {answer}\n{}program: answer \
             {answered}\n{}",
            self.router,
            hex(packet),
            list(&frames),
            list(&seen)
        )
        .into())
    }

    /// The answer and the frames that the model says.
    fn expect(&mut self, head: &[u8], packet: &[u8], is_for_all: bool) -> (i32, Vec<Vec<u8>>) {
        let Expected { name, verdict, counters } = Expected::of(&self.router, packet, is_for_all);
        *self.report.outcomes.entry(name).or_default() += 1;
        counters.into_iter().for_each(|counter| self.expected[counter] += 1);
        match verdict {
            Verdict::Drop => (DROP, Vec::new()),
            Verdict::Pass(packet) => (NEXT, vec![[head, &packet].concat()]),
            Verdict::Leave(mut copies) => {
                // Between two interfaces, there is no order in what has left; the last copy is not carried out.
                let last = copies.pop();
                let answer = match last {
                    None => DROP,
                    Some((Exit::Kernel, _)) => NEXT,
                    Some((Exit::Direct(..), _)) => REDIRECT,
                };
                copies.sort_by_key(|(way, _)| match way {
                    Exit::Direct(interface, _) => *interface,
                    Exit::Kernel => u32::MAX,
                });
                let frame = |(way, packet): (Exit, Vec<u8>)| self.network.frame(way, &packet);
                (answer, copies.into_iter().chain(last).map(frame).collect())
            }
        }
    }

    /// The daemon gets the requests as they came in, and nothing else.
    fn check_request(&mut self, packet: &[u8]) -> Result<(), Failure> {
        let expected = match self.router.forward(packet, ENTRANCE, &mut network::next_hop) {
            Outcome::Request { passed_on, .. } => Some(packet[..passed_on.len()].to_vec()),
            _ => None,
        };
        let heard = self.program.next_request();
        match heard == expected {
            true => Ok(()),
            false => Err(format!("the daemon hears {heard:?}, expected {expected:?}").into()),
        }
    }

    /// Compares all counters of the program with those of the models.
    pub fn check_counters(&self) -> Result<(), Failure> {
        let mut counted = self.program.counters().map_err(text)?;
        // The model has no count of these: they are passed on like what is not MEADcast.
        counted[Counter::Responses as usize] = 0;
        // What a busy machine's queues have no room for has been seen to leave all the same.
        counted[Counter::NotSent as usize] = 0;
        match counted == self.expected {
            true => Ok(()),
            false => {
                Err(format!("the program has counted {counted:?}, the model {:?}", self.expected).into())
            }
        }
    }
}

fn text(error: Box<dyn std::error::Error>) -> String {
    error.to_string()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One of the model's addresses; here so that generator and tests agree.
pub(crate) fn node(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd14, 0, 0, 0, 0, 1, 0, number)
}
