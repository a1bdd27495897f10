//! What a client's program tells about itself, one JSON event a line (`treecast receive --json`).

use serde_json::Value;

/// Counts of one client, as its program has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// Bytes of the object.
    pub received_bytes: u64,
    pub retransmitted_bytes: u64,
    pub duplicate_bytes: u64,
    /// Packets that the kernel dropped at its socket.
    pub dropped_packets: u64,
    /// Why it has no copy.
    pub failure: Option<String>,
}

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
        kind == Some("object")
    }
}
