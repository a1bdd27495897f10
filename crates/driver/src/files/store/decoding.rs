//! Decoding source blocks in a thread of its own, behind everything else that this machine has to do. Packets wait for nobody,
//! while a source block that is whole a little later delays nothing: others are on their way meanwhile.

use std::{
    collections::VecDeque,
    mem,
    sync::mpsc::{self, Receiver, Sender, SyncSender},
    thread,
};

use treecast_wire::header::FileId;

use super::{Object, Report, Worker, read_back, write};
use crate::{fec, files::symbols::SourceBlock, turns};

/// The source blocks that are to be decoded, one at a time: each takes three times its length in memory.
#[derive(Debug)]
pub(super) struct Decoding {
    queue: VecDeque<(FileId, SourceBlock)>,
    /// The source block that the thread decodes, which may be of no use any more.
    under_way: Option<UnderWay>,
    results: Receiver<Option<Vec<u8>>>,
    result_queue: Sender<Option<Vec<u8>>>,
    /// Tells the store that there is a result.
    call: SyncSender<()>,
}

#[derive(Debug)]
struct UnderWay {
    file: FileId,
    source_block: SourceBlock,
    is_wanted: bool,
}

impl Decoding {
    pub fn new(call: SyncSender<()>) -> Self {
        let (result_queue, results) = mpsc::channel();
        Self { queue: VecDeque::new(), under_way: None, results, result_queue, call }
    }

    /// Nothing that was to be decoded of an object is of use any more.
    pub fn forget(&mut self, file: FileId) {
        self.queue.retain(|(other, _)| *other != file);
        if let Some(under_way) = self.under_way.as_mut().filter(|one| one.file == file) {
            under_way.is_wanted = false;
        }
    }

    fn start(&mut self, file: FileId, source_block: SourceBlock, received: Vec<(u32, Vec<u8>)>) {
        let symbols = (source_block.blocks.end - source_block.blocks.start) as u32;
        let symbol_len = source_block.symbol_len;
        let (results, call) = (self.result_queue.clone(), self.call.clone());
        let decode = move || {
            turns::let_others_go_first();
            // Nobody waits for it when the session is over.
            _ = results.send(fec::decode(symbols, symbol_len, received));
            _ = call.try_send(());
        };
        self.under_way = Some(UnderWay { file, source_block, is_wanted: true });
        if thread::Builder::new().name("decoder".into()).spawn(decode).is_err() {
            // As if the symbols had not sufficed: others will be asked for.
            _ = self.result_queue.send(None);
        }
    }
}

impl Worker {
    /// Has a source block decoded, as soon as those before it are.
    pub(super) fn decode(&mut self, file: FileId, source_block: SourceBlock) {
        self.decoding.queue.push_back((file, source_block));
        self.decode_next();
    }

    fn decode_next(&mut self) {
        while self.decoding.under_way.is_none()
            && let Some((file, source_block)) = self.decoding.queue.pop_front()
        {
            if !self.symbols.has(file) {
                continue;
            }
            let symbols = mem::take(&mut self.symbols);
            let mut received = None;
            self.attempt(file, &source_block.missing, |stored, _, folder| {
                let gathered = symbols.gather(file, stored, &source_block);
                received = Some(gathered.map_err(|source| read_back(folder, source))?);
                Ok(())
            });
            self.symbols = symbols;
            match received {
                Some(received) => self.decoding.start(file, source_block, received),
                None => self.symbols.forget(file),
            }
        }
    }

    /// Stores the source block that the thread has decoded. Returns false when there is none.
    pub(super) fn take_decoded(&mut self) -> bool {
        let Ok(decoded) = self.decoding.results.try_recv() else { return false };
        if let Some(UnderWay { file, source_block, is_wanted: true }) = self.decoding.under_way.take() {
            self.store_decoded(file, &source_block, decoded);
        }
        self.decode_next();
        true
    }

    fn store_decoded(&mut self, file: FileId, source_block: &SourceBlock, decoded: Option<Vec<u8>>) {
        let mut is_right = false;
        self.attempt(file, &source_block.missing, |stored, begin, folder| {
            let Some(decoded) = &decoded else { return Ok(()) };
            let start = source_block.blocks.start * u64::from(source_block.symbol_len);
            for gap in &source_block.missing {
                let bytes = &decoded[(gap.start - start) as usize..(gap.end - start) as usize];
                write(stored, folder, begin.file_name(), gap.start, bytes)?;
            }
            is_right = true;
            Ok(())
        });
        if !matches!(self.objects.get(&file), Some(Some(Object::Announced { .. }))) || self.full.has(file) {
            return self.symbols.forget(file);
        }
        if is_right {
            self.symbols.forget_source_block(file, source_block.number);
        }
        self.note_stored(file, false);
        self.report(Report::Decoded { file, source_block: source_block.number, is_right });
    }
}
