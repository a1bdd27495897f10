//! The sender's side.

use std::{
    ffi::{CString, c_char, c_int, c_void},
    ptr,
    sync::{Mutex, PoisonError},
    task::Poll,
    time::Duration,
};

use treecast::{
    Fanout, Group, GroupBuilder, GroupEvent, Object, Rate,
    options::{CarouselOptions, FeedSource, FolderOptions},
};

use crate::{
    error::{keep, or},
    text::{Texts, c_string, path, paths, text, timeout},
};

/// A group of receivers, and the session that sends objects to them. It may be used from several threads; one of them reads
/// events.
pub struct treecast_group {
    group: Group,
    ticket: CString,
    texts: Mutex<Texts>,
}

/// The options of a group. Zero and NULL are the defaults: `struct treecast_group_options options = {0};`.
#[repr(C)]
pub struct treecast_group_options {
    /// The name of the network interface. NULL: the one of the route.
    pub interface: *const c_char,
    /// The number of receivers with which the session starts. 0: 1.
    pub wait_for: u32,
    /// The time in milliseconds after which the session fails if fewer are there. 0: a minute; a carousel waits for ever.
    pub wait_timeout_ms: u64,
    /// The rate, in bits of IP packets a second. 0: what the path to the worst receiver delivers; a carousel goes as fast as it can.
    pub rate_bps: u64,
    /// Whether packets go as fast as the slowest receiver takes them, whatever other traffic there is. rate_bps is not used.
    pub rate_max: bool,
    /// The retransmission factor of objects that have none of their own. 0: no limit.
    pub retransmission_factor: f64,
    /// The multicast group's address. NULL: a random one.
    pub address: *const c_char,
    /// The multicast group's UDP port. 0: a random one.
    pub port: u16,
    /// Whether each receiver gets a copy, in place of multicast.
    pub unicast: bool,
    /// Whether nothing is encrypted, and nobody proves their identity.
    pub plain: bool,
    /// The sender's key: its name (`treecast keys`) or its file. NULL: one that is made for the session.
    pub key: *const c_char,
    /// The file with the public keys of the receivers that are admitted. NULL: everybody who has the ticket.
    pub admit: *const c_char,
    /// The level, 1 to 19, at which objects are compressed by zstd. 0: not at all.
    pub compression: i32,
    /// What the session sends by itself. Zeros: what the program sends.
    pub source: treecast_source,
}

/// What a session sends by itself. treecast_send_file and treecast_send_memory fail if this has more than `paths`.
#[repr(C)]
pub struct treecast_source {
    /// Files and folders that are sent from the beginning: an array that ends with NULL. NULL: none.
    pub paths: *const *const c_char,
    /// A folder whose files are sent, those that are there and those that come, until treecast_group_stop. NULL: none.
    pub feed_folder: *const c_char,
    /// Whether receivers that have older versions of the paths fetch only what differs.
    pub delta: bool,
    /// The file that keeps the session's state, so that it can go on with the same paths after treecast_group_stop or a restart.
    /// It holds a key. NULL: none.
    pub session_file: *const c_char,
    /// The options of a carousel, which sends the paths again and again to those who come at any time, and hears nothing of them.
    /// NULL: no carousel.
    pub carousel: *const treecast_carousel_options,
}

/// The options of a carousel. Zero is the default.
#[repr(C)]
pub struct treecast_carousel_options {
    /// The number of loops after which the carousel ends. 0: it goes on while somebody listens.
    pub loops: u64,
    /// The time in milliseconds without a listener after which the carousel ends. 0: ten seconds.
    pub idle_ms: u64,
}

impl Default for treecast_group_options {
    fn default() -> Self {
        let none = ptr::null();
        Self {
            interface: none,
            wait_for: 0,
            wait_timeout_ms: 0,
            rate_bps: 0,
            rate_max: false,
            retransmission_factor: 0.0,
            address: none,
            port: 0,
            unicast: false,
            plain: false,
            key: none,
            admit: none,
            compression: 0,
            source: treecast_source {
                paths: ptr::null(),
                feed_folder: none,
                delta: false,
                session_file: none,
                carousel: ptr::null(),
            },
        }
    }
}

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
    let defaults = treecast_group_options::default();
    // SAFETY: the caller promises it; the defaults have no strings.
    let group = unsafe { start(options.as_ref().unwrap_or(&defaults)) };
    let group = group.map(|group| {
        let ticket = c_string(&group.ticket().to_string());
        Box::into_raw(Box::new(treecast_group { group, ticket, texts: Mutex::default() }))
    });
    or(group, ptr::null_mut())
}

/// # Safety
/// The strings of `options` end with a zero, and the array of paths with NULL.
unsafe fn start(options: &treecast_group_options) -> Result<Group, String> {
    let mut builder = Group::builder();
    // SAFETY: the caller promises that these are strings.
    let [interface, address, key] =
        [options.interface, options.address, options.key].map(|one| unsafe { text(one) });
    if let Some(interface) = interface {
        builder = builder.interface(interface);
    }
    if let Some(address) = address {
        let parsed = address.parse().map_err(|_| format!("{address:?} is no IP address"));
        builder = builder.group(parsed?);
    }
    if let Some(key) = key {
        builder = builder.key(key);
    }
    // SAFETY: as above.
    if let Some(admit) = unsafe { path(options.admit) } {
        builder = builder.admit(admit);
    }
    if options.wait_for > 0 {
        builder = builder.wait_for(options.wait_for);
    }
    if options.wait_timeout_ms > 0 {
        builder = builder.wait_timeout(Duration::from_millis(options.wait_timeout_ms));
    }
    if options.retransmission_factor != 0.0 {
        builder = builder.retransmission_factor(options.retransmission_factor);
    }
    if options.port > 0 {
        builder = builder.port(options.port);
    }
    if options.unicast {
        builder = builder.fanout(Fanout::Unicast);
    }
    if options.compression != 0 {
        builder = builder.compression(options.compression);
    }
    if options.plain {
        builder = builder.plain();
    }
    builder = match (options.rate_max, options.rate_bps) {
        (true, _) => builder.rate(Rate::Max),
        (false, 0) => builder,
        (false, bps) => builder.rate(Rate::Bps(bps)),
    };
    // SAFETY: the caller promises the strings.
    builder = unsafe { with_source(builder, &options.source, options.wait_timeout_ms) };
    builder.start().map_err(|error| error.to_string())
}

/// # Safety
/// The strings of `source` end with a zero, and the array of paths with NULL.
unsafe fn with_source(
    mut builder: GroupBuilder,
    source: &treecast_source,
    wait_timeout_ms: u64,
) -> GroupBuilder {
    // SAFETY: the caller promises that these are strings, and an array of them.
    let (sent, [feed_folder, session_file]) =
        unsafe { (paths(source.paths), [source.feed_folder, source.session_file].map(|one| path(one))) };
    builder = sent.into_iter().fold(builder, GroupBuilder::path);
    if let Some(folder) = feed_folder {
        builder = builder.feed(FeedSource::Folder(FolderOptions::new(folder)));
    }
    if source.delta {
        builder = builder.delta();
    }
    if let Some(file) = session_file {
        builder = builder.session_file(file);
    }
    // SAFETY: the caller promises NULL or options.
    if let Some(given) = unsafe { source.carousel.as_ref() } {
        let some = |number: u64| Some(number).filter(|number| *number > 0);
        let mut options = CarouselOptions::default();
        options.loops = some(given.loops);
        options.idle = some(given.idle_ms).map_or(options.idle, Duration::from_millis);
        options.wait_timeout = some(wait_timeout_ms).map(Duration::from_millis);
        builder = builder.carousel(options);
    }
    builder
}

/// The ticket with which receivers join: a line of text. Valid as long as the group.
///
/// # Safety
/// `group` comes from treecast_group_start, and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_group_ticket(group: *const treecast_group) -> *const c_char {
    // SAFETY: the caller promises it.
    unsafe { &*group }.ticket.as_ptr()
}

/// Sends a file, which must not change until it is done. `name` is its name at receivers; NULL: its own. Requests for
/// retransmissions are answered for `factor` times as long as its multicast takes; a negative factor is the group's. Returns the
/// object's number, or -1.
///
/// # Safety
/// `group` comes from treecast_group_start, and was not freed. `path` and `name` end with a zero; `name` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_send_file(
    group: *const treecast_group,
    path: *const c_char,
    name: *const c_char,
    factor: f64,
) -> i64 {
    // SAFETY: the caller promises it.
    let (group, file, name) = unsafe { (&*group, self::path(path).unwrap_or_default(), text(name)) };
    let object = Object::file(file);
    send(group, if let Some(name) = name { object.named(name) } else { object }, factor)
}

/// Sends `length` bytes from where they are, under a name. They must neither change nor be freed until the event
/// TREECAST_GROUP_EVENT_KIND_DONE of this object is read, or treecast_group_free returns. `factor` is that of treecast_send_file.
/// Returns the object's number, or -1.
///
/// # Safety
/// `group` comes from treecast_group_start, and was not freed. `name` ends with a zero. `data` points to `length` bytes that stay as
/// they are until the object is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_send_memory(
    group: *const treecast_group,
    name: *const c_char,
    data: *const c_void,
    length: usize,
    factor: f64,
) -> i64 {
    // SAFETY: the caller promises it.
    let (group, name) = unsafe { (&*group, text(name).unwrap_or_default()) };
    send(group, Object::bytes(name, Lent { start: data.cast(), length }), factor)
}

fn send(group: &treecast_group, object: Object, factor: f64) -> i64 {
    let object = if factor < 0.0 { object } else { object.retransmission_factor(factor) };
    let sent = group.group.send(object).map(|transfer| transfer.id().number().try_into().unwrap_or(i64::MAX));
    or(sent, -1)
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
/// is an event, 0 if the session is over and all events have been read, and -1 if none came in time.
///
/// # Safety
/// `group` comes from treecast_group_start, and was not freed. `event` points to an event that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_group_next_event(
    group: *const treecast_group,
    event: *mut treecast_group_event,
    timeout_ms: i64,
) -> c_int {
    // SAFETY: the caller promises it.
    let group = unsafe { &*group };
    let next = group.group.next_event();
    let next = match timeout(timeout_ms) {
        Some(time) => next.wait_timeout(time),
        None => Poll::Ready(next.wait()),
    };
    let next = match next {
        Poll::Ready(Some(next)) => next,
        Poll::Ready(None) => return 0,
        Poll::Pending => return -1,
    };
    let mut texts = group.texts.lock().unwrap_or_else(PoisonError::into_inner);
    texts.clear();
    let told = told(next, &mut texts);
    // SAFETY: the caller promises it.
    unsafe { event.write(told) };
    1
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
        GroupEvent::Missed(events) => (told.kind, told.bytes) = (Kind::Missed, events),
        GroupEvent::Warning(line) => (told.kind, told.text) = (Kind::Warning, texts.keep(&line)),
        other => (told.kind, told.text) = (Kind::Warning, texts.keep(&format!("{other:?}"))),
    }
    told
}

/// Waits until another object can be sent, because fewer than 4,096 are not done, or the session is over.
///
/// # Safety
/// `group` comes from treecast_group_start, and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_group_wait_for_room(group: *const treecast_group) {
    // SAFETY: the caller promises it.
    unsafe { &*group }.group.room().wait();
}

/// Writes how far the group is.
///
/// # Safety
/// `group` comes from treecast_group_start, and was not freed. `progress` points to a progress that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_group_get_progress(
    group: *const treecast_group,
    progress: *mut treecast_group_progress,
) {
    // SAFETY: the caller promises it.
    let now = unsafe { &*group }.group.progress();
    let written = treecast_group_progress {
        seconds: now.seconds,
        sent_bytes: now.sent_bytes,
        bytes: now.bytes,
        rate_bps: now.rate_bps.unwrap_or(0),
        receivers: now.receivers,
    };
    // SAFETY: the caller promises it.
    unsafe { progress.write(written) };
}

/// Takes no more objects. The session ends when all receivers have ended with all objects.
///
/// # Safety
/// `group` comes from treecast_group_start, and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_group_close(group: *const treecast_group) {
    // SAFETY: the caller promises it.
    drop(unsafe { &*group }.group.close());
}

/// Stops the session. Receivers keep only what was complete. A feed begins no more files, and finishes those under way, for at most
/// 30 s. Receivers of a session with a session file wait for it to go on. Returns at once; treecast_group_wait waits for the end.
///
/// # Safety
/// `group` comes from treecast_group_start, and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_group_stop(group: *const treecast_group) {
    // SAFETY: the caller promises it.
    drop(unsafe { &*group }.group.stop());
}

/// Waits until the session is over. Returns 0 if every receiver has every object that it wanted, 1 if not, and -1 if nothing could be
/// sent, or this was called before. `report` may be NULL.
///
/// # Safety
/// `group` comes from treecast_group_start, and was not freed. `report` is NULL, or points to a report that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_group_wait(
    group: *const treecast_group,
    report: *mut treecast_group_report,
) -> c_int {
    // SAFETY: the caller promises it.
    let ended = unsafe { &*group }.group.finish().wait().map(|ended| {
        if !report.is_null() {
            let written = treecast_group_report {
                objects: ended.objects,
                bytes: ended.bytes,
                receivers: ended.receivers.len() as u64,
                seconds: ended.duration.as_secs_f64(),
                is_stopped: ended.is_stopped,
            };
            // SAFETY: the caller promises it.
            unsafe { report.write(written) };
        }
        let is_complete = ended.is_complete();
        if !is_complete {
            keep(match ended.is_stopped {
                true => "the session was stopped",
                false => "not every receiver has every object",
            });
        }
        c_int::from(!is_complete)
    });
    or(ended, -1)
}

/// Frees a group. If its session is not over, stops it and waits for its end; receivers then keep only what was complete.
///
/// # Safety
/// `group` is NULL, or comes from treecast_group_start and was not freed. No other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_group_free(group: *mut treecast_group) {
    if group.is_null() {
        return;
    }
    // SAFETY: the caller promises it.
    let group = unsafe { Box::from_raw(group) };
    // Memory that C has lent belongs to C again.
    drop(group.group.stop().wait());
}
