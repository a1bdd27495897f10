//! The probe: a UDP payload by which packets are counted.
//!
//! ```text
//!  0       4         8     16       18     20        24
//!  +-------+---------+-----+--------+------+---------+-----------+
//!  | tcdr  | version | run | sender | test | number  | zeros ... |   in network order
//!  +-------+---------+-----+--------+------+---------+-----------+
//! ```

/// The length of the fields in bytes. No probe is shorter.
pub const LEN: usize = 24;

const MAGIC: [u8; 4] = *b"tcdr";
const VERSION: u32 = 1;

/// The content of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// A random number of the run.
    pub run: u64,
    /// The sender's number in the run.
    pub sender: u16,
    pub test: u16,
    pub number: u32,
}

impl Probe {
    /// The payload, padded to `len` bytes.
    pub fn to_bytes(self, len: usize) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], &VERSION.to_be_bytes(), &self.run.to_be_bytes()].concat();
        bytes.extend(self.sender.to_be_bytes());
        bytes.extend(self.test.to_be_bytes());
        bytes.extend(self.number.to_be_bytes());
        bytes.resize(len.max(LEN), 0);
        bytes
    }

    /// Parses a payload, or its beginning. `None` if it is no probe.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let half = |at: usize| Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let is_ours = bytes.starts_with(&MAGIC) && word(4)? == VERSION;
        let run = u64::from_be_bytes(*bytes.get(8..)?.first_chunk()?);
        let probe = Self { run, sender: half(16)?, test: half(18)?, number: word(20)? };
        is_ours.then_some(probe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let probe = Probe { run: 1 << 60 | 7, sender: 3, test: 40, number: 70_000 };
        for len in [0, LEN, 1400] {
            let bytes = probe.to_bytes(len);
            assert_eq!((Probe::parse(&bytes), bytes.len()), (Some(probe), len.max(LEN)));
        }
        let bytes = probe.to_bytes(LEN);
        assert!((0..LEN).all(|len| Probe::parse(&bytes[..len]).is_none()));
        assert_eq!(Probe::parse(&[0; 100]), None);
    }
}
