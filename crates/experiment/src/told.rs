//! Reads what a client's program tells about itself, one JSON event in each line (`treecast receive --json`).

use treecast_driver::{
    events::Timed,
    receive::{ReceiveEvent, ReceiveProgress},
    unicast::{ClientProgress, FetchEvent},
};

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
    /// Why the client has no copy.
    pub failure: Option<String>,
    /// The objects that have begun.
    pub objects: Vec<ToldObject>,
}

/// An object as its receiver describes it. Times are in seconds since the program's start.
#[derive(Debug, Clone, PartialEq)]
pub struct ToldObject {
    pub name: String,
    pub announced: f64,
    pub finished: Option<f64>,
}

/// The most objects of which a client's word is kept; no run has more.
const MAX_OBJECTS: usize = 20_000;

impl Told {
    /// Takes in a line. Returns whether the line says that an object is complete and verified.
    pub fn listen(&mut self, line: &str) -> bool {
        match Timed::read(line) {
            Ok(Timed { event, seconds }) => self.note(event, seconds),
            Err(_) => serde_json::from_str(line).is_ok_and(|event| self.note_fetch(&event)),
        }
    }

    fn note(&mut self, event: ReceiveEvent, seconds: Option<f64>) -> bool {
        match event {
            ReceiveEvent::Progress(progress) => self.note_progress(&progress),
            ReceiveEvent::Done(done) => self.note_progress(&done.progress),
            ReceiveEvent::Failed { reason, discarded_bytes, .. } => {
                self.failure = Some(reason);
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
    fn bytes_of_a_file_that_failed_have_come_nevertheless() {
        let mut told = Told::default();
        told.listen(r#"{"event":"failed","name":"a","reason":"2 bytes were lost","discarded_bytes":7}"#);
        told.listen(r#"{"event":"progress","bytes":0}"#);
        assert_eq!((told.received_bytes, told.failure.as_deref()), (7, Some("2 bytes were lost")));
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
