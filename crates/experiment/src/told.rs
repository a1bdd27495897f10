//! Reads what the programs of a session tell about themselves, one JSON event in each line (`treecast receive --json`,
//! `treecast send --json`).

use std::collections::BTreeMap;

use serde::Deserialize;
use treecast_driver::{
    events::Timed,
    receive::{LocalProgress, ReceiveEvent, ReceiveProgress},
    send::{SendEvent, SendProgress},
    unicast::{ClientProgress, FetchEvent},
};

/// A line of JSON by which a program of somebody else tells how it fares (docs/other-programs.md).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Line {
    /// Receivers may begin. The sender alone says this.
    Ready {
        /// What receivers are told.
        #[serde(default)]
        ticket: String,
    },
    /// Numbers to be filed. Of each name, the last one counts.
    Figures { figures: BTreeMap<String, f64> },
}

/// Numbers that a program has told, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures(BTreeMap<String, f64>);

impl Figures {
    /// Takes in numbers. Of a program that tells more than so many names, or names that are no words, those are left out.
    pub fn note(&mut self, figures: BTreeMap<String, f64>) {
        const MOST: usize = 100;
        const LONGEST: usize = 60;
        let is_word = |name: &str| {
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            !name.is_empty() && name.len() <= LONGEST && name.chars().all(fits)
        };
        for (name, value) in figures.into_iter().filter(|(name, value)| is_word(name) && value.is_finite()) {
            if self.0.len() < MOST || self.0.contains_key(&name) {
                self.0.insert(name, value);
            }
        }
    }

    /// The numbers by the names of the measures that they are filed under.
    pub fn measures(&self) -> impl Iterator<Item = (String, f64)> {
        self.0.iter().map(|(name, value)| (format!("figure_{name}"), *value))
    }
}

/// The counts of one client, as its program tells them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Told {
    /// The number of bytes of the object that have arrived.
    pub received_bytes: u64,
    /// Bytes of objects that failed, which the counts of later events leave out.
    pub discarded_bytes: u64,
    pub retransmitted_bytes: u64,
    pub duplicate_bytes: u64,
    /// The number of packets that the kernel dropped at the client's socket.
    pub dropped_packets: u64,
    /// The client's part in local groups.
    pub local: Option<LocalProgress>,
    /// The most receivers and groups that have reported to the client at one time.
    pub most_served: u64,
    /// The reason why the client has no copy.
    pub failure: Option<String>,
    /// The objects that have begun.
    pub objects: Vec<ToldObject>,
    /// The numbers that a program of somebody else tells.
    pub figures: Figures,
}

/// An object as its receiver describes it. Times are in seconds since the program's start.
#[derive(Debug, Clone, PartialEq)]
pub struct ToldObject {
    pub name: String,
    pub announced: f64,
    pub finished: Option<f64>,
}

/// The counts that a sender's programs tell. Packets are those of objects, and count once for all their receivers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToldSender {
    /// Packets and messages of the sessions before the current one.
    before: SentPackets,
    current: SentPackets,
    /// Bytes of an object in each packet of the current session.
    block_len: u64,
}

/// The packets that sessions have sent, and the messages that they have heard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SentPackets {
    /// Packets to all receivers: first ones, repair symbols, and repairs.
    pub to_all: u64,
    /// Packets sent again, to all or to some.
    pub repairs: u64,
    /// Packets to a local group or to one receiver.
    pub to_some: u64,
    /// Messages from members of local groups. Other senders do not count what they hear.
    pub feedback: Option<u64>,
}

impl ToldSender {
    pub fn note(&mut self, event: &SendEvent) {
        match event {
            SendEvent::Ready { ticket } => {
                self.before = self.all();
                (self.current, self.block_len) = (SentPackets::default(), ticket.block_len.into());
            }
            SendEvent::Progress(progress) => self.current = self.packets(progress),
            SendEvent::Done(done) => self.current = self.packets(&done.progress),
            _ => {}
        }
    }

    fn packets(&self, progress: &SendProgress) -> SentPackets {
        let packets = |bytes: u64| bytes.div_ceil(self.block_len.max(1));
        let first = packets(progress.sent_bytes) + progress.repair_symbols;
        let (to_all, to_some) = match &progress.local {
            Some(local) => (packets(local.session_repair_bytes), packets(local.group_repair_bytes)),
            None => (0, packets(progress.sums().retransmitted_bytes)),
        };
        SentPackets {
            to_all: first + to_all,
            repairs: to_all + to_some,
            to_some,
            feedback: progress.local.map(|local| local.reports + local.requests + local.others),
        }
    }

    /// Returns the sums over all sessions.
    pub fn all(&self) -> SentPackets {
        let (one, other) = (&self.before, &self.current);
        SentPackets {
            to_all: one.to_all + other.to_all,
            repairs: one.repairs + other.repairs,
            to_some: one.to_some + other.to_some,
            feedback: other.feedback.map(|heard| heard + one.feedback.unwrap_or(0)),
        }
    }
}

/// The most objects of which a client's word is kept; no run has more.
const MAX_OBJECTS: usize = 20_000;

impl Told {
    /// Takes in a line. Returns whether the line says that an object is complete and verified.
    pub fn listen(&mut self, line: &str) -> bool {
        match Timed::read(line) {
            Ok(Timed { event, seconds }) => self.note(event, seconds),
            Err(_) => match serde_json::from_str(line) {
                Ok(Line::Figures { figures }) => {
                    self.figures.note(figures);
                    false
                }
                _ => serde_json::from_str(line).is_ok_and(|event| self.note_fetch(&event)),
            },
        }
    }

    /// The group of which the client is the controller. `None` unless others report to it.
    pub fn serves(&self) -> Option<u32> {
        self.local.filter(|local| local.is_controller && local.clients > 0)?.group
    }

    fn note(&mut self, event: ReceiveEvent, seconds: Option<f64>) -> bool {
        match event {
            ReceiveEvent::Progress(progress) => self.note_progress(&progress),
            ReceiveEvent::Done(done) => self.note_progress(&done.progress),
            ReceiveEvent::Failed { reason, discarded_bytes, .. } => {
                self.failure = Some(reason.line);
                self.discarded_bytes += discarded_bytes;
            }
            ReceiveEvent::Announced { name, .. } => {
                if let Some(announced) = seconds.filter(|_| self.objects.len() < MAX_OBJECTS) {
                    self.objects.push(ToldObject { name, announced, finished: None });
                }
            }
            ReceiveEvent::Received { name, .. } => {
                // It is one of the last that have begun.
                let object = self.objects.iter_mut().rev().find(|object| object.name == name);
                if let Some(object) = object {
                    object.finished = seconds;
                }
                return true;
            }
            _ => {}
        }
        false
    }

    fn note_progress(&mut self, progress: &ReceiveProgress) {
        self.received_bytes = progress.received_bytes + self.discarded_bytes;
        self.retransmitted_bytes = progress.retransmitted_bytes;
        self.duplicate_bytes = progress.duplicate_bytes;
        self.dropped_packets = progress.dropped_packets;
        self.local = progress.local;
        self.most_served = self.most_served.max(progress.local.map_or(0, |local| local.clients));
    }

    /// Takes in what a client of `treecast unicast` says.
    fn note_fetch(&mut self, event: &FetchEvent) -> bool {
        match event {
            FetchEvent::Progress(progress) | FetchEvent::Done(progress) => {
                let ClientProgress { received_bytes, dropped_packets, .. } = *progress;
                (self.received_bytes, self.dropped_packets) = (received_bytes, dropped_packets);
                false
            }
            FetchEvent::Object { .. } => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_words_with_numbers_and_the_last_counts() {
        let mut told = Told::default();
        told.listen(r#"{"event":"figures","figures":{"tries":1,"A b":2,"seconds":0.5}}"#);
        told.listen(r#"{"event":"figures","figures":{"tries":3}}"#);
        let measures: Vec<_> = told.figures.measures().collect();
        assert_eq!(measures, [("figure_seconds".to_owned(), 0.5), ("figure_tries".to_owned(), 3.0)]);
    }

    #[test]
    fn bytes_of_a_file_that_failed_have_come_nevertheless() {
        let mut told = Told::default();
        told.listen(r#"{"event":"failed","name":"a","reason":"2 bytes were lost","discarded_bytes":7}"#);
        told.listen(r#"{"event":"progress","bytes":0}"#);
        assert_eq!((told.received_bytes, told.failure.as_deref()), (7, Some("2 bytes were lost")));
    }

    #[test]
    fn what_a_sender_sends_counts_over_all_its_sessions() {
        let mut told = ToldSender::default();
        let ticket = serde_json::from_str(crate::site::tests::TICKET_LINE).unwrap();
        let progress = |text: &str| SendEvent::Progress(serde_json::from_str(text).unwrap());
        told.note(&ticket);
        let block_len = told.block_len;
        told.note(&progress(&format!(
            r#"{{"sent_bytes":{},"local":{{"session_repair_bytes":1,"group_repair_bytes":{block_len},"reports":4,"others":2}}}}"#,
            3 * block_len - 5
        )));
        let first = SentPackets { to_all: 4, repairs: 2, to_some: 1, feedback: Some(6) };
        assert_eq!(told.all(), first);
        told.note(&ticket);
        told.note(&progress(&format!(r#"{{"sent_bytes":{block_len},"repair_symbols":2}}"#)));
        assert_eq!(told.all(), SentPackets { to_all: 7, feedback: None, ..first });
    }

    #[test]
    fn a_controller_serves_while_somebody_reports_to_it() {
        let mut told = Told::default();
        for (line, serves) in [
            (r#"{"event":"progress","local":{"group":7,"is_controller":true,"clients":0}}"#, None),
            (r#"{"event":"progress","local":{"group":7,"is_controller":true,"clients":3}}"#, Some(7)),
            (r#"{"event":"progress","local":{"group":7,"is_controller":false,"clients":0}}"#, None),
        ] {
            told.listen(line);
            assert_eq!(told.serves(), serves, "{line}");
        }
        assert_eq!(told.most_served, 3);
    }

    #[test]
    fn a_receiver_and_a_client_of_unicast_are_understood() {
        let mut told = Told::default();
        for (line, is_whole) in [
            (r#"{"event":"announced","name":"a","size":9,"seconds":0.5}"#, false),
            (r#"{"event":"progress","bytes":7,"duplicate_bytes":3,"dropped_packets":2,"why":"loss"}"#, false),
            (r#"{"event":"object","name":"a","kind":"file","bytes":9,"seconds":0.75}"#, true),
            (r#"{"event":"later versions tell more","name":"a"}"#, false),
            ("no JSON", false),
        ] {
            assert_eq!(told.listen(line), is_whole, "{line}");
        }
        let object = ToldObject { name: "a".into(), announced: 0.5, finished: Some(0.75) };
        assert_eq!(told.objects, [object]);
        assert_eq!((told.received_bytes, told.duplicate_bytes, told.dropped_packets), (7, 3, 2));
        assert!(told.listen(r#"{"event":"object","name":"/tmp/a","bytes":9}"#), "a client of unicast");
    }
}
