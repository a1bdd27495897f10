//! Whether the eBPF program does what the reference model does: `treecast router check`.
//!
//! The program runs in the kernel (`BPF_PROG_TEST_RUN`) in a network of its own, in which every route leads to one
//! neighbour. Compared are, of each packet, the verdict and every octet of every frame that comes out, in their order:
//! copies are caught where they leave the interface, and the last one, whose redirect a test run does not carry out, is
//! in the packet buffer. At the end the counters are compared.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Read, Write},
    net::Ipv6Addr,
    process::{Command, Stdio},
};

use socket2::Socket;
use treecast_proto::mead::router::{Dropped, Outcome, Outgoing, Router};
use treecast_wire::mead::Dialect;

use super::{
    program::Program,
    shared::{COUNTERS, Counter},
    user_space::counter,
};
use crate::{netlink::Netlink, sys};

mod random;

use random::Random;

/// All packets go to this neighbour; its network is one that no packet names.
const NETWORK: &str = "2001:db8:7ca5:7ca5:7ca5:7ca5:7ca5:";
const NEIGHBOUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// The program's answers (linux/pkt_cls.h).
const NEXT: i32 = -1;
const DROP: i32 = 2;
const REDIRECT: i32 = 7;

const ETHERNET_LEN: usize = 14;

/// So many packets are checked with the same router.
const PACKETS_A_ROUTER: u64 = 1000;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What has been compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    pub packets: u64,
    /// Packets that came out, copies and those passed on.
    pub out: u64,
    /// Packets by what became of them.
    pub outcomes: BTreeMap<&'static str, u64>,
}

/// Compares program and model on so many random packets.
///
/// # Errors
/// When they differ, with the packet and what either made of it; or when the program cannot be run: without root, or
/// without `ip` of iproute2.
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

/// A network of its own with the program in it. The thread that enters it stays there.
pub struct Stage {
    program: Program,
    router: Router,
    leaving: Socket,
    entrance: u32,
    /// Addresses of the frames that come in, and of those that leave.
    in_head: [u8; ETHERNET_LEN],
    out_head: [u8; ETHERNET_LEN],
    expected: [u64; COUNTERS],
    report: Report,
    buffer: Vec<u8>,
}

impl Stage {
    /// Makes the network and moves the calling thread there.
    pub fn enter() -> Result<Self, Failure> {
        sys::enter_new_network()
            .map_err(|error| format!("cannot make a network namespace: {error}; be root"))?;
        for setting in ["all/forwarding", "default/accept_dad"] {
            let value = if setting.ends_with("forwarding") { "1" } else { "0" };
            fs::write(format!("/proc/sys/net/ipv6/conf/{setting}"), value)?;
        }
        // Off, so that nothing but the packets tested leaves.
        ip(&format!(
            "link add name in mtu 65535 type veth peer name in-far\n\
             link add name out mtu 65535 type veth peer name out-far\n\
             link set out addrgenmode none\nlink set out-far addrgenmode none\n\
             link set in up\nlink set in-far up\nlink set out up\nlink set out-far up\n\
             addr add {NETWORK}1/112 dev out nodad\n\
             neigh add {NETWORK}2 lladdr 02:00:00:00:00:02 dev out nud permanent\n\
             route add default via {NETWORK}2\n"
        ))?;
        let interfaces = Netlink::open()?.interfaces()?;
        let leaving = sys::packet_socket(interfaces["out"].index)?;
        leaving.set_recv_buffer_size(4 << 20)?;
        let program = Program::load().map_err(|error| error.to_string())?;
        let router = Router { is_enabled: false, min_dsts: 0, dialect: Dialect::Rfc, own: BTreeSet::new() };
        let head = |to: [u8; 6], from: [u8; 6]| {
            let mut head = [0; ETHERNET_LEN];
            head[..6].copy_from_slice(&to);
            head[6..12].copy_from_slice(&from);
            head[12..].copy_from_slice(&(libc::ETH_P_IPV6 as u16).to_be_bytes());
            head
        };
        Ok(Self {
            program,
            router,
            leaving,
            entrance: interfaces["in"].index,
            in_head: head(mac("in")?, NEIGHBOUR_MAC),
            out_head: head(NEIGHBOUR_MAC, mac("out")?),
            expected: [0; COUNTERS],
            report: Report::default(),
            buffer: vec![0; 1 << 16],
        })
    }

    /// Program and model are this router from now on.
    pub fn configure(&mut self, router: Router) -> Result<(), Failure> {
        self.program.configure(&router, false, 0).map_err(|error| error.to_string())?;
        self.router = router;
        Ok(())
    }

    /// Compares them on one packet, with whatever padding is behind it.
    pub fn check(&mut self, packet: &[u8]) -> Result<(), Failure> {
        let frame = [&self.in_head[..], packet].concat();
        let expected = self.expect(packet);
        let (answer, last) = self.program.test(self.entrance, &frame).map_err(|error| error.to_string())?;
        let mut seen = self.left()?;
        if answer != DROP {
            seen.push(last);
        }
        self.report.packets += 1;
        self.report.out += seen.len() as u64;
        if (answer, &seen) == (expected.0, &expected.1) {
            return self.check_request(packet);
        }
        let frames =
            |frames: &[Vec<u8>]| frames.iter().map(|frame| format!("  {}\n", hex(frame))).collect::<String>();
        Err(format!(
            "the program differs from the model, for {:?}, in the packet\n  {}\nmodel: answer {}\n{}program: answer \
             {answer}\n{}",
            self.router,
            hex(packet),
            expected.0,
            frames(&expected.1),
            frames(&seen)
        )
        .into())
    }

    /// The answer and the frames that the model says.
    fn expect(&mut self, packet: &[u8]) -> (i32, Vec<Vec<u8>>) {
        let passed = |packet: &[u8], padding: &[u8]| vec![[&self.in_head[..], packet, padding].concat()];
        let outcome = self.router.forward(packet);
        *self.report.outcomes.entry(name(&outcome)).or_default() += 1;
        let mut add = |counter: usize| self.expected[counter] += 1;
        match outcome {
            Outcome::Pass => (NEXT, passed(packet, &[])),
            Outcome::Request { passed_on, .. } => {
                add(Counter::Requests as usize);
                (NEXT, passed(&passed_on, &packet[passed_on.len()..]))
            }
            Outcome::Drop(reason) => {
                add(match reason {
                    Dropped::Malformed(reason) => reason as usize,
                    Dropped::HopLimit => Counter::HopLimit as usize,
                    Dropped::NothingToDeliver => Counter::NothingToDeliver as usize,
                });
                (DROP, Vec::new())
            }
            Outcome::Forward(copies) => {
                add(Counter::Data as usize);
                copies.iter().for_each(|copy| add(counter(copy.kind) as usize));
                let frame = |copy: Outgoing| [&self.out_head[..], &copy.packet].concat();
                let frames: Vec<_> = copies.into_iter().map(frame).collect();
                (if frames.is_empty() { DROP } else { REDIRECT }, frames)
            }
        }
    }

    /// The copies that have left.
    fn left(&mut self) -> io::Result<Vec<Vec<u8>>> {
        let mut frames = Vec::new();
        loop {
            match (&self.leaving).read(&mut self.buffer) {
                Ok(len) if self.buffer[..6] == NEIGHBOUR_MAC => frames.push(self.buffer[..len].to_vec()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(frames),
                Err(error) => return Err(error),
            }
        }
    }

    /// The daemon gets the requests as they came in, and nothing else.
    fn check_request(&mut self, packet: &[u8]) -> Result<(), Failure> {
        let expected = match self.router.forward(packet) {
            Outcome::Request { passed_on, .. } => Some(packet[..passed_on.len()].to_vec()),
            _ => None,
        };
        let heard = self.program.next_request();
        match heard == expected {
            true => Ok(()),
            false => Err(format!("the daemon hears {heard:?}, expected {expected:?}").into()),
        }
    }

    /// Compares all that has been counted.
    pub fn check_counters(&self) -> Result<(), Failure> {
        let mut counted = self.program.counters().map_err(|error| error.to_string())?;
        // The model has no count of these: they are passed on like what is not MEADcast.
        counted[Counter::Responses as usize] = 0;
        match counted == self.expected {
            true => Ok(()),
            false => {
                Err(format!("the program has counted {counted:?}, the model {:?}", self.expected).into())
            }
        }
    }
}

fn name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "passed on",
        Outcome::Forward(_) => "forwarded",
        Outcome::Request { .. } => "requests",
        Outcome::Drop(Dropped::Malformed(reason)) => reason.name(),
        Outcome::Drop(Dropped::HopLimit) => "hop-limit",
        Outcome::Drop(Dropped::NothingToDeliver) => "nothing-to-deliver",
    }
}

fn mac(interface: &str) -> Result<[u8; 6], Failure> {
    // The file system that is mounted shows another network, but this is asked through netlink by `ip`.
    let output = Command::new("ip").args(["-o", "link", "show", "dev", interface]).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let address = text.split_whitespace().skip_while(|word| *word != "link/ether").nth(1);
    let octets = address.map(|text| text.split(':').filter_map(|octet| u8::from_str_radix(octet, 16).ok()));
    let octets: Vec<u8> = octets.into_iter().flatten().collect();
    octets.try_into().map_err(|_| format!("{interface} has no Ethernet address: {text}").into())
}

fn ip(commands: &str) -> Result<(), Failure> {
    let mut command = Command::new("ip");
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .map_err(|error| format!("cannot run ip of iproute2 ({error}): apt install iproute2"))?;
    child.stdin.take().expect("it is piped").write_all(commands.as_bytes())?;
    let output = child.wait_with_output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("ip: {}", String::from_utf8_lossy(&output.stderr).trim()).into()),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One of the model's addresses; here so that generator and tests agree.
pub(crate) fn node(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd14, 0, 0, 0, 0, 1, 0, number)
}
