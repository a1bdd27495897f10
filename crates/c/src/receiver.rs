//! The receiver's side.

use std::{
    ffi::{OsStr, c_char, c_int, c_void},
    os::unix::ffi::OsStrExt,
    ptr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use treecast::{Answer, ObjectKind, Offer, Receiver, ReceiverBuilder, ReceiverEvent, Ticket};

use crate::{
    error::{BAD_ARGUMENT, done, guard, keep},
    events::await_next,
    failure::Failure,
    handle::Handles,
    out::Out,
    text::{Texts, c_string, path, text, timeout},
};

/// A receiver that has joined a group. It may be used from several threads; one of them reads events.
pub struct treecast_receiver {
    receiver: Receiver,
    is_in_memory: bool,
    event: Mutex<Kept>,
}

/// The receivers that C has pointers to.
static RECEIVERS: Handles<treecast_receiver> = Handles::new("receiver");

/// What C has pointers to.
#[derive(Default)]
struct Kept {
    texts: Texts,
    /// The bytes of each file in memory.
    data: Vec<Vec<u8>>,
    /// The events of a batch.
    events: Vec<treecast_receiver_event>,
}

// SAFETY: the pointers in the events lead to what the other fields own.
unsafe impl Send for Kept {}

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
/// So it must return soon. treecast_receiver_wait fails there, and treecast_receiver_free does not wait. The event and its pointers are
/// valid until it returns. `context` is that of the options.
pub type treecast_on_event =
    Option<unsafe extern "C" fn(event: *const treecast_receiver_event, context: *mut c_void)>;

/// The options of a receiver. They have the names of the command's options (`treecast receive --help`). Zero and NULL are the
/// defaults, but `ticket` is needed:
/// `struct treecast_receiver_options options = {.ticket = ticket};`.
#[repr(C)]
pub struct treecast_receiver_options {
    /// The ticket of the group: the text, or @ and the path of a file with it.
    pub ticket: *const c_char,
    /// The folder for what comes; it is made if it is missing. NULL: objects come in memory, with the event.
    pub into: *const c_char,
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
/// `options` is NULL, or points to options whose strings end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_receiver_join(
    options: *const treecast_receiver_options,
) -> *mut treecast_receiver {
    guard(ptr::null_mut(), || {
        // SAFETY: the caller promises NULL or options.
        let options = unsafe { options.as_ref() }.ok_or("`options` is NULL: a receiver needs a ticket")?;
        // SAFETY: the caller promises the strings.
        Ok(RECEIVERS.add(unsafe { join(options) }?))
    })
}

/// What C's function is called with. It may be called in another thread.
pub(crate) struct Context(pub *mut c_void);

// SAFETY: C's functions are called in the session's thread, as their documentation says.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// # Safety
/// The strings of `options` end with a zero.
unsafe fn join(options: &treecast_receiver_options) -> Result<treecast_receiver, Failure> {
    // SAFETY: the caller promises that these are strings.
    let ([interface, name, key], [ticket, into, old]) = unsafe {
        (
            [text(options.interface)?, text(options.name)?, text(options.key)?],
            [options.ticket, options.into, options.old].map(|one| path(one)),
        )
    };
    let ticket =
        ticket.ok_or("`ticket` is NULL: give the text of treecast_group_ticket or of `treecast send`")?;
    let ticket: Ticket = match ticket.as_os_str().as_bytes().strip_prefix(b"@") {
        Some(file) => Ticket::read(OsStr::from_bytes(file))?,
        None => ticket.to_string_lossy().parse()?,
    };
    let mut builder = Receiver::builder(ticket);
    let is_in_memory = into.is_none();
    builder = match into {
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
    builder = with_functions(builder, options, is_in_memory);
    Ok(treecast_receiver { receiver: builder.join()?, is_in_memory, event: Mutex::default() })
}

/// Has the program's functions called.
fn with_functions(
    mut builder: ReceiverBuilder,
    options: &treecast_receiver_options,
    is_in_memory: bool,
) -> ReceiverBuilder {
    if let Some(accept) = options.accept {
        builder = builder.accept(chooser(accept, options.context));
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
    builder
}

/// Asks a function of C about objects.
pub(crate) fn chooser(
    accept: unsafe extern "C" fn(*mut treecast_offer, *mut c_void) -> bool,
    context: *mut c_void,
) -> impl Fn(&Offer<'_>) -> Answer + Send + Sync + 'static {
    let context = Context(context);
    move |offer| {
        let (name, Context(context)) = (c_string(offer.name()), &context);
        let mut offer = treecast_offer { name: name.as_ptr(), bytes: offer.len(), new_name: ptr::null() };
        // SAFETY: the caller promises that the function may be called with this context while the session lasts.
        let is_wanted = unsafe { accept(&raw mut offer, *context) };
        // SAFETY: the function leaves NULL there, or a string.
        match unsafe { path(offer.new_name) } {
            Some(name) if is_wanted => Answer::TakeAs(name.to_string_lossy().into_owned()),
            _ => is_wanted.into(),
        }
    }
}

/// Reads the next event. Waits for at most `timeout_ms` milliseconds; a negative number waits until there is one. Returns 1 if there
/// is an event, 0 if the session is over and all events have been read, -1 if none came in time, and -2 if the arguments cannot be
/// used, or this is a function that the session calls.
///
/// # Safety
/// `event` is NULL, or points to an event that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_receiver_next_event(
    receiver: *const treecast_receiver,
    event: *mut treecast_receiver_event,
    timeout_ms: i64,
) -> c_int {
    guard(BAD_ARGUMENT, || {
        let (receiver, event) = (RECEIVERS.get(receiver)?, Out::new(event, "event")?);
        receiver.receiver.check_wait()?;
        let next = match await_next(receiver.receiver.next_event(), timeout_ms) {
            Ok(next) => next,
            Err(none) => return Ok(none),
        };
        let mut kept = receiver.event.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Kept::default();
        // SAFETY: the caller promises that it may be written.
        unsafe { event.write(told(next, receiver.is_in_memory, &mut kept)) };
        Ok(1)
    })
}

/// Waits for `period_ms` milliseconds, or until the session is over, and reads all events of that time: the batched notification
/// of interdomain-2013, 4.3.1. Returns how many they are, and writes where they are to `events`. They are valid until the next event or batch
/// of the receiver is read. Returns -1 if the session is over and all events have been read, and -2 if the arguments cannot be used, or
/// this is a function that the session calls.
///
/// # Safety
/// `events` is NULL, or points to a pointer that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_receiver_next_batch(
    receiver: *const treecast_receiver,
    period_ms: u64,
    events: *mut *const treecast_receiver_event,
) -> i64 {
    guard(BAD_ARGUMENT.into(), || {
        let (receiver, events) = (RECEIVERS.get(receiver)?, Out::new(events, "events")?);
        receiver.receiver.check_wait()?;
        let batch = receiver.receiver.next_batch(Duration::from_millis(period_ms));
        let mut kept = receiver.event.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Kept::default();
        let count = batch.map_or(-1, |batch| {
            let told = batch.into_iter().map(|event| told(event, receiver.is_in_memory, &mut kept)).collect();
            kept.events = told;
            kept.events.len() as i64
        });
        // SAFETY: the caller promises that it may be written.
        unsafe { events.write(kept.events.as_ptr()) };
        Ok(count)
    })
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

/// Writes how far the receiver is. Returns 0, or -1 if the arguments cannot be used.
///
/// # Safety
/// `progress` is NULL, or points to a progress that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_receiver_get_progress(
    receiver: *const treecast_receiver,
    progress: *mut treecast_receiver_progress,
) -> c_int {
    done(|| {
        let (receiver, progress) = (RECEIVERS.get(receiver)?, Out::new(progress, "progress")?);
        let now = receiver.receiver.progress();
        let written = treecast_receiver_progress {
            bytes: now.bytes,
            announced_bytes: now.announced_bytes,
            retransmitted_bytes: now.retransmitted_bytes,
            objects: now.objects,
        };
        // SAFETY: the caller promises that it may be written.
        unsafe { progress.write(written) };
        Ok(())
    })
}

/// Leaves the group. Complete objects stay. Returns 0, or -1 if `receiver` is none.
#[unsafe(no_mangle)]
pub extern "C" fn treecast_receiver_leave(receiver: *const treecast_receiver) -> c_int {
    done(|| {
        drop(RECEIVERS.get(receiver)?.receiver.leave());
        Ok(())
    })
}

/// Waits until the session is over. Returns 0 if nothing failed and nothing was cut short, 1 if not, and -1 if nothing could be
/// received, or this was called before, or is called by a function that the session calls, or `receiver` is none. `report` may be NULL.
///
/// # Safety
/// `report` is NULL, or points to a report that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_receiver_wait(
    receiver: *const treecast_receiver,
    report: *mut treecast_receiver_report,
) -> c_int {
    guard(-1, || {
        let ended = RECEIVERS.get(receiver)?.receiver.finish().wait()?;
        let written = treecast_receiver_report {
            objects: ended.objects,
            bytes: ended.bytes,
            failed: ended.failed,
            not_wanted: ended.not_wanted,
            has_left: ended.has_left,
        };
        // SAFETY: the caller promises NULL, or a place that may be written.
        unsafe { Out::or_none(report, written) };
        let is_complete = ended.is_complete();
        if !is_complete {
            keep(ended.cut_short.as_deref().unwrap_or("not everything has come"));
        }
        Ok(c_int::from(!is_complete))
    })
}

/// Frees a receiver. If its session is not over, leaves the group and waits for the end, so that `accept` and `on_event` are not called
/// any more. In one of these two, it does not wait: the function that runs is the last one. NULL, and a receiver that was freed before,
/// are left alone.
#[unsafe(no_mangle)]
pub extern "C" fn treecast_receiver_free(receiver: *mut treecast_receiver) {
    done(|| {
        if let Some(receiver) = RECEIVERS.take(receiver)? {
            _ = receiver.receiver.leave().wait();
        }
        Ok(())
    });
}
