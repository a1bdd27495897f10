//! One run of another kind: `treecast send` delivers a file, and what is measured is how long each receiver heard nothing.
//!
//! What a session sends is sealed, so its packets are counted where their receivers' programs read them.

use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::fs::FileExt,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use super::{
    super::store::Store,
    plan::Planned,
    play::{self, Played, while_they_happen},
    program::{Program, Said},
    stage::Stage,
    traffic::{self, Second, Sent, Tally},
};
use treecast_lab::{LabNode, process::Ended};

/// How often it is looked whether something has come.
const LOOK: Duration = Duration::from_millis(5);

/// A session may take so many times as long as its file takes at its rate: links may not bear a copy for each receiver.
const SLOWEST: u32 = 20;

/// How long programs may take for anything else.
const PATIENCE: Duration = Duration::from_secs(20);

/// A session that is about to begin: its sender waits for receivers.
pub struct Session<'a> {
    stage: &'a Stage,
    planned: &'a Planned<'a>,
    pub receivers: Vec<String>,
    bytes: u64,
    store: Store,
    ticket: PathBuf,
    sender: Program,
    /// The processor time that it took, when it has ended.
    sender_cpu: Option<Duration>,
    ears: Vec<Ear>,
}

/// What has come to a receiver's node, by its kernel's counters.
struct Ear {
    /// Opened in the node, it is of that node wherever it is read.
    counters: File,
    datagrams: u64,
    /// When the last ones came, since the beginning.
    last: Option<Duration>,
    tally: Tally,
}

impl<'a> Session<'a> {
    pub fn set(stage: &'a Stage, planned: &'a Planned, payload_bytes: usize) -> io::Result<Self> {
        let [group] = &planned.groups[..] else {
            return Err(io::Error::other("a session has one sender: take a use case with one"));
        };
        let receivers = group.receivers.clone();
        let bytes = u64::from(planned.packets) * payload_bytes as u64;
        let store = Store::in_memory(bytes * (1 + receivers.len() as u64)).map_err(io::Error::other)?;
        let folder = store.fresh_folder("sender")?;
        let (file, ticket) = (folder.join("file"), folder.join("ticket"));
        io::copy(&mut File::open("/dev/urandom")?.take(bytes), &mut File::create(&file)?)?;
        let addresses = receivers.iter().map(|receiver| Ok(play::address(stage, receiver)?.to_string()));
        let addresses = addresses.collect::<io::Result<Vec<_>>>()?.join(",");
        let mut command = stage.treecast("send");
        command.args(["--fanout", "auto", "--receivers", &addresses, "--ticket-file"]).arg(&ticket);
        command.args(["--interface", interface(play::node(stage, &group.sender)?)?]);
        let rate = planned.delivery.rate.map(|rate| rate.0.to_string());
        command.args(rate.iter().flat_map(|rate| ["--rate", rate.as_str()])).arg(&file);
        let sender = Program::start(command, |command| stage.spawn(&group.sender, command))?;
        wait_for(&sender, "ticket")?;
        let ears = receivers.iter().map(|receiver| Ear::open(stage, receiver)).collect::<io::Result<_>>()?;
        Ok(Self { stage, planned, receivers, bytes, store, ticket, sender, sender_cpu: None, ears })
    }

    /// Has receivers come, and returns when all have ended.
    pub fn play(mut self, stop: &(dyn Fn() -> bool + Sync)) -> io::Result<Played> {
        let (origin, began) = (Instant::now(), traffic::now());
        let programs = self.start_receivers()?;
        let (lab, events) = (self.stage.lab(), &self.planned.delivery.events);
        let (whole, events) = while_they_happen(lab, events, origin, || self.listen(&programs, origin, stop));
        let (whole, events) = (whole?, events?);
        drop(programs);
        let sender_cpu = self.end_sender(stop)?;
        let packets = if stop() { 0 } else { self.planned.packets };
        let lasted = origin.elapsed();
        // Afterwards there are retransmissions, over connections, and nothing to hear.
        let last = self.ears.iter().filter_map(|ear| ear.last).max().unwrap_or_default();
        let ears = self.ears.into_iter().zip(whole);
        let tallies = ears.map(|(ear, whole)| ear.end(began, last, whole, self.planned.packets)).collect();
        let sent = Sent { packets, began, lasted, ..Sent::default() };
        Ok(Played { sent, tallies, sender_cpu, events, discovery: None })
    }

    fn start_receivers(&self) -> io::Result<Vec<Program>> {
        let start = |receiver: &String| {
            let mut command = self.stage.treecast("receive");
            command.args(["--name", receiver, "--interface", interface(play::node(self.stage, receiver)?)?]);
            command.arg("--into").arg(self.store.fresh_folder(receiver)?);
            command.arg(format!("@{}", self.ticket.display()));
            Program::start(command, |command| self.stage.spawn(receiver, command))
        };
        self.receivers.iter().map(start).collect()
    }

    /// Listens to all receivers until they have ended. Returns when each had the file, whole and verified, since the
    /// beginning.
    fn listen(
        &mut self,
        programs: &[Program],
        origin: Instant,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<Vec<Option<Duration>>> {
        let seconds = self.bytes as f64 * 8.0 / self.planned.delivery.rate.map_or(1e6, |rate| rate.0 as f64);
        let end = origin + Duration::from_secs_f64(seconds) * SLOWEST + PATIENCE;
        let mut whole = vec![None; programs.len()];
        let mut have_ended = vec![false; programs.len()];
        while have_ended.contains(&false) && !stop() {
            if Instant::now() > end {
                return Err(io::Error::other("the session does not come to its end"));
            }
            self.hear_sender()?;
            for (index, program) in programs.iter().enumerate() {
                if whole[index].is_none() {
                    self.ears[index].listen(origin)?;
                }
                while let Some((at, said)) = program.said() {
                    match said {
                        Said::Event(event) if event["event"] == "object" => {
                            whole[index] = Some(at.saturating_duration_since(origin));
                        }
                        Said::Event(_) => {}
                        Said::Ended(..) => have_ended[index] = true,
                    }
                }
            }
            thread::sleep(LOOK);
        }
        Ok(whole)
    }

    /// Fails where the sender has: its receivers would wait for it.
    fn hear_sender(&mut self) -> io::Result<()> {
        while let Some((_, said)) = self.sender.said() {
            if let Said::Ended(ended, last) = said {
                self.sender_cpu = Some(processor_time(ended, last)?);
            }
        }
        Ok(())
    }

    /// It ends by itself. Returns the processor time that it took.
    fn end_sender(&self, stop: &dyn Fn() -> bool) -> io::Result<Duration> {
        if let Some(cpu) = self.sender_cpu {
            return Ok(cpu);
        }
        let (ended, last) = self.sender.ended(Instant::now() + PATIENCE)?;
        if stop() { Ok(Duration::ZERO) } else { processor_time(ended, last) }
    }
}

/// What a sender took whose session came to its end. Its exit code is 3 where a receiver lacks something: that is a result.
fn processor_time(ended: Option<Ended>, last: Option<String>) -> io::Result<Duration> {
    let ended = ended.unwrap_or_default();
    match ended.code {
        Some(0 | 3) => Ok(ended.cpu_user + ended.cpu_system),
        _ => {
            let (how, last) = (ended.describe(), last.unwrap_or_else(|| "it said nothing".into()));
            Err(io::Error::other(format!("treecast send: {how}: {last}")))
        }
    }
}

impl Ear {
    fn open(stage: &Stage, receiver: &str) -> io::Result<Self> {
        let open = || File::open("/proc/thread-self/net/snmp6");
        let counters = stage.lab().enter(receiver, open).map_err(io::Error::other)??;
        let mut ear = Self { counters, datagrams: 0, last: None, tally: Tally::new(1) };
        ear.datagrams = ear.count()?;
        Ok(ear)
    }

    fn count(&self) -> io::Result<u64> {
        let mut text = [0; 8192];
        let len = self.counters.read_at(&mut text, 0)?;
        udp_datagrams(&String::from_utf8_lossy(&text[..len]))
            .ok_or_else(|| io::Error::other("/proc/net/snmp6 has no Udp6InDatagrams"))
    }

    fn listen(&mut self, origin: Instant) -> io::Result<()> {
        let (datagrams, now) = (self.count()?, origin.elapsed());
        let came = datagrams - self.datagrams;
        if came == 0 {
            return Ok(());
        }
        self.datagrams = datagrams;
        self.hear(now, came);
        Ok(())
    }

    fn hear(&mut self, now: Duration, came: u64) {
        self.break_silence(now);
        self.last = Some(now);
        let second = now.as_secs() as usize;
        if self.tally.seconds.len() <= second {
            self.tally.seconds.resize(second + 1, Second::default());
        }
        self.tally.seconds[second].packets += came;
    }

    fn break_silence(&mut self, now: Duration) {
        if let Some(last) = self.last {
            self.tally.longest_gap = self.tally.longest_gap.max((now.saturating_sub(last), last));
        }
    }

    /// As if each packet of the plan had come, where the file has; and none, where it has not. `last` is when anybody heard
    /// anything last: afterwards there is nothing to hear. Who has heard nothing at all was silent until it had the file.
    fn end(mut self, began: Duration, last: Duration, whole: Option<Duration>, packets: u32) -> Tally {
        match self.last {
            Some(_) => self.break_silence(whole.map_or(last, |whole| whole.min(last))),
            None => self.tally.longest_gap.0 = whole.unwrap_or(last),
        }
        self.tally.longest_gap.1 += began;
        self.tally.latency_min = Duration::ZERO;
        if let Some(whole) = whole {
            self.tally.last = began + whole;
            self.tally.fill(packets);
        }
        self.tally
    }
}

/// Those that programs have read, super-packets counted once, from what the kernel tells.
fn udp_datagrams(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("Udp6InDatagrams"))?;
    line.split_whitespace().last()?.parse().ok()
}

fn interface(node: &LabNode) -> io::Result<&str> {
    let first = node.interfaces.first().map(|interface| interface.name.as_str());
    first.ok_or_else(|| io::Error::other(format!("{} is on no network", node.name)))
}

fn wait_for(program: &Program, kind: &str) -> io::Result<()> {
    let end = Instant::now() + PATIENCE;
    while program.event(end)?.1["event"] != kind {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn ear(came: &[u32]) -> Ear {
        let counters = File::open("/proc/self/net/snmp6").expect("the kernel tells");
        let mut ear = Ear { counters, datagrams: 0, last: None, tally: Tally::new(1) };
        came.iter().for_each(|at| ear.hear(MS * *at, 2));
        ear
    }

    /// When silence began, and how long it was, in milliseconds.
    fn silence(came: &[u32], last: u32, whole: Option<u32>) -> (u128, u128) {
        let tally = ear(came).end(Duration::ZERO, MS * last, whole.map(|at| MS * at), 9);
        assert_eq!(tally.packets, if whole.is_some() { 9 } else { 0 });
        (tally.longest_gap.1.as_millis(), tally.longest_gap.0.as_millis())
    }

    #[test]
    fn silence_lasts_until_there_is_nothing_to_hear() {
        assert_eq!(silence(&[900, 910, 1_100, 1_150], 1_150, Some(3_000)), (910, 190));
        assert_eq!(silence(&[10, 20], 5_000, None), (20, 4_980), "others went on hearing");
        assert_eq!(silence(&[10, 20], 5_000, Some(60)), (20, 40), "it had all that it wanted");
        assert_eq!(silence(&[], 5_000, Some(7_000)), (0, 7_000), "it had it over its connection");
        assert_eq!(silence(&[], 5_000, None), (0, 5_000), "it had nothing");
    }

    #[test]
    fn a_sender_that_fails_is_told_of_with_its_last_words() {
        let ended =
            |code, signal| Some(Ended { code, signal, cpu_user: MS, cpu_system: MS, ..Ended::default() });
        let last = || Some("error: no route".to_owned());
        assert_eq!(processor_time(ended(Some(0), None), None).unwrap(), 2 * MS);
        assert_eq!(
            processor_time(ended(Some(3), None), last()).unwrap(),
            2 * MS,
            "a receiver lacks something"
        );
        let why = |ended, last| processor_time(ended, last).unwrap_err().to_string();
        let said = "treecast send: its program ended with exit code 1: error: no route";
        assert_eq!(why(ended(Some(1), None), last()), said);
        let killed = "treecast send: its program was killed by signal 9: it said nothing";
        assert_eq!(why(ended(None, Some(9)), None), killed);
        assert!(processor_time(None, None).is_err(), "nobody knows how it ended");
    }

    #[test]
    fn datagrams_are_counted_by_the_kernel() {
        assert_eq!(udp_datagrams("Ip6InReceives\t9\nUdp6InDatagrams                 \t17\n"), Some(17));
        assert_eq!(udp_datagrams("Ip6InReceives 9"), None);
        assert!(ear(&[]).count().is_ok());
    }
}
