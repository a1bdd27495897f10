//! From some symbols of a source block to all of its blocks.

use std::collections::BTreeSet;

use raptorq::{EncodingPacket, PayloadId, SourceBlockDecoder};

use super::code;
use treecast_proto::fec::MAX_SYMBOLS;

/// The blocks of a source block, one behind the other, from symbols with their numbers: blocks' own, or repair symbols'.
/// None when they do not suffice, which is so for hardly one in a hundred sets of as many as there are blocks, or when
/// one is of a wrong length or number.
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
