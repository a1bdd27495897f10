//! Messages of DNS and mDNS, before a parser reads them (RFC 1035, section 4.1).

const HEADER_LEN: usize = 12;
/// The shortest question: the root's name, a type and a class.
const QUESTION_LEN: usize = 5;
/// The shortest record: the root's name, type, class, time to live and the length of its data.
const RECORD_LEN: usize = 11;

/// Whether a message is long enough for as many questions and records as its header promises. The parser of hickory makes room for
/// all of them before it reads any, so a packet of twelve bytes would take six megabytes.
pub fn has_room(message: &[u8]) -> bool {
    let count = |at: usize| match message.get(at..at + 2) {
        Some(count) => usize::from(u16::from_be_bytes([count[0], count[1]])),
        None => 0,
    };
    let records = count(6) + count(8) + count(10);
    HEADER_LEN + count(4) * QUESTION_LEN + records * RECORD_LEN <= message.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_message_promises_more_than_it_has_room_for() {
        let message = |counts: [u16; 4], len: usize| {
            let mut bytes = vec![0; 4];
            bytes.extend(counts.iter().flat_map(|count| count.to_be_bytes()));
            bytes.resize(len, 0);
            has_room(&bytes)
        };
        assert!(message([0; 4], 12) && message([1, 1, 0, 0], 28) && message([0, 0, 1, 1], 34));
        for at in 0..4 {
            let mut counts = [0; 4];
            counts[at] = u16::MAX;
            assert!(!message(counts, 1200), "{at}");
        }
        assert!(!message([1, 0, 0, 0], 16) && !message([0, 1, 0, 0], 22));
        assert!(!has_room(&[0; 11]) && !has_room(&[]));
    }
}
