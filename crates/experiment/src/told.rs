//! What a client's program tells about itself, one JSON event a line (`treecast receive --json`).

use serde_json::Value;

/// Counts of one client, as its program has them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Told {
    /// Bytes of the object.
    pub received_bytes: u64,
    pub retransmitted_bytes: u64,
    pub duplicate_bytes: u64,
    /// Packets that the kernel dropped at its socket.
    pub dropped_packets: u64,
    /// Why it has no copy.
    pub failure: Option<String>,
    /// Each object that has begun.
    pub objects: Vec<ToldObject>,
}

/// An object by its receiver's own word, times in seconds since the program's start.
#[derive(Debug, Clone, PartialEq)]
pub struct ToldObject {
    pub name: String,
    pub announced: f64,
    pub finished: Option<f64>,
}

/// The most objects of which a client's word is kept; no run has more.
const MAX_OBJECTS: usize = 20_000;

impl Told {
    /// Takes in a line. Returns whether it says that an object is complete and verified.
    pub fn listen(&mut self, line: &str) -> bool {
        let Ok(event) = serde_json::from_str::<Value>(line) else { return false };
        let take = |count: &mut u64, key: &str| {
            if let Some(value) = event.get(key).and_then(Value::as_u64) {
                *count = value;
            }
        };
        take(&mut self.received_bytes, "bytes");
        take(&mut self.retransmitted_bytes, "retransmitted_bytes");
        take(&mut self.duplicate_bytes, "duplicate_bytes");
        take(&mut self.dropped_packets, "dropped_packets");
        let kind = event.get("event").and_then(Value::as_str);
        if kind == Some("failed") {
            self.failure = event.get("reason").and_then(Value::as_str).map(str::to_owned);
        }
        self.note_object(kind, &event);
        kind == Some("object")
    }

    fn note_object(&mut self, kind: Option<&str>, event: &Value) {
        let name = event.get("name").and_then(Value::as_str);
        let Some((name, seconds)) = name.zip(event.get("seconds").and_then(Value::as_f64)) else { return };
        match kind {
            Some("announced") if self.objects.len() < MAX_OBJECTS => {
                let object = ToldObject { name: name.to_owned(), announced: seconds, finished: None };
                self.objects.push(object);
            }
            Some("object") => {
                // It is one of the last that have begun.
                let object = self.objects.iter_mut().rev().find(|object| object.name == name);
                if let Some(object) = object {
                    object.finished = Some(seconds);
                }
            }
            _ => {}
        }
    }
}
