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

/// Numbers of the interface by which packets come, and of two by which copies leave.
const ENTRANCE: u32 = 10;
const EXITS: [(u32, &str); 2] = [(11, "out"), (12, "out2")];

/// Of all groups that are tested with, and no group of a kernel's own.
const GROUP_PREFIX: [u8; 2] = [0xff, 0x15];

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
    /// What leaves by each exit.
    leaving: Vec<Socket>,
    /// Addresses of the frames that come in, and of those that leave.
    in_head: [u8; ETHERNET_LEN],
    exit_macs: BTreeMap<u32, [u8; 6]>,
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
            "link add name in index {ENTRANCE} mtu 65535 type veth peer name in-far index 20\n\
             link add name out index 11 mtu 65535 type veth peer name out-far index 21\n\
             link add name out2 index 12 mtu 65535 type veth peer name out2-far index 22\n\
             link set out addrgenmode none\nlink set out-far addrgenmode none\n\
             link set out2 addrgenmode none\nlink set out2-far addrgenmode none\n\
             link set in up\nlink set in-far up\nlink set out up\nlink set out-far up\n\
             link set out2 up\nlink set out2-far up\n\
             addr add {NETWORK}1/112 dev out nodad\n\
             neigh add {NETWORK}2 lladdr 02:00:00:00:00:02 dev out nud permanent\n\
             route add default via {NETWORK}2\n"
        ))?;
        let interfaces = Netlink::open()?.interfaces()?;
        let mac = |name: &str| interfaces[name].mac.ok_or(format!("{name} has no Ethernet address"));
        let leaving =
            EXITS.iter().map(|(index, _)| sys::packet_socket(*index)).collect::<Result<Vec<_>, _>>()?;
        leaving.iter().try_for_each(|socket| socket.set_recv_buffer_size(4 << 20))?;
        let mut program = Program::load().map_err(|error| error.to_string())?;
        let mut exit_macs = BTreeMap::new();
        for (index, name) in EXITS {
            program.set_mac(index, mac(name)?);
            exit_macs.insert(index, mac(name)?);
        }
        program.set_mac(ENTRANCE, mac("in")?);
        let router = Router {
            is_enabled: false,
            min_dsts: 0,
            dialect: Dialect::Rfc,
            own: BTreeSet::new(),
            groups: BTreeMap::new(),
        };
        Ok(Self {
            program,
            router,
            leaving,
            in_head: head(mac("in")?, NEIGHBOUR_MAC),
            exit_macs,
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
        let (answer, last) = self.program.test(ENTRANCE, &frame).map_err(|error| error.to_string())?;
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
        let outcome = self.router.forward(packet, ENTRANCE);
        *self.report.outcomes.entry(name(&outcome)).or_default() += 1;
        let mut add = |counter: usize| self.expected[counter] += 1;
        match outcome {
            Outcome::Pass => (NEXT, passed(packet, &[])),
            Outcome::Request { passed_on, .. } => {
                add(Counter::Requests as usize);
                (NEXT, passed(&passed_on, &packet[passed_on.len()..]))
            }
            Outcome::Drop(reason) => {
                if reason == Dropped::NoListener {
                    add(Counter::Data as usize);
                }
                add(match reason {
                    Dropped::Malformed(reason) => reason as usize,
                    Dropped::HopLimit => Counter::HopLimit as usize,
                    Dropped::NothingToDeliver => Counter::NothingToDeliver as usize,
                    Dropped::NoListener => Counter::NoListener as usize,
                });
                (DROP, Vec::new())
            }
            Outcome::Forward(copies) => {
                add(Counter::Data as usize);
                copies.iter().for_each(|copy| add(counter(copy.kind) as usize));
                // Between two exits, there is no order in what has left; the last copy is not carried out.
                let mut copies = copies;
                let last = copies.pop();
                copies.sort_by_key(exit);
                let frames: Vec<_> = copies.into_iter().chain(last).map(|copy| self.frame(&copy)).collect();
                (if frames.is_empty() { DROP } else { REDIRECT }, frames)
            }
        }
    }

    /// A copy as it leaves.
    fn frame(&self, copy: &Outgoing) -> Vec<u8> {
        let to = match copy.interface {
            Some(_) => [0x33, 0x33, copy.packet[36], copy.packet[37], copy.packet[38], copy.packet[39]],
            None => NEIGHBOUR_MAC,
        };
        [&head(to, self.exit_macs[&exit(copy)])[..], &copy.packet].concat()
    }

    /// The copies that have left.
    fn left(&mut self) -> io::Result<Vec<Vec<u8>>> {
        let mut frames = Vec::new();
        for mut socket in &self.leaving {
            loop {
                match socket.read(&mut self.buffer) {
                    Ok(len) => frames.push(self.buffer[..len].to_vec()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
        }
        // The kernel says other things there, too: it joins groups.
        let is_copy = |frame: &Vec<u8>| frame[..6] == NEIGHBOUR_MAC || frame[38..40] == GROUP_PREFIX;
        frames.retain(is_copy);
        Ok(frames)
    }

    /// The daemon gets the requests as they came in, and nothing else.
    fn check_request(&mut self, packet: &[u8]) -> Result<(), Failure> {
        let expected = match self.router.forward(packet, ENTRANCE) {
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
        Outcome::Drop(Dropped::NoListener) => "no-listener",
    }
}

/// The exit by which a copy leaves: all routes lead to the first.
fn exit(copy: &Outgoing) -> u32 {
    copy.interface.unwrap_or(EXITS[0].0)
}

fn head(to: [u8; 6], from: [u8; 6]) -> [u8; ETHERNET_LEN] {
    let mut head = [0; ETHERNET_LEN];
    head[..6].copy_from_slice(&to);
    head[6..12].copy_from_slice(&from);
    head[12..].copy_from_slice(&(libc::ETH_P_IPV6 as u16).to_be_bytes());
    head
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
