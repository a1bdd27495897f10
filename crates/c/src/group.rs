//! The sender's side.

use std::{
    ffi::{CString, c_char, c_int, c_void},
    ptr,
    sync::{Mutex, PoisonError},
};

use treecast::{Group, GroupEvent, Object};

use crate::{
    error::{BAD_ARGUMENT, done, guard, keep},
    events::await_next,
    failure::Failure,
    handle::Handles,
    options::{start, treecast_group_options},
    out::Out,
    text::{Texts, c_string, path, text},
};

/// A group of receivers, and the session that sends objects to them. It may be used from several threads; one of them reads
/// events.
pub struct treecast_group {
    group: Group,
    ticket: CString,
    code: Option<CString>,
    texts: Mutex<Texts>,
}

/// The groups that C has pointers to.
static GROUPS: Handles<treecast_group> = Handles::new("group");

/// The kinds of events of a group.
#[repr(C)]
pub enum treecast_group_event_kind {
    /// A receiver is there: `name`.
    Joined,
    /// A receiver is gone: `name`. `text` says why.
    Left,
    /// The receivers that the group waits for are there.
    Started,
    /// The group is done with object `id`: `name`, `bytes`, `complete`, `not_wanted`, `failed`. Its memory belongs to the caller
    /// again. `text` says why it was not sent to its end; it is NULL if it was. `id` is -1 if the session sends it by itself.
    Done,
    /// `text` says what is not as good as it could be.
    Warning,
    /// `bytes` is the number of events that were lost, because too many were not read.
    Missed,
    /// The receiver at the address `text` has got the ticket by the short code.
    CodeGiven,
    /// The host at the address `text` has tried a wrong code. `bytes` is the number of attempts that are left. With 0, the code is
    /// of no use any more.
    CodeWrong,
}

/// An event of a group. Its strings are valid until the next event of the group is read.
#[repr(C)]
pub struct treecast_group_event {
    pub kind: treecast_group_event_kind,
    /// The number that treecast_send_file or treecast_send_memory has returned, or -1.
    pub id: i64,
    /// Size of the object, in bytes.
    pub bytes: u64,
    /// The number of receivers that have it, verified.
    pub complete: u32,
    /// The number of receivers that did not want it.
    pub not_wanted: u32,
    /// The number of receivers that wanted it and do not have it.
    pub failed: u32,
    pub name: *const c_char,
    pub text: *const c_char,
}

/// What has come of a group.
#[repr(C)]
pub struct treecast_group_report {
    /// The number of objects, and their total size in bytes.
    pub objects: u64,
    pub bytes: u64,
    /// The number of receivers.
    pub receivers: u64,
    /// The time from the start to the end, in seconds.
    pub seconds: f64,
    /// Whether the session was stopped before its end.
    pub is_stopped: bool,
}

/// How far a group is.
#[repr(C)]
pub struct treecast_group_progress {
    /// Seconds since the first object could leave.
    pub seconds: f64,
    /// The bytes of objects that have been sent to the group. Retransmissions do not count.
    pub sent_bytes: u64,
    /// Total size of all objects so far, in bytes.
    pub bytes: u64,
    /// The rate, in bits of IP packets a second. 0 if only receivers limit it.
    pub rate_bps: u64,
    /// The number of receivers that are connected.
    pub receivers: u32,
}

/// Opens a group, and starts its session. Receivers can join from then on. NULL if that is not possible. `options` may be NULL.
///
/// # Safety
/// `options` is NULL, or points to options whose strings end with a zero and whose array of paths ends with NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_group_start(options: *const treecast_group_options) -> *mut treecast_group {
    guard(ptr::null_mut(), || {
        let defaults = treecast_group_options::default();
        // SAFETY: the caller promises it; the defaults have no strings.
        let group = unsafe { start(options.as_ref().unwrap_or(&defaults)) }?;
        let ticket = c_string(&group.ticket().to_string());
        let code = group.code().map(|code| c_string(&code.to_string()));
        Ok(GROUPS.add(treecast_group { group, ticket, code, texts: Mutex::default() }))
    })
}

/// The ticket with which receivers join: a line of text. Valid as long as the group. NULL if `group` is none.
#[unsafe(no_mangle)]
pub extern "C" fn treecast_group_ticket(group: *const treecast_group) -> *const c_char {
    guard(ptr::null(), || Ok(GROUPS.get(group)?.ticket.as_ptr()))
}

/// The short code by which a receiver on the same network gets the ticket: three words (`code` of the options). After five wrong
/// guesses it is of no use any more. Valid as long as the group. NULL if the group has none.
#[unsafe(no_mangle)]
pub extern "C" fn treecast_group_code(group: *const treecast_group) -> *const c_char {
    guard(ptr::null(), || {
        let group = GROUPS.get(group)?;
        let none = "the group has no code: set `code` of its options";
        group.code.as_ref().map(|code| code.as_ptr()).ok_or_else(|| none.into())
    })
}

/// Sends a file, which must not change until it is done. `name` is its name at receivers; NULL: its own. Requests for
/// retransmissions are answered for `retx_factor` times as long as its multicast takes; a negative factor is the group's. Returns the
/// object's number, or -1.
///
/// # Safety
/// `path` and `name` end with a zero; `name` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_send_file(
    group: *const treecast_group,
    path: *const c_char,
    name: *const c_char,
    retx_factor: f64,
) -> i64 {
    guard(-1, || {
        let group = GROUPS.get(group)?;
        // SAFETY: the caller promises strings.
        let (file, name) = unsafe { (self::path(path), text(name)?) };
        let object = Object::file(file.ok_or("`path` is NULL: name a file")?);
        send(&group, if let Some(name) = name { object.named(name) } else { object }, retx_factor)
    })
}

/// Sends `length` bytes from where they are, under a name. They must neither change nor be freed until the event
/// TREECAST_GROUP_EVENT_KIND_DONE of this object is read, or treecast_group_free returns. `retx_factor` is that of
/// treecast_send_file. Returns the object's number, or -1.
///
/// # Safety
/// `name` ends with a zero. `data` points to `length` bytes that stay as they are until the object is done; it may be NULL if there
/// are none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_send_memory(
    group: *const treecast_group,
    name: *const c_char,
    data: *const c_void,
    length: usize,
    retx_factor: f64,
) -> i64 {
    guard(-1, || {
        let group = GROUPS.get(group)?;
        // SAFETY: the caller promises a string.
        let name = unsafe { text(name)? }.ok_or("`name` is NULL: name the object")?;
        let start: *const u8 = data.cast();
        if length > 0 && start.is_null() {
            return Err(format!("`data` of {name:?} is NULL, and `length` is {length}").into());
        }
        // No object in memory is longer, or wraps around the end of the addresses.
        if isize::try_from(length).is_err() || (start as usize).checked_add(length).is_none() {
            return Err(format!("`length` of {name:?} is {length}: no memory is that long").into());
        }
        send(&group, Object::bytes(name, Lent { start, length }), retx_factor)
    })
}

fn send(group: &treecast_group, object: Object, retx_factor: f64) -> Result<i64, Failure> {
    let object = if retx_factor < 0.0 { object } else { object.retx_factor(retx_factor) };
    let transfer = group.group.send(object)?;
    Ok(transfer.id().number().try_into().unwrap_or(i64::MAX))
}

/// Bytes that C has lent.
struct Lent {
    start: *const u8,
    length: usize,
}

// SAFETY: the bytes are only read, and nobody changes them meanwhile (treecast_send_memory).
unsafe impl Send for Lent {}
// SAFETY: as above.
unsafe impl Sync for Lent {}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: whoever has called treecast_send_memory promises that the bytes are there until this is dropped.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

/// Reads the next event. Waits for at most `timeout_ms` milliseconds; a negative number waits until there is one. Returns 1 if there
/// is an event, 0 if the session is over and all events have been read, -1 if none came in time, and -2 if the arguments cannot be
/// used.
///
/// # Safety
/// `event` is NULL, or points to an event that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_group_next_event(
    group: *const treecast_group,
    event: *mut treecast_group_event,
    timeout_ms: i64,
) -> c_int {
    guard(BAD_ARGUMENT, || {
        let group = GROUPS.get(group)?;
        let event = Out::new(event, "event")?;
        let next = match await_next(group.group.next_event(), timeout_ms) {
            Ok(next) => next,
            Err(none) => return Ok(none),
        };
        let mut texts = group.texts.lock().unwrap_or_else(PoisonError::into_inner);
        texts.clear();
        // SAFETY: the caller promises that it may be written.
        unsafe { event.write(told(next, &mut texts)) };
        Ok(1)
    })
}

fn told(event: GroupEvent, texts: &mut Texts) -> treecast_group_event {
    use treecast_group_event_kind as Kind;
    let mut told = treecast_group_event {
        kind: Kind::Started,
        id: -1,
        bytes: 0,
        complete: 0,
        not_wanted: 0,
        failed: 0,
        name: ptr::null(),
        text: ptr::null(),
    };
    match event {
        GroupEvent::Joined { receiver, .. } => (told.kind, told.name) = (Kind::Joined, texts.keep(&receiver)),
        GroupEvent::Left { receiver, reason, .. } => {
            (told.kind, told.name, told.text) = (Kind::Left, texts.keep(&receiver), texts.keep(&reason));
        }
        GroupEvent::Started => {}
        GroupEvent::Done(delivery) => {
            told.kind = Kind::Done;
            told.id = delivery.id.number().try_into().unwrap_or(i64::MAX);
            told.bytes = delivery.bytes;
            (told.complete, told.not_wanted, told.failed) =
                (delivery.complete, delivery.not_wanted, delivery.failed);
            told.name = texts.keep(&delivery.name);
            told.text = delivery.problem.map_or(ptr::null(), |problem| texts.keep(&problem));
        }
        GroupEvent::PathDone { name, bytes, complete, not_wanted, failed, .. } => {
            (told.kind, told.name, told.bytes) = (Kind::Done, texts.keep(&name), bytes);
            (told.complete, told.not_wanted, told.failed) = (complete, not_wanted, failed);
        }
        GroupEvent::CodeGiven { address, .. } => {
            (told.kind, told.text) = (Kind::CodeGiven, texts.keep(&address.to_string()));
        }
        GroupEvent::CodeWrong { address, attempts_left, .. } => {
            (told.kind, told.text) = (Kind::CodeWrong, texts.keep(&address.to_string()));
            told.bytes = attempts_left.into();
        }
        GroupEvent::Missed(events) => (told.kind, told.bytes) = (Kind::Missed, events),
        GroupEvent::Warning(line) => (told.kind, told.text) = (Kind::Warning, texts.keep(&line)),
        other => (told.kind, told.text) = (Kind::Warning, texts.keep(&format!("{other:?}"))),
    }
    told
}

/// Waits until another object can be sent, because fewer than 4,096 are not done, or the session is over. Returns 0, or -1 if `group`
/// is none.
#[unsafe(no_mangle)]
pub extern "C" fn treecast_group_wait_for_room(group: *const treecast_group) -> c_int {
    done(|| {
        GROUPS.get(group)?.group.room().wait();
        Ok(())
    })
}

/// Writes how far the group is. Returns 0, or -1 if the arguments cannot be used.
///
/// # Safety
/// `progress` is NULL, or points to a progress that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_group_get_progress(
    group: *const treecast_group,
    progress: *mut treecast_group_progress,
) -> c_int {
    done(|| {
        let (group, progress) = (GROUPS.get(group)?, Out::new(progress, "progress")?);
        let now = group.group.progress();
        let written = treecast_group_progress {
            seconds: now.seconds,
            sent_bytes: now.sent_bytes,
            bytes: now.bytes,
            rate_bps: now.rate_bps.unwrap_or(0),
            receivers: now.receivers,
        };
        // SAFETY: the caller promises that it may be written.
        unsafe { progress.write(written) };
        Ok(())
    })
}

/// Takes no more objects. The session ends when all receivers have ended with all objects. Returns 0, or -1 if `group` is none.
#[unsafe(no_mangle)]
pub extern "C" fn treecast_group_close(group: *const treecast_group) -> c_int {
    done(|| {
        drop(GROUPS.get(group)?.group.close());
        Ok(())
    })
}

/// Stops the session. Receivers keep only what was complete. A feed begins no more files, and finishes those under way, for at most
/// 30 s. Receivers of a session with a session file wait for it to go on. Returns at once; treecast_group_wait waits for the end.
/// Returns 0, or -1 if `group` is none.
#[unsafe(no_mangle)]
pub extern "C" fn treecast_group_stop(group: *const treecast_group) -> c_int {
    done(|| {
        drop(GROUPS.get(group)?.group.stop());
        Ok(())
    })
}

/// Waits until the session is over. Returns 0 if every receiver has every object that it wanted, 1 if not, and -1 if nothing could be
/// sent, or this was called before, or `group` is none. `report` may be NULL.
///
/// # Safety
/// `report` is NULL, or points to a report that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_group_wait(
    group: *const treecast_group,
    report: *mut treecast_group_report,
) -> c_int {
    guard(-1, || {
        let ended = GROUPS.get(group)?.group.finish().wait()?;
        let written = treecast_group_report {
            objects: ended.objects,
            bytes: ended.bytes,
            receivers: ended.receivers.len() as u64,
            seconds: ended.duration.as_secs_f64(),
            is_stopped: ended.is_stopped,
        };
        // SAFETY: the caller promises NULL, or a place that may be written.
        unsafe { Out::or_none(report, written) };
        let is_complete = ended.is_complete();
        if !is_complete {
            keep(match ended.is_stopped {
                true => "the session was stopped",
                false => "not every receiver has every object",
            });
        }
        Ok(c_int::from(!is_complete))
    })
}

/// Frees a group. If its session is not over, stops it and waits for its end; receivers then keep only what was complete. NULL, and
/// a group that was freed before, are left alone. No other thread uses the group meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn treecast_group_free(group: *mut treecast_group) {
    done(|| {
        if let Some(group) = GROUPS.take(group)? {
            // Memory that C has lent belongs to C again.
            _ = group.group.stop().wait();
        }
        Ok(())
    });
}
