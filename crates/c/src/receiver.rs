//! The receiver's side.

use std::{
    ffi::{OsStr, c_char, c_int, c_void},
    os::unix::ffi::OsStrExt,
    ptr,
    sync::{Mutex, PoisonError},
    task::Poll,
    time::Duration,
};

use treecast::{Answer, ObjectKind, Receiver, ReceiverEvent, Ticket};

use crate::{
    error::{keep, or},
    text::{Texts, c_string, path, text, timeout},
};

/// A receiver that has joined a group. It may be used from several threads; one of them reads events.
pub struct treecast_receiver {
    receiver: Receiver,
    is_in_memory: bool,
    event: Mutex<Kept>,
}

/// What C has pointers to.
#[derive(Default)]
struct Kept {
    texts: Texts,
    /// The bytes of each file in memory.
    data: Vec<Vec<u8>>,
    /// The events of a batch.
    events: Vec<treecast_receiver_event>,
}

/// An object that the sender announces. Its pointers are valid until `accept` returns.
#[repr(C)]
pub struct treecast_offer {
    pub name: *const c_char,
    /// Size of the object, in bytes.
    pub bytes: u64,
    /// `accept` may set this to take the object under another name: a relative path with / between folders, which is copied when
    /// `accept` returns. NULL: the object keeps its name.
    pub new_name: *const c_char,
}

/// The function that decides whether an object is wanted. It is called in the session's thread, and must return soon. `context` is
/// that of the options.
pub type treecast_accept =
    Option<unsafe extern "C" fn(offer: *mut treecast_offer, context: *mut c_void) -> bool>;

/// The function that gets the events of a receiver. It is called in the session's thread, also before treecast_receiver_join returns.
/// So it must return soon, and must not call treecast_receiver_wait and treecast_receiver_free. The event and its pointers are valid
/// until it returns. `context` is that of the options.
pub type treecast_on_event =
    Option<unsafe extern "C" fn(event: *const treecast_receiver_event, context: *mut c_void)>;

/// The options of a receiver. Zero and NULL are the defaults, but `ticket` is needed:
/// `struct treecast_receiver_options options = {.ticket = ticket};`.
#[repr(C)]
pub struct treecast_receiver_options {
    /// The ticket of the group: the text, or @ and the path of a file with it.
    pub ticket: *const c_char,
    /// The folder for what comes; it is made if it is missing. NULL: objects come in memory, with the event.
    pub folder: *const c_char,
    /// The name of the network interface. NULL: the one of the route to the sender.
    pub interface: *const c_char,
    /// The receiver's name at the sender. NULL: the host's name and the process's number.
    pub name: *const c_char,
    /// The receiver's key: its name (`treecast keys`) or its file. NULL: one that is made for the session.
    pub key: *const c_char,
    /// Decides which objects are wanted. NULL: all.
    pub accept: treecast_accept,
    /// Gets each event, in place of treecast_receiver_next_event and treecast_receiver_next_batch. NULL: these two have them.
    pub on_event: treecast_on_event,
    /// What `accept` and `on_event` get. It is used until the receiver is freed.
    pub context: *mut c_void,
    /// The time in milliseconds for which the receiver tries to reach the sender. 0: half a minute.
    pub connect_timeout_ms: u64,
    /// The time in milliseconds for which the receiver tries to reach the sender again when the connection breaks. 0: two minutes;
    /// a negative number: it does not try.
    pub reconnect_ms: i64,
    /// Where older versions of objects are that the sender sends by difference: a file, a block device, or a folder with files of the
    /// objects' names. NULL: `folder`.
    pub old: *const c_char,
}

/// The kinds of events of a receiver.
#[repr(C)]
pub enum treecast_receiver_event_kind {
    /// The sender at the address `text` has admitted this receiver.
    Joined,
    /// The sender has not been reached for a while. `text` says why.
    Unreachable,
    /// Object `name` with `bytes` begins.
    Announced,
    /// Object `name` is complete and verified. It is at `path`, or in memory at `data`.
    Received,
    /// Object `name` was not wanted.
    Ignored,
    /// Object `name` cannot be received. `text` says why.
    Failed,
    /// `text` says what is not as good as it could be.
    Warning,
    /// `bytes` is the number of events that were lost, because too many were not read.
    Missed,
}

/// An event of a receiver. Its pointers are valid until the next event or batch of the receiver is read.
#[repr(C)]
pub struct treecast_receiver_event {
    pub kind: treecast_receiver_event_kind,
    /// Size of the object, in bytes.
    pub bytes: u64,
    pub name: *const c_char,
    pub path: *const c_char,
    /// The bytes of a file in memory. NULL if objects go to a folder.
    pub data: *const u8,
    pub text: *const c_char,
}

/// What has come to a receiver.
#[repr(C)]
pub struct treecast_receiver_report {
    /// The number of objects that are as the sender has them, and the bytes of files.
    pub objects: u64,
    pub bytes: u64,
    /// The number of objects that failed, and of those that were not wanted.
    pub failed: u64,
    pub not_wanted: u64,
    /// Whether treecast_receiver_leave ended the session.
    pub has_left: bool,
}

/// How far a receiver is.
#[repr(C)]
pub struct treecast_receiver_progress {
    /// The bytes of objects that are there. Bytes that came twice count once.
    pub bytes: u64,
    /// Total size of all objects announced so far, in bytes.
    pub announced_bytes: u64,
    /// The bytes that came again, over the control connection.
    pub retransmitted_bytes: u64,
    /// The number of objects that are complete and verified.
    pub objects: u64,
}

/// Joins a group, and begins to receive. NULL if an option cannot be used. A sender that cannot be reached is told by
/// treecast_receiver_wait.
///
/// # Safety
/// `options` points to options whose strings end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_receiver_join(
    options: *const treecast_receiver_options,
) -> *mut treecast_receiver {
    // SAFETY: the caller promises it.
    let receiver = unsafe { join(&*options) };
    or(receiver.map(|receiver| Box::into_raw(Box::new(receiver))), ptr::null_mut())
}

/// What C's function is called with. It may be called in another thread.
struct Context(*mut c_void);

// SAFETY: `accept` and `on_event` are called in the session's thread, as their documentation says.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// # Safety
/// The strings of `options` end with a zero.
unsafe fn join(options: &treecast_receiver_options) -> Result<treecast_receiver, treecast::Error> {
    // SAFETY: the caller promises that these are strings.
    let ([interface, name, key], [ticket, folder, old]) = unsafe {
        (
            [options.interface, options.name, options.key].map(|one| text(one)),
            [options.ticket, options.folder, options.old].map(|one| path(one)),
        )
    };
    let ticket = ticket.unwrap_or_default();
    let ticket: Ticket = match ticket.as_os_str().as_bytes().strip_prefix(b"@") {
        Some(file) => Ticket::read(OsStr::from_bytes(file))?,
        None => ticket.to_string_lossy().parse()?,
    };
    let mut builder = Receiver::builder(ticket);
    let is_in_memory = folder.is_none();
    builder = match folder {
        Some(folder) => builder.folder(folder),
        None => builder.in_memory(),
    };
    if let Some(interface) = interface {
        builder = builder.interface(interface);
    }
    if let Some(name) = name {
        builder = builder.name(name);
    }
    if let Some(key) = key {
        builder = builder.key(key);
    }
    if options.connect_timeout_ms > 0 {
        builder = builder.connect_timeout(Duration::from_millis(options.connect_timeout_ms));
    }
    if options.reconnect_ms != 0 {
        builder = builder.reconnect(timeout(options.reconnect_ms).unwrap_or_default());
    }
    if let Some(old) = old {
        builder = builder.old(old);
    }
    if let Some(accept) = options.accept {
        let context = Context(options.context);
        builder = builder.accept(move |offer| {
            let (name, Context(context)) = (c_string(offer.name()), &context);
            let mut offer = treecast_offer { name: name.as_ptr(), bytes: offer.len(), new_name: ptr::null() };
            // SAFETY: the caller promises that the function may be called with this context until the receiver is freed.
            let is_wanted = unsafe { accept(&raw mut offer, *context) };
            // SAFETY: the function leaves NULL there, or a string.
            match unsafe { text(offer.new_name) } {
                Some(name) if is_wanted => Answer::TakeAs(name),
                _ => is_wanted.into(),
            }
        });
    }
    if let Some(on_event) = options.on_event {
        let context = Context(options.context);
        builder = builder.on_event(move |event| {
            let (mut kept, Context(context)) = (Kept::default(), &context);
            let told = told(event, is_in_memory, &mut kept);
            // SAFETY: the caller promises that the function may be called with this context until the receiver is freed.
            unsafe { on_event(&raw const told, *context) };
        });
    }
    Ok(treecast_receiver { receiver: builder.join()?, is_in_memory, event: Mutex::default() })
}

/// Reads the next event. Waits for at most `timeout_ms` milliseconds; a negative number waits until there is one. Returns 1 if there
/// is an event, 0 if the session is over and all events have been read, and -1 if none came in time.
///
/// # Safety
/// `receiver` comes from treecast_receiver_join, and was not freed. `event` points to an event that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_receiver_next_event(
    receiver: *const treecast_receiver,
    event: *mut treecast_receiver_event,
    timeout_ms: i64,
) -> c_int {
    // SAFETY: the caller promises it.
    let receiver = unsafe { &*receiver };
    let next = receiver.receiver.next_event();
    let next = match timeout(timeout_ms) {
        Some(time) => next.wait_timeout(time),
        None => Poll::Ready(next.wait()),
    };
    let next = match next {
        Poll::Ready(Some(next)) => next,
        Poll::Ready(None) => return 0,
        Poll::Pending => return -1,
    };
    let mut kept = receiver.event.lock().unwrap_or_else(PoisonError::into_inner);
    *kept = Kept::default();
    let told = told(next, receiver.is_in_memory, &mut kept);
    // SAFETY: the caller promises it.
    unsafe { event.write(told) };
    1
}

/// Waits for `period_ms` milliseconds, or until the session is over, and reads all events of that time: the batched notification
/// of interdomain-2013, 4.3.1. Returns how many they are, and writes where they are to `events`. They are valid until the next event or batch
/// of the receiver is read. Returns -1 if the session is over and all events have been read.
///
/// # Safety
/// `receiver` comes from treecast_receiver_join, and was not freed. `events` points to a pointer that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_receiver_next_batch(
    receiver: *const treecast_receiver,
    period_ms: u64,
    events: *mut *const treecast_receiver_event,
) -> i64 {
    // SAFETY: the caller promises it.
    let receiver = unsafe { &*receiver };
    let batch = receiver.receiver.next_batch(Duration::from_millis(period_ms));
    let mut kept = receiver.event.lock().unwrap_or_else(PoisonError::into_inner);
    *kept = Kept::default();
    let count = batch.map_or(-1, |batch| {
        let told = batch.into_iter().map(|event| told(event, receiver.is_in_memory, &mut kept)).collect();
        kept.events = told;
        kept.events.len() as i64
    });
    // SAFETY: the caller promises it.
    unsafe { events.write(kept.events.as_ptr()) };
    count
}

fn told(event: ReceiverEvent, is_in_memory: bool, kept: &mut Kept) -> treecast_receiver_event {
    use treecast_receiver_event_kind as Kind;
    let texts = &mut kept.texts;
    let none = ptr::null();
    let mut told = treecast_receiver_event {
        kind: Kind::Warning,
        bytes: 0,
        name: none,
        path: none,
        data: ptr::null(),
        text: none,
    };
    match event {
        ReceiverEvent::Joined { sender, .. } => {
            (told.kind, told.text) = (Kind::Joined, texts.keep(&sender.to_string()));
        }
        ReceiverEvent::Unreachable { reason, .. } => {
            (told.kind, told.text) = (Kind::Unreachable, texts.keep(&reason));
        }
        ReceiverEvent::Announced { name, bytes, .. } => {
            (told.kind, told.name, told.bytes) = (Kind::Announced, texts.keep(&name), bytes);
        }
        ReceiverEvent::Received(object) => {
            (told.kind, told.name, told.bytes) = (Kind::Received, texts.keep(object.name()), object.len());
            if is_in_memory && object.kind() == ObjectKind::File {
                match object.into_bytes() {
                    Ok(data) => {
                        told.data = data.as_ptr();
                        kept.data.push(data);
                    }
                    Err(error) => (told.kind, told.text) = (Kind::Failed, texts.keep(&error.to_string())),
                }
            } else {
                told.path = texts.keep_path(&object.path());
            }
        }
        ReceiverEvent::Ignored { name, .. } => (told.kind, told.name) = (Kind::Ignored, texts.keep(&name)),
        ReceiverEvent::Failed { name, reason, .. } => {
            (told.kind, told.name, told.text) = (Kind::Failed, texts.keep(&name), texts.keep(&reason));
        }
        ReceiverEvent::Missed(events) => (told.kind, told.bytes) = (Kind::Missed, events),
        ReceiverEvent::Warning(line) => told.text = texts.keep(&line),
        other => told.text = texts.keep(&format!("{other:?}")),
    }
    told
}

/// Writes how far the receiver is.
///
/// # Safety
/// `receiver` comes from treecast_receiver_join, and was not freed. `progress` points to a progress that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_receiver_get_progress(
    receiver: *const treecast_receiver,
    progress: *mut treecast_receiver_progress,
) {
    // SAFETY: the caller promises it.
    let now = unsafe { &*receiver }.receiver.progress();
    let written = treecast_receiver_progress {
        bytes: now.bytes,
        announced_bytes: now.announced_bytes,
        retransmitted_bytes: now.retransmitted_bytes,
        objects: now.objects,
    };
    // SAFETY: the caller promises it.
    unsafe { progress.write(written) };
}

/// Leaves the group. Complete objects stay.
///
/// # Safety
/// `receiver` comes from treecast_receiver_join, and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_receiver_leave(receiver: *const treecast_receiver) {
    // SAFETY: the caller promises it.
    drop(unsafe { &*receiver }.receiver.leave());
}

/// Waits until the session is over. Returns 0 if nothing failed and nothing was cut short, 1 if not, and -1 if nothing could be
/// received, or this was called before. `report` may be NULL.
///
/// # Safety
/// `receiver` comes from treecast_receiver_join, and was not freed. `report` is NULL, or points to a report that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_receiver_wait(
    receiver: *const treecast_receiver,
    report: *mut treecast_receiver_report,
) -> c_int {
    // SAFETY: the caller promises it.
    let ended = unsafe { &*receiver }.receiver.finish().wait().map(|ended| {
        if !report.is_null() {
            let written = treecast_receiver_report {
                objects: ended.objects,
                bytes: ended.bytes,
                failed: ended.failed,
                not_wanted: ended.not_wanted,
                has_left: ended.has_left,
            };
            // SAFETY: the caller promises it.
            unsafe { report.write(written) };
        }
        let is_complete = ended.is_complete();
        if !is_complete {
            keep(ended.cut_short.as_deref().unwrap_or("not everything has come"));
        }
        c_int::from(!is_complete)
    });
    or(ended, -1)
}

/// Frees a receiver. If its session is not over, leaves the group and waits for the end.
///
/// # Safety
/// `receiver` is NULL, or comes from treecast_receiver_join and was not freed. No other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_receiver_free(receiver: *mut treecast_receiver) {
    if receiver.is_null() {
        return;
    }
    // SAFETY: the caller promises it.
    let receiver = unsafe { Box::from_raw(receiver) };
    // `accept` and `on_event` are not called any more when this returns.
    drop(receiver.receiver.leave().wait());
}
