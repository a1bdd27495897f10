//! Decodes a source block: computes all of its blocks from some of its symbols.

use std::collections::BTreeSet;

use raptorq::{EncodingPacket, PayloadId, SourceBlockDecoder};

use super::code;
use treecast_proto::fec::MAX_SYMBOLS;

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
