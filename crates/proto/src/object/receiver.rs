//! The inputs and outputs of a receiver's machine.

use std::{fmt, ops::Range, time::Duration};

use treecast_wire::{
    header::FileId,
    message::{BeginOfFile, ChunkHashes, GroupId, Member, Message},
};

use super::Address;

/// The path on which a packet came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// The packet came to the group's socket, or to the receiver's own socket where the sender makes copies.
    Group,
    /// The packet came over the control connection.
    Control,
    /// The receiver's own address, or the address of its local group: from the member with this address, or the sender.
    Member(Member),
}

/// The application's answer to an announcement (API_BOF_Response, INL_EOF_Only_Response).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Response {
    Accept,
    Ignore,
}

/// Something that has happened at the receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiverInput {
    /// The control connection is open (INL_Unicast_Connection_Created). Its shortest round trip so far; zero where that is not known.
    Connected { round_trip: Duration },
    /// The control connection has closed (INL_Unicast_Connection_Closed).
    Disconnected { reason: String },
    /// A message has come.
    Message { from: Channel, file: FileId, message: Message },
    /// Blocks of one object have come, without a gap between them. A super-packet is one input.
    Blocks { from: Channel, file: FileId, range: Range<u64> },
    /// Repair symbols of one source block have come, without a gap between their sequence numbers.
    Symbols { from: Channel, file: FileId, positions: Range<u64> },
    /// A source block has been decoded and its missing blocks are stored, or it could not be decoded.
    Decoded { file: FileId, source_block: u32, is_right: bool },
    /// The group's packets are those of another group of the session from now on. Group 0 is the fastest.
    Moved { group: u8 },
    /// The connection has been read. `heard` says whether anything came, be it a part of a message. This is also the answer
    /// to [`ReceiverTransmit::Listen`].
    Listened { heard: bool },
    /// The answer to [`ReceiverTransmit::DrainGroup`]: what the group's socket held by then has been handed in.
    Drained,
    /// The number of packets that the kernel has dropped so far at the group's socket.
    Dropped { total: u64 },
    /// The number of milliseconds that packets have waited for the disk so far.
    DiskWaited { total_ms: u64 },
    /// The application has decided about an object.
    Respond { file: FileId, response: Response },
    /// These bytes of an announced object were stored before this receiver was started.
    Have { file: FileId, ranges: Vec<Range<u64>> },
    /// All bytes of the object are stored, and this is their BLAKE3 hash.
    Hashed { file: FileId, hash: [u8; 32] },
    /// The answer to [`ReceiverTransmit::CheckChunks`]: the byte ranges of the wrong chunks. `None` when the page does not
    /// lead to the object's hash.
    Checked { file: FileId, page: u32, wrong: Option<Vec<Range<u64>>> },
    /// The file has its final name (API_File_Received).
    Committed { file: FileId },
    /// The object cannot be stored as it was announced (no room, name refused). Everything kept of it is gone, and nothing
    /// more is kept before [`ReceiverTransmit::Discard`].
    AnnouncementRefused { file: FileId, begin: BeginOfFile, reason: String },
    /// There was no room for these bytes, and there is now: it is as if they had never come. Tasks given to the storage
    /// since then are not answered.
    Lost { file: FileId, ranges: Vec<Range<u64>> },
    /// Storing has failed for good (disk full, name taken).
    StoreFailed { file: FileId, reason: String },
    /// Blocks that a member of the local group has sent are not what the sender has signed. They are thrown away, and are not
    /// handed in as [`ReceiverInput::Blocks`]. With `None`, the caller itself hears nothing more of that member.
    Refused { from: Option<Member>, file: FileId, range: Range<u64> },
    /// Everything known of the object was said by somebody else than the sender: it is as if never heard of. This is for
    /// repairs without a connection, which could tell.
    Disown { file: FileId },
    /// The receiver leaves, for this reason (API_Close_Receiver).
    Close { reason: String },
}

/// Something that the machine asks its caller to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiverTransmit {
    /// Send a message on the control connection.
    Message { file: FileId, message: Message },
    /// The object's size and name are known: its file may be sized and will be called so. Answer with
    /// [`ReceiverInput::Have`] or [`ReceiverInput::AnnouncementRefused`]. Where the object has an index, [`ReceiverInput::Have`]
    /// may wait until it is known what an older version holds. Comes again, with other words, when the group was
    /// wrong.
    Announce { file: FileId, begin: BeginOfFile },
    /// Keep these bytes of the [`ReceiverInput::Blocks`] just handled, which are new. Before the object is
    /// announced, they should be kept in memory and not in a file, because anybody may have sent them.
    Store { file: FileId, range: Range<u64> },
    /// Keep these bytes of the [`ReceiverInput::Blocks`] just handled. Other bytes are stored there, some of them wrong: only
    /// those that differ need be written (librecast-updates-2022, A.3).
    Overwrite { file: FileId, range: Range<u64> },
    /// Keep these of the [`ReceiverInput::Symbols`] just handled. No more symbols of an object are kept than it has blocks.
    KeepSymbols { file: FileId, source_block: u32, positions: Range<u64> },
    /// Compute the missing blocks of a source block from what is stored and kept of it. `blocks` are its blocks by number,
    /// `missing` the bytes that it lacks. Store them, forget its symbols, and answer with [`ReceiverInput::Decoded`]. When
    /// what is there does not suffice, one more symbol is kept, and this comes again.
    Decode { file: FileId, source_block: u32, blocks: Range<u64>, missing: Vec<Range<u64>> },
    /// Forget all symbols that are kept of the object.
    ForgetSymbols { file: FileId },
    /// The connection is ahead of the group, or the group is quiet: hand in what the group's socket holds by now, and
    /// then [`ReceiverInput::Drained`]. A host that was busy with other things may have left a lot in there.
    DrainGroup,
    /// Read the connection now, and answer with [`ReceiverInput::Listened`], because nothing has come from
    /// the sender for long. A host that was busy with other things may have left the sender's words unread.
    Listen,
    /// All bytes are stored: compute the hash and answer with [`ReceiverInput::Hashed`]. After a wrong hash, the wrong bytes
    /// are stored anew over those that are there, and this comes again.
    Hash { file: FileId },
    /// Find out whether a page of chunk hashes leads to the object's `hash`, and which of its chunks are stored otherwise
    /// ([`super::chunks`]). Answer with [`ReceiverInput::Checked`].
    CheckChunks { file: FileId, hash: [u8; 32], page: ChunkHashes },
    /// The hash is right: give the file its final name, and answer with [`ReceiverInput::Committed`] or
    /// [`ReceiverInput::StoreFailed`].
    Commit { file: FileId },
    /// Throw away all that is stored of the object, its announcement and its failure included.
    Discard { file: FileId },
    /// Close the control connection.
    CloseConnection,
    /// Send one message by datagram.
    Tell { to: Address, file: FileId, message: Message },
    /// Read these stored bytes back, and send them by datagrams as `RetransmittedData`, a block each.
    Send { to: Address, file: FileId, range: Range<u64> },
    /// Listen to the address of this local group.
    JoinGroup { group: GroupId },
    /// Listen to the address of this local group no more.
    LeaveGroup { group: GroupId },
    /// No [`ReceiverTransmit::Send`] of this object will come any more: everybody whom this receiver serves is done with it.
    Release { file: FileId },
}

/// Something that the machine tells the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// API_BOF_Received: decide with [`ReceiverInput::Respond`] (per-file notification only).
    Announced { file: FileId, begin: BeginOfFile },
    /// INL_EOF_Only: an object went by of which nothing was heard but its end; decide with
    /// [`ReceiverInput::Respond`] (per-file notification only; batched accepts).
    EndOfFileOnly { file: FileId },
    /// API_File_Received: the object is complete, right and committed.
    Received { file: FileId, begin: BeginOfFile },
    /// The object could not be received, for this reason (API_File_Receive_Failed).
    Failed { file: FileId, reason: String, discarded_bytes: u64 },
    /// The sender wants this receiver in another group than the one it has moved to last.
    Called { group: u8 },
    /// The session is over for this receiver. With a reason, it ended before all objects had.
    Closed { reason: Option<CutShort> },
}

/// The reason why a session ends early for its receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CutShort {
    /// The sender has sent nothing for this long, which is as long as the caller waits.
    Silent(Duration),
    /// The sender has said that it stops.
    SenderStopped,
    /// The connection to the sender has ended, for this reason.
    Disconnected(String),
    /// The application has ended the session, for this reason.
    Stopped(String),
}

impl fmt::Display for CutShort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent(time) => write!(f, "nothing has come from the sender for {} s", time.as_secs_f64()),
            Self::SenderStopped => f.write_str("the sender has stopped"),
            Self::Disconnected(reason) | Self::Stopped(reason) => f.write_str(reason),
        }
    }
}

/// The event that the receiver waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiverWait {
    Connection,
    /// The machine waits for anything from the sender.
    Sender,
    /// The machine waits until it is time to report progress.
    Report,
    /// The machine waits for the storage to hash or commit an object.
    Storage,
    Closed,
}

/// Counts of packets that were of no use, and of what repair symbols and chunk hashes have mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceiverCounters {
    /// The number of blocks and symbols that the receiver already had.
    pub duplicate_blocks: u64,
    /// The number of packets of objects that have already ended at this receiver.
    pub late: u64,
    /// The number of packets of another session.
    pub foreign: u64,
    /// Blocks that do not start at a multiple of the block length or cross an object's end, and
    /// messages that do not come from a sender.
    pub malformed: u64,
    /// The number of packets that were dropped because they would need more memory than a session may take, or
    /// because they came before there was a connection to ask for the rest. Their contents are asked for later.
    pub refused: u64,
    /// The number of repair symbols kept.
    pub repair_symbols: u64,
    /// The number of blocks computed from repair symbols.
    pub decoded_blocks: u64,
    /// The number of chunks that were stored wrong and had to be fetched again.
    pub wrong_chunks: u64,
}
