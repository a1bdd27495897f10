//! Encodes a source block: computes repair symbols from its blocks.

use std::{collections::VecDeque, ops::Range, thread::JoinHandle};

use raptorq::SourceBlockEncoder;
use treecast_proto::fec::Layout;
use treecast_wire::header::FileId;

use super::{code, is_repair};

/// The most bytes that all encoders may hold: about twice their source blocks, where these are not tiny.
const MAX_BYTES: usize = 64 << 20;

/// A source block that is ready to produce repair symbols.
#[derive(Debug)]
pub struct Encoder {
    encoder: SourceBlockEncoder,
    symbols: u32,
    symbol_len: u16,
}

impl Encoder {
    /// Prepares blocks that are stored one after the other. `None` if there are none or too many, or if one is
    /// not `symbol_len` bytes long.
    pub fn new(blocks: &[u8], symbol_len: u16) -> Option<Self> {
        let len = usize::from(symbol_len.max(1));
        let symbols = u32::try_from(blocks.len() / len).ok().filter(|_| blocks.len().is_multiple_of(len))?;
        let code = code(symbols, symbol_len)?;
        Some(Self { encoder: SourceBlockEncoder::new(0, &code, blocks), symbols, symbol_len })
    }

    /// Computes the repair symbols with these numbers, stored one after the other. `None` if there are no such
    /// numbers.
    pub fn repair(&self, numbers: Range<u32>) -> Option<Vec<u8>> {
        let (first, last) = (numbers.start, numbers.end.checked_sub(1)?);
        if first > last || !is_repair(self.symbols, first) || !is_repair(self.symbols, last) {
            return None;
        }
        let mut run = Vec::with_capacity(numbers.len() * usize::from(self.symbol_len));
        for packet in self.encoder.repair_packets(first - self.symbols, numbers.len() as u32) {
            run.extend_from_slice(packet.data());
        }
        Some(run)
    }

    /// The symbols, and the intermediate ones, of which there are 27 even for one symbol (RFC 6330, 5.3.3.3 and 5.6).
    fn bytes(&self) -> usize {
        (2 * self.symbols as usize + 27) * usize::from(self.symbol_len)
    }
}

/// Reads the blocks of a source block of an object with `size` bytes, by calling `read` with positions. The
/// last block of the object is filled up with zeros.
///
/// # Errors
/// The error of `read`.
pub fn read_source_block<E>(
    layout: &Layout,
    source_block: u32,
    size: u64,
    read: impl FnOnce(u64, &mut [u8]) -> Result<(), E>,
) -> Result<Vec<u8>, E> {
    let blocks = layout.blocks(source_block);
    let start = blocks.start * layout.block_len();
    let mut bytes = vec![0; ((blocks.end - blocks.start) * layout.block_len()) as usize];
    let there = size.saturating_sub(start).min(bytes.len() as u64) as usize;
    read(start, &mut bytes[..there])?;
    Ok(bytes)
}

/// The encoders of the source blocks that were used last, and of one that will be used next.
#[derive(Debug, Default)]
pub struct Encoders {
    /// The one used last is at the end.
    recent: VecDeque<(FileId, u32, Encoder)>,
    /// The encoder that a thread is making. That takes as long as sending 64 KiB at 80 Mbit/s, and the sender would stand
    /// still meanwhile.
    coming: Option<Coming>,
}

/// An encoder that a thread is making, and the source block that it encodes.
#[derive(Debug)]
struct Coming {
    file: FileId,
    source_block: u32,
    encoder: JoinHandle<Option<Encoder>>,
}

impl Encoders {
    /// The encoder of a source block. If it is not here, it is made from the bytes that `read` gives.
    ///
    /// # Errors
    /// The error of `read`.
    pub fn get<E>(
        &mut self,
        file: FileId,
        source_block: u32,
        symbol_len: u16,
        read: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Option<&Encoder>, E> {
        if self.is_coming(file, source_block) {
            self.welcome();
        }
        let is_it = |(other, block, _): &(FileId, u32, Encoder)| (*other, *block) == (file, source_block);
        match self.recent.iter().position(is_it).and_then(|at| self.recent.remove(at)) {
            Some(known) => self.recent.push_back(known),
            None => {
                let Some(encoder) = Encoder::new(&read()?, symbol_len) else { return Ok(None) };
                self.keep(file, source_block, encoder);
            }
        }
        Ok(self.recent.back().map(|(_, _, encoder)| encoder))
    }

    /// Starts a thread that makes the encoder of a source block in advance. There is one such thread at a time;
    /// while it works, nothing else is prepared.
    ///
    /// # Errors
    /// If `read` fails.
    pub fn prepare<E>(
        &mut self,
        file: FileId,
        source_block: u32,
        symbol_len: u16,
        read: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<(), E> {
        if self.coming.as_ref().is_some_and(|coming| coming.encoder.is_finished()) {
            self.welcome();
        }
        let is_here = self.recent.iter().any(|(other, block, _)| (*other, *block) == (file, source_block));
        if is_here || self.coming.is_some() {
            return Ok(());
        }
        let blocks = read()?;
        // Without a thread it is made when it is asked for.
        let encoder = treecast_host::thread::spawn("encoder", move || Encoder::new(&blocks, symbol_len)).ok();
        self.coming = encoder.map(|encoder| Coming { file, source_block, encoder });
        Ok(())
    }

    /// Whether any source block of an object has an encoder.
    pub fn has_any_of(&self, file: FileId) -> bool {
        self.recent.iter().any(|(other, _, _)| *other == file)
    }

    fn is_coming(&self, file: FileId, source_block: u32) -> bool {
        let coming = self.coming.as_ref();
        coming.is_some_and(|coming| (coming.file, coming.source_block) == (file, source_block))
    }

    /// Takes the encoder that a thread is making. Waits until it is ready.
    fn welcome(&mut self) {
        if let Some(Coming { file, source_block, encoder }) = self.coming.take()
            && let Ok(Some(encoder)) = encoder.join()
        {
            self.keep(file, source_block, encoder);
        }
    }

    fn keep(&mut self, file: FileId, source_block: u32, encoder: Encoder) {
        self.make_room(encoder.bytes());
        self.recent.push_back((file, source_block, encoder));
    }

    /// Drops all encoders of an object.
    pub fn forget(&mut self, file: FileId) {
        if self.coming.as_ref().is_some_and(|coming| coming.file == file) {
            self.welcome();
        }
        self.recent.retain(|(other, _, _)| *other != file);
    }

    fn make_room(&mut self, bytes: usize) {
        let mut held: usize = self.recent.iter().map(|(_, _, encoder)| encoder.bytes()).sum();
        while held + bytes > MAX_BYTES
            && let Some((_, _, oldest)) = self.recent.pop_front()
        {
            held -= oldest.bytes();
        }
    }
}

/// The thread ends with the session.
impl Drop for Encoders {
    fn drop(&mut self) {
        self.welcome();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoders_are_kept_within_bounds_and_read_once() {
        let (mut encoders, mut reads) = (Encoders::default(), 0);
        let mut get = |encoders: &mut Encoders, source_block| {
            let read = || {
                reads += 1;
                Ok::<_, ()>(vec![0; 2000 * 1400])
            };
            encoders.get(FileId(1), source_block, 1400, read).expect("it reads").is_some()
        };
        for source_block in [0, 1, 0, 1, 2, 0] {
            assert!(get(&mut encoders, source_block));
        }
        for source_block in 3..20 {
            assert!(get(&mut encoders, source_block));
        }
        let held: usize = encoders.recent.iter().map(|(_, _, encoder)| encoder.bytes()).sum();
        assert!(held <= MAX_BYTES && encoders.recent.len() == 11, "{held}");
        encoders.forget(FileId(1));
        assert!(encoders.recent.is_empty());
        assert_eq!(reads, 20);
    }

    #[test]
    fn an_encoder_that_is_prepared_is_not_made_again() {
        let (mut encoders, file) = (Encoders::default(), FileId(1));
        let read = || Ok::<_, ()>((0..200 * 1400).map(|at: usize| ((at * 7919) >> 3) as u8).collect());
        let again = || -> Result<Vec<u8>, ()> { panic!("it is read once") };
        // A thread that works until it is let go.
        let (go, waits) = std::sync::mpsc::channel::<()>();
        let encoder = std::thread::spawn(move || {
            _ = waits.recv();
            None
        });
        encoders.coming = Some(Coming { file, source_block: 2, encoder });
        encoders.prepare(file, 4, 1400, again).expect("one at a time is made");
        drop(go);
        encoders.forget(file);
        encoders.prepare(file, 3, 1400, read).unwrap();
        let prepared = encoders.get(file, 3, 1400, again).unwrap().expect("it is made").repair(200..260);
        encoders.prepare(file, 3, 1400, again).expect("it is here");
        assert_eq!(prepared, Encoder::new(&read().unwrap(), 1400).unwrap().repair(200..260));
        encoders.prepare(file, 4, 1400, read).unwrap();
        encoders.forget(file);
        assert!(encoders.recent.is_empty() && encoders.coming.is_none());
    }

    #[test]
    fn tiny_files_are_not_taken_for_nothing() {
        let mut encoders = Encoders::default();
        for file in 0..5000 {
            let encoder = encoders.get(FileId(file), 0, 1400, || Ok::<_, ()>(vec![0; 1400]));
            assert!(encoder.is_ok_and(|encoder| encoder.is_some()));
        }
        // Each has 27 intermediate symbols, 38 kB.
        assert!((1000..1800).contains(&encoders.recent.len()), "{}", encoders.recent.len());
    }
}
