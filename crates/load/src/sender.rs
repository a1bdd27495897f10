//! Sends packets at absolute deadlines.
//!
//! Packet `k` of a step is due at the step's beginning plus `k / rate`, whatever happened before, so being late once makes no later
//! packet late. Packets that are due together leave in one call (`sendmmsg`).

use std::{
    io::{self, IoSlice},
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    time::Duration,
};

use treecast_host::{clock, control::Control, messages, process, stop::Stop, turns};

use crate::{
    account::SpreadCounter,
    config::{RunConfig, Sending},
    packet::{Format, Packet, Stamp},
    report::{SenderReport, StepReport},
    schedule::Step,
};

/// The largest number of packets in one call.
const BATCH: usize = 64;

/// The largest super-packet, in bytes of UDP payload.
const MAX_SUPER_BYTES: usize = 65_000;

/// The time after the end of a step in which packets that are late are still sent.
const GRACE: Duration = Duration::from_millis(50);

/// The longest sleep without a look at whether the run was stopped.
const MAX_SLEEP: Duration = Duration::from_millis(200);

/// The number of calls after which a sender that is never idle asks whether the run was stopped.
const ASK_EVERY: u32 = 64;
/// The idle time from which on a sender asks whether the run was stopped.
const ASK_BEFORE: Duration = Duration::from_millis(1);

/// The number of times that the end of a session is told, and the time between.
const END_PACKETS: u32 = 3;
const END_GAP: Duration = Duration::from_millis(20);

/// One sender.
pub struct Sender {
    pub socket: UdpSocket,
    pub identity: Ipv4Addr,
    /// The session. `None` with the paper's packet.
    pub session: Option<u32>,
    /// The delay of this sender's packets after those of the first one, as a share of [`Step::spread_seconds`].
    pub phase: f64,
}

/// The senders of one thread.
pub struct Crew {
    members: Vec<Member>,
    batch: Batch,
    spin: Duration,
    /// The first error of the kernel.
    pub refusal: Option<String>,
}

struct Member {
    sender: Sender,
    source: SocketAddr,
    sent: u64,
    refused: u64,
    steps: Vec<StepReport>,
    deadline_error: SpreadCounter,
    step: InStep,
    /// The deadlines of packets that are due now.
    due: Vec<Duration>,
}

/// The packets of a sender in the current step.
#[derive(Default)]
struct InStep {
    sent: u64,
    first: Duration,
    last: Duration,
}

/// Room for the packets of one call.
struct Batch {
    size: usize,
    bytes: Vec<u8>,
    super_packets: bool,
}

impl Crew {
    pub fn new(config: &RunConfig, sending: &Sending, senders: Vec<Sender>) -> io::Result<Self> {
        let member = |sender: Sender| {
            Ok(Member {
                source: sender.socket.local_addr()?,
                sender,
                sent: 0,
                refused: 0,
                steps: Vec::new(),
                deadline_error: SpreadCounter::default(),
                step: InStep::default(),
                due: Vec::with_capacity(BATCH),
            })
        };
        let size = config.size_bytes;
        let batch = Batch { size, bytes: vec![0; size * BATCH], super_packets: sending.super_packets };
        let members = senders.into_iter().map(member).collect::<io::Result<_>>()?;
        Ok(Self { members, batch, spin: sending.spin, refusal: None })
    }

    /// Sends all steps, the first one from `begin` on, and tells the end of the sessions.
    pub fn run(&mut self, steps: &[Step], begin: Duration, stop: &Stop) {
        turns::take_short();
        process::set_exact_timers();
        let mut at = begin;
        for step in steps {
            self.send_step(step, at, stop);
            self.members.iter_mut().for_each(|member| member.end_step(step));
            at += Duration::from_secs_f64(step.seconds);
        }
        for round in 0..END_PACKETS {
            if round > 0 {
                std::thread::sleep(END_GAP);
            }
            self.members.iter_mut().for_each(|member| member.send_end(&mut self.batch, steps));
        }
    }

    /// The report of each sender.
    pub fn reports(self) -> Vec<SenderReport> {
        self.members.into_iter().map(Member::report).collect()
    }

    fn send_step(&mut self, step: &Step, begin: Duration, stop: &Stop) {
        let over = begin + Duration::from_secs_f64(step.seconds) + GRACE;
        let (packets, count) = (step.packets(), self.members.len());
        let due_at = |index: u64, member: &Member| {
            let phase = Duration::from_secs_f64(member.sender.phase * step.spread_seconds());
            begin + Duration::from_nanos(step.due_ns(index)) + phase
        };
        // Packet `next / count` of sender `next % count` is the next one.
        let (mut next, last) = (0, packets * count as u64);
        let mut calls = 0_u32;
        while next < last {
            // The question is a system call, and not worth asking before each packet.
            calls += 1;
            if calls.is_multiple_of(ASK_EVERY) && stop.is_requested() {
                break;
            }
            let first = due_at(next / count as u64, &self.members[(next % count as u64) as usize]);
            let Some(now) = self.wait(first.min(over), stop) else { break };
            if now >= over {
                break;
            }
            let end = last.min(next + (BATCH * count) as u64);
            while next < end {
                let member = &mut self.members[(next % count as u64) as usize];
                let due = due_at(next / count as u64, member);
                if due > now {
                    break;
                }
                member.due.push(due);
                next += 1;
            }
            for member in self.members.iter_mut().filter(|member| !member.due.is_empty()) {
                if let Err(error) = member.send_due(&mut self.batch, step.rate_pps) {
                    self.refusal.get_or_insert_with(|| error.to_string());
                }
            }
        }
    }

    /// Waits for a deadline. Returns the time, or `None` if the run was stopped while there was time to ask.
    fn wait(&self, deadline: Duration, stop: &Stop) -> Option<Duration> {
        let sleep_end = deadline.saturating_sub(self.spin);
        let mut now = clock::monotonic();
        while now < sleep_end {
            if sleep_end - now > ASK_BEFORE && stop.is_requested() {
                return None;
            }
            clock::sleep_until(sleep_end.min(now + MAX_SLEEP));
            now = clock::monotonic();
        }
        while now < deadline {
            std::hint::spin_loop();
            now = clock::monotonic();
        }
        Some(now)
    }
}

impl Member {
    /// Sends the packets that are due. A packet that the kernel refuses has no number, so that nobody misses it.
    fn send_due(&mut self, batch: &mut Batch, rate_pps: f64) -> io::Result<()> {
        let mut result = Ok(());
        let mut done = 0;
        while done < self.due.len() {
            let now = clock::monotonic();
            let wanted = self.due.len() - done;
            batch.fill(&self.sender, self.sent + 1, wanted, rate_pps);
            match batch.send(&self.sender.socket, wanted) {
                Ok(sent) => {
                    self.note(done, sent, now);
                    done += sent;
                }
                Err(error) => {
                    self.refused += 1;
                    done += 1;
                    result = Err(error);
                }
            }
        }
        self.due.clear();
        result
    }

    /// Counts packets that left at `now`: `sent` of those that are due, from place `first` on.
    fn note(&mut self, first: usize, sent: usize, now: Duration) {
        if self.step.sent == 0 {
            self.step.first = now;
        }
        self.step.last = now;
        self.step.sent += sent as u64;
        self.sent += sent as u64;
        for due in &self.due[first..first + sent] {
            self.deadline_error.add(now.saturating_sub(*due));
        }
    }

    fn end_step(&mut self, step: &Step) {
        let InStep { sent, first, last } = std::mem::take(&mut self.step);
        let seconds = (last - first).as_secs_f64();
        let real_pps = if sent < 2 || seconds <= 0.0 { step.rate_pps } else { (sent - 1) as f64 / seconds };
        self.steps.push(StepReport { asked_pps: step.rate_pps, real_pps, asked: step.packets(), sent });
    }

    /// Tells the end of the session, if the packet can. A refusal harms nobody: receivers then only do not know the end.
    fn send_end(&mut self, batch: &mut Batch, steps: &[Step]) {
        let Some(session) = self.sender.session else { return };
        let rate_pps = steps.last().map_or(1.0, |step| step.rate_pps) as f32;
        let stamp = Stamp { is_end: true, session, rate_pps, sent: clock::since_1970() };
        let packet = Packet { sender: self.sender.identity, number: self.sent, stamp: Some(stamp) };
        packet.write(&mut batch.bytes);
        _ = self.sender.socket.send(&batch.bytes[..batch.size]);
    }

    fn report(self) -> SenderReport {
        SenderReport {
            sender: self.sender.identity,
            session: self.sender.session,
            source: self.source,
            asked: self.steps.iter().map(|step| step.asked).sum(),
            sent: self.sent,
            refused: self.refused,
            steps: self.steps,
            deadline_error: self.deadline_error.report(),
        }
    }
}

impl Batch {
    /// Writes `count` packets from `number` on.
    fn fill(&mut self, sender: &Sender, number: u64, count: usize, rate_pps: f64) {
        let sent = clock::since_1970();
        let stamp =
            sender.session.map(|session| Stamp { is_end: false, session, rate_pps: rate_pps as f32, sent });
        for (number, bytes) in (number..).zip(self.bytes.chunks_exact_mut(self.size).take(count)) {
            Packet { sender: sender.identity, number, stamp }.write(bytes);
        }
    }

    /// Sends the first `count` packets, or at least the first one. Returns how many the kernel has taken.
    fn send(&mut self, socket: &UdpSocket, count: usize) -> io::Result<usize> {
        let in_super = (MAX_SUPER_BYTES / self.size).min(count);
        if self.super_packets && in_super > 1 {
            let control = Control::NONE.with_segment_len(self.size as u16);
            let bytes = IoSlice::new(&self.bytes[..self.size * in_super]);
            match messages::send(socket, None, &[bytes], &control) {
                Ok(_) => return Ok(in_super),
                // The kernel or the device cannot, or a packet is longer than the MTU.
                Err(_) => self.super_packets = false,
            }
        }
        let slices: [IoSlice<'_>; BATCH] = std::array::from_fn(|index| {
            IoSlice::new(self.bytes.get(self.size * index..self.size * (index + 1)).unwrap_or_default())
        });
        messages::send_many(socket, slices[..count].chunks(1).map(|packet| (None, packet)))
    }
}

impl Format {
    /// The session of a sender that starts: a random number, or `None` for the paper's packet.
    pub fn new_session(self) -> Option<u32> {
        (self == Self::Own).then(random)
    }
}

/// A random number. It keeps sessions apart, and is no secret.
pub fn random() -> u32 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id()) as u32
}
