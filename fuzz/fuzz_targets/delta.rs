//! The index of an object that is sent by difference: what parses is emitted again byte for byte, and adds up. And the messages by
//! which a receiver of such an object says what it lacks, at a carousel's sender.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use treecast_proto::{
    Instant, Step, carousel,
    object::{Lane, SenderInput, SenderTransmit},
};
use treecast_wire::{
    chunk_index::ChunkIndex,
    header::{FileId, SessionId},
    message::{BeginOfFile, Member, Message, RetransmissionRequest, TransferType},
};

const SIZE: u64 = 300_000;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(index) = ChunkIndex::parse(bytes) {
        assert_eq!(index.to_bytes(), bytes);
        assert_eq!(index.chunks().map(|chunk| u64::from(chunk.len)).sum::<u64>(), index.size);
    }
    report(bytes);
});

/// Has a carousel's sender told of any ranges, and looks whether what it sends lies in the object, and whether it ends.
fn report(bytes: &[u8]) {
    let config = carousel::SenderConfig {
        session: SessionId(9),
        max_run_lens: vec![50_000],
        block_len: 1_000,
        fec: false,
        announce: true,
        start: 0,
        first_row: 0,
        has_reports: true,
        idle: Duration::from_secs(5),
        loops: None,
    };
    let begin = BeginOfFile::new(TransferType::DiskToDisk, SIZE, "a").expect("a good name").with_index();
    let mut sender = carousel::Sender::new(config, &[begin]).expect("one object");
    let mut now = Instant::ZERO;
    sender.handle(now, SenderInput::Listeners { group: 0, present: true });
    let (from, file) = (Member(([10, 0, 0, 1], 7).into()), FileId::new(SessionId(9), 0));
    for piece in bytes.chunks_exact(8) {
        let number =
            |at: usize| u64::from(u16::from_be_bytes([piece[at], piece[at + 1]])) << (piece[at + 2] % 50);
        if let Ok(lacking) = RetransmissionRequest::new(number(0)..number(3)) {
            sender.handle(now, SenderInput::Local { from, file, message: Message::Lacking(lacking) });
        }
        now += Duration::from_millis(u64::from(piece[7]) * 16);
        for _ in 0..1_000 {
            match sender.poll(now, Lane::Group) {
                Step::Transmit(SenderTransmit::Blocks { range, .. }) => {
                    assert!(range.start < range.end && range.end <= SIZE, "{range:?}");
                }
                Step::Wait(..) => break,
                _ => {}
            }
        }
    }
}
