//! Decodes source blocks in a separate thread, with a lower priority than everything else on this machine.
//! Packets must not wait. A source block that is complete slightly later delays nothing, because others come
//! meanwhile.

use std::{
    any::Any,
    collections::VecDeque,
    mem,
    panic::{self, AssertUnwindSafe},
    sync::mpsc::{self, Receiver, Sender, SyncSender},
    thread::JoinHandle,
};

use treecast_proto::object::ReceiverInput;
use treecast_wire::header::FileId;

use super::{super::Report, Object, Parts, read_back, write};
use crate::{fec, files::symbols::SourceBlock, remedies::Remedy};

/// A function with the arguments and result of [`fec::decode`].
pub(in super::super) type Decode = fn(u32, u16, Vec<(u32, Vec<u8>)>) -> Option<Vec<u8>>;

/// The result of the thread: a source block, none when the symbols did not suffice, or what the decoder said when it
/// panicked.
type Outcome = Result<Option<Vec<u8>>, String>;

/// The source blocks that are to be decoded, one at a time: each takes three times its length in memory.
#[derive(Debug)]
pub(in super::super) struct Decoding {
    /// The source blocks that wait for the thread, without their bytes. Each is here once at most.
    queue: VecDeque<(FileId, SourceBlock)>,
    /// The source block that the thread decodes, which may be of no use any more.
    under_way: Option<UnderWay>,
    results: Receiver<Outcome>,
    result_queue: Sender<Outcome>,
    /// Tells the store that there is a result.
    call: SyncSender<()>,
    /// The decoder. Tests replace it.
    pub decode: Decode,
}

#[derive(Debug)]
struct UnderWay {
    file: FileId,
    source_block: SourceBlock,
    is_wanted: bool,
    thread: Option<JoinHandle<()>>,
}

impl Decoding {
    pub fn new(call: SyncSender<()>) -> Self {
        let (result_queue, results) = mpsc::channel();
        Self { queue: VecDeque::new(), under_way: None, results, result_queue, call, decode: fec::decode }
    }

    /// Drops all waiting source blocks of an object. A result that comes later is thrown away.
    pub fn forget(&mut self, file: FileId) {
        self.queue.retain(|(other, _)| *other != file);
        if let Some(under_way) = self.under_way.as_mut().filter(|one| one.file == file) {
            under_way.is_wanted = false;
        }
    }

    fn start(&mut self, file: FileId, source_block: SourceBlock, received: Vec<(u32, Vec<u8>)>) {
        let symbols = (source_block.blocks.end - source_block.blocks.start) as u32;
        let symbol_len = source_block.symbol_len;
        let (results, call, decode) = (self.result_queue.clone(), self.call.clone(), self.decode);
        let work = move || {
            treecast_host::turns::let_others_go_first();
            let decoded = panic::catch_unwind(AssertUnwindSafe(|| decode(symbols, symbol_len, received)));
            // Nobody takes it when the session is over.
            _ = results.send(decoded.map_err(|panic| said(&*panic)));
            _ = call.try_send(());
        };
        let thread = treecast_host::thread::spawn("decoder", work).ok();
        if thread.is_none() {
            // As if the symbols had not sufficed: others will be asked for.
            _ = self.result_queue.send(Ok(None));
            _ = self.call.try_send(());
        }
        self.under_way = Some(UnderWay { file, source_block, is_wanted: true, thread });
    }
}

/// The thread ends with the session, which waits for one source block at most.
impl Drop for Decoding {
    fn drop(&mut self) {
        if let Some(thread) = self.under_way.take().and_then(|under_way| under_way.thread) {
            _ = thread.join();
        }
    }
}

/// The message of a panic.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}

impl Parts {
    /// Lets the thread decode a source block, as soon as those before it are decoded.
    pub fn decode(&mut self, file: FileId, source_block: SourceBlock) {
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
            self.attempt(file, &source_block.missing, |stored, begin, folder| {
                let gathered = symbols.gather(file, (stored, begin.file_size), &source_block);
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
    pub fn take_decoded(&mut self) -> bool {
        let Ok(outcome) = self.decoding.results.try_recv() else { return false };
        if let Some(UnderWay { file, source_block, is_wanted: true, .. }) = self.decoding.under_way.take() {
            match outcome {
                Ok(decoded) => self.store_decoded(file, &source_block, decoded),
                Err(said) => self.give_up_decoding(file, &said),
            }
        }
        self.decode_next();
        true
    }

    fn store_decoded(&mut self, file: FileId, source_block: &SourceBlock, decoded: Option<Vec<u8>>) {
        let mut is_right = false;
        self.attempt(file, &source_block.missing, |stored, begin, folder| {
            let Some(decoded) = &decoded else { return Ok(()) };
            let start = source_block.blocks.start * u64::from(source_block.symbol_len);
            // What has come meanwhile stays: it may be in the hash already.
            let missing = source_block.missing.iter().flat_map(|gap| stored.missing(gap.clone()));
            for gap in missing.collect::<Vec<_>>() {
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
        self.reports.add(Report::Input(ReceiverInput::Decoded {
            file,
            source_block: source_block.number,
            is_right,
        }));
    }

    /// The same symbols would have the decoder panic again.
    fn give_up_decoding(&mut self, file: FileId, said: &str) {
        if matches!(self.objects.get(&file), Some(Some(Object::Announced { .. }))) {
            let reason = format!(
                "the decoder of repair symbols failed: {said}; receive it again, and have it sent without repair symbols"
            );
            self.reports.add(Report::Helps { file, remedy: Remedy::NoSymbols });
            self.give_up(file, reason);
        }
    }
}
