//! Gathers messages and blocks of small objects for the group in datagrams of equal length, so that a
//! super-packet carries several objects.

use treecast_wire::header::{HEADER_LEN, Header, set_number};

/// Packets that have not left.
#[derive(Debug)]
pub(super) struct Gather {
    /// The length of a datagram, in bytes: a header and a whole block.
    datagram_len: usize,
    /// Datagrams one behind the other, all but the last of them filled up with zeros.
    bytes: Vec<u8>,
}

impl Gather {
    pub fn new(block_len: u16) -> Self {
        Self { datagram_len: HEADER_LEN + usize::from(block_len), bytes: Vec::new() }
    }

    /// The length of a datagram in bytes.
    pub fn datagram_len(&self) -> usize {
        self.datagram_len
    }

    /// The number of datagrams.
    pub fn datagrams(&self) -> usize {
        self.bytes.len().div_ceil(self.datagram_len)
    }

    /// Adds a message's packet. Returns false if it is longer than a datagram.
    pub fn push(&mut self, packet: &[u8]) -> bool {
        let fits = packet.len() <= self.datagram_len;
        if fits {
            self.make_room(packet.len());
            self.bytes.extend_from_slice(packet);
        }
        fits
    }

    /// Adds a run of blocks, a packet each. `first` is as for [`crate::udp::Transmitter::send_blocks`].
    pub fn push_blocks(&mut self, first: Header, run: &[u8]) {
        let mut header = first;
        for block in run.chunks(self.datagram_len - HEADER_LEN) {
            header.payload_len = block.len() as u32;
            self.make_room(HEADER_LEN + block.len());
            self.bytes.extend_from_slice(&header.to_bytes());
            self.bytes.extend_from_slice(block);
            header.sequence += block.len() as u64;
        }
    }

    /// Takes this many datagrams. They get packet numbers from `first` on.
    pub fn take(&mut self, datagrams: usize, first: u32) -> Vec<u8> {
        let rest = self.bytes.split_off((datagrams * self.datagram_len).min(self.bytes.len()));
        let mut taken = std::mem::replace(&mut self.bytes, rest);
        for (datagram, number) in taken.chunks_mut(self.datagram_len).zip(0_u32..) {
            set_number(datagram, first.wrapping_add(number));
        }
        taken
    }

    /// Begins another datagram where the last one has no room for so many bytes.
    fn make_room(&mut self, len: usize) {
        let used = self.bytes.len() % self.datagram_len;
        if used > 0 && used + len > self.datagram_len {
            self.bytes.resize(self.bytes.len() + self.datagram_len - used, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use treecast_wire::{
        datagram::next_packet,
        header::{FileId, PacketType},
        message::Message,
    };

    use super::*;

    /// Each datagram's number, and what it holds: "d100+20" 20 bytes of an object from 100 on, "e" its end.
    fn shown(bytes: &[u8]) -> Vec<String> {
        let mut all = Vec::new();
        for datagram in bytes.chunks(132) {
            let mut words = vec![Header::parse(datagram).unwrap().number.to_string()];
            let mut rest = datagram;
            while let Some((header, end)) = next_packet(rest).unwrap() {
                words.push(match header.kind {
                    PacketType::Data => format!("d{}+{}", header.sequence, header.payload_len),
                    _ => "e".into(),
                });
                rest = &rest[end..];
            }
            all.push(words.join(" "));
        }
        all
    }

    #[test]
    fn the_end_of_one_object_and_the_next_one_share_a_datagram() {
        let mut gather = Gather::new(100);
        let first =
            Header { file_id: FileId(1), sequence: 0, payload_len: 0, kind: PacketType::Data, number: 0 };
        let end = Message::EndOfFile.to_packet(FileId(1));
        for _ in 0..2 {
            gather.push_blocks(first, &[7; 220]);
            assert!(gather.push(&end));
        }
        assert!(!gather.push(&[1; 133]));
        assert_eq!(gather.datagrams(), 6);
        let taken = gather.take(2, 8);
        assert_eq!((shown(&taken), taken.len()), (vec!["8 d0+100".into(), "9 d100+100".into()], 264));
        let rest = gather.take(9, 10);
        let expected = ["10 d200+20 e", "11 d0+100", "12 d100+100", "13 d200+20 e"];
        assert_eq!((shown(&rest), rest.len()), (expected.map(String::from).to_vec(), 3 * 132 + 84));
        assert_eq!(gather.datagrams(), 0);
    }
}
