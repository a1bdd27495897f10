//! RaptorQ (RFC 6330), by the crate `raptorq`. That crate panics on wrong lengths and numbers, so all of them
//! are checked here.

mod encoder;

use std::collections::BTreeSet;

pub use encoder::{Encoder, Encoders, read_source_block};

use raptorq::{EncodingPacket, ObjectTransmissionInformation, PayloadId, SourceBlockDecoder};
use treecast_proto::fec::{MAX_SOURCE_SYMBOLS, MAX_SYMBOLS};

/// The code of one source block: `symbols` symbols of `symbol_len` bytes. None when it cannot be one.
fn code(symbols: u32, symbol_len: u16) -> Option<ObjectTransmissionInformation> {
    let is_right = (1..=MAX_SOURCE_SYMBOLS).contains(&symbols) && symbol_len > 0;
    let len = u64::from(symbols) * u64::from(symbol_len);
    // One source block, not cut into sub-blocks, whose symbols may be of any length.
    is_right.then(|| ObjectTransmissionInformation::new(len, symbol_len, 1, 1, 1))
}

/// Whether a number is a repair symbol's in a source block of so many symbols.
fn is_repair(symbols: u32, number: u32) -> bool {
    (symbols..MAX_SYMBOLS).contains(&number)
}

/// Computes the blocks of a source block, stored one after the other, from numbered symbols, which may be
/// blocks or repair symbols. `None` if they are not enough, which is rare if there are as many symbols as
/// blocks (about one set in a hundred). Also `None` if one has a wrong length or number.
pub fn decode(symbols: u32, symbol_len: u16, received: Vec<(u32, Vec<u8>)>) -> Option<Vec<u8>> {
    let code = code(symbols, symbol_len)?;
    let is_right =
        |(number, bytes): &(u32, Vec<u8>)| *number < MAX_SYMBOLS && bytes.len() == usize::from(symbol_len);
    let numbers: BTreeSet<u32> = received.iter().map(|(number, _)| *number).collect();
    if numbers.len() < symbols as usize || !received.iter().all(is_right) {
        return None;
    }
    let mut decoder = SourceBlockDecoder::new(0, &code, code.transfer_length());
    let packet = |(number, bytes)| EncodingPacket::new(PayloadId::new(0, number), bytes);
    decoder.decode(received.into_iter().map(packet))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(len: usize) -> Vec<u8> {
        (0..len).map(|at| ((at * 7919) >> 3) as u8).collect()
    }

    /// Symbols that are `kept` of a source block, and then repair symbols from `first` on until there are enough, and
    /// `surplus` more.
    fn mended(symbols: u32, kept: impl Fn(u32) -> bool, first: u32, surplus: u32) -> Option<bool> {
        const LEN: u16 = 53;
        let data = data(symbols as usize * usize::from(LEN));
        let encoder = Encoder::new(&data, LEN).expect("right lengths");
        let there: Vec<u32> = (0..symbols).filter(|number| kept(*number)).collect();
        let count = symbols - there.len() as u32 + surplus;
        let run = encoder.repair(first..first + count).expect("right numbers");
        let source = there.iter().map(|number| {
            let at = *number as usize * usize::from(LEN);
            (*number, data[at..at + usize::from(LEN)].to_vec())
        });
        let repair = (first..).zip(run.chunks(usize::from(LEN)).map(<[u8]>::to_vec));
        decode(symbols, LEN, source.chain(repair).collect()).map(|decoded| decoded == data)
    }

    #[test]
    fn any_symbols_do_as_many_as_there_are_blocks_and_seldom_one_more() {
        for symbols in [1, 2, 9, 10, 11, 100, 256, MAX_SOURCE_SYMBOLS] {
            let some = |number: u32| number % 3 != 1;
            assert_eq!(mended(symbols, some, symbols, 2), Some(true), "{symbols} symbols, some lost");
            assert_eq!(mended(symbols, |_| false, symbols, 2), Some(true), "{symbols} symbols, all lost");
        }
        let failed = (0..200).filter(|at| mended(20, |number| number % 2 == 0, 20 + 37 * at, 0).is_none());
        assert!(failed.count() < 8, "RFC 6330 promises less than 1 in 100");
        assert_eq!(
            mended(300, |number| number > 5, MAX_SYMBOLS - 8, 2),
            Some(true),
            "the last numbers there are"
        );
    }

    #[test]
    fn what_is_no_source_block_is_refused() {
        assert!(Encoder::new(&[], 10).is_none());
        assert!(Encoder::new(&[0; 25], 10).is_none());
        assert!(Encoder::new(&[0; 20], 0).is_none());
        assert!(Encoder::new(&vec![0; MAX_SOURCE_SYMBOLS as usize + 1], 1).is_none());
        let encoder = Encoder::new(&[0; 20], 10).expect("two symbols");
        assert!(encoder.repair(1..3).is_none() && encoder.repair(5..5).is_none());
        assert!(encoder.repair(MAX_SYMBOLS - 1..MAX_SYMBOLS + 1).is_none());
        let symbol = |number, len| (number, vec![0; len]);
        assert_eq!(decode(2, 10, vec![symbol(0, 10)]), None, "too few");
        assert_eq!(decode(2, 10, vec![symbol(0, 10), symbol(2, 9)]), None);
        assert_eq!(decode(2, 10, vec![symbol(0, 10), symbol(MAX_SYMBOLS, 10)]), None);
        assert_eq!(decode(2, 10, vec![symbol(0, 10), symbol(0, 10)]), None, "one twice");
        assert_eq!(decode(0, 10, vec![]), None);
        assert_eq!(decode(u32::MAX, u16::MAX, vec![]), None);
    }
}
