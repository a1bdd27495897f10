//! Announced sessions, and tickets by short codes.

use std::{
    ffi::{c_char, c_void},
    ptr,
    time::Duration,
};

use treecast::unstable::{
    Stop,
    code::{self, Code, CodeError},
    discovery::{self, Interfaces, News},
};

use crate::{
    error::guard,
    failure::Failure,
    receiver::Context,
    text::{Texts, text, texts},
};

/// The time for which announcements are listened for, unless the program says otherwise.
const LISTEN_TIME: Duration = Duration::from_secs(3);

/// The time in which the sender that has a code is looked for, unless the program says otherwise.
const ASK_TIME: Duration = Duration::from_secs(30);

/// A session that somebody announces on the network. Its strings are valid until the function returns that gets it.
#[repr(C)]
pub struct treecast_announced {
    /// The session's name.
    pub name: *const c_char,
    /// The ticket, for the options of a receiver.
    pub ticket: *const c_char,
    /// The public key of the sender, which has signed the announcement.
    pub sender: *const c_char,
    /// The number of objects so far, and their total size in bytes.
    pub objects: u64,
    pub bytes: u64,
}

/// The function that gets each announced session once. It returns whether to go on. `context` is that of treecast_discover.
pub type treecast_on_announced =
    Option<unsafe extern "C" fn(announced: *const treecast_announced, context: *mut c_void) -> bool>;

/// Listens for announced sessions (`announce` of a group's options, `treecast send --announce`) for `time_ms` milliseconds; 0: three
/// seconds. `interfaces` are the names of the interfaces to listen on, an array that ends with NULL; NULL: all that are up. Calls
/// `on_announced` for each, in this thread. Waits for the end of the time, or until the function returns false. Returns the number of
/// sessions, or -1.
///
/// # Safety
/// `interfaces` is NULL, or points to an array of strings that end with a zero. NULL ends the array. `on_announced` may be called with
/// this context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_discover(
    interfaces: *const *const c_char,
    time_ms: u64,
    on_announced: treecast_on_announced,
    context: *mut c_void,
) -> i64 {
    guard(-1, || {
        // SAFETY: the caller promises the array.
        let interfaces = Interfaces::named(&unsafe { texts(interfaces)? })?;
        let on_announced = on_announced.ok_or("`on_announced` is NULL: it gets the sessions")?;
        let (stop, context) = (Stop::new().map_err(|error| error.to_string())?, Context(context));
        let mut count = 0;
        let mut on_news = |news: News| {
            let News::Announced(announcement) = news else { return };
            if stop.is_requested() {
                return;
            }
            count += 1;
            let mut kept = Texts::default();
            let sender = discovery::sender(&announcement).map(|key| key.to_string());
            let announced = treecast_announced {
                name: kept.keep(announcement.name()),
                ticket: kept.keep(&announcement.ticket().to_string()),
                sender: kept.keep_some(sender.as_deref()),
                objects: announcement.objects.into(),
                bytes: announcement.bytes,
            };
            // SAFETY: the caller promises that the function may be called with this context.
            if !unsafe { on_announced(&raw const announced, context.0) } {
                stop.request();
            }
        };
        discovery::listen(&interfaces, or_default(time_ms, LISTEN_TIME), &stop, &mut on_news)?;
        Ok(count)
    })
}

/// Gets the ticket of the sender on this network that offers it for a short code (treecast_group_code, `treecast send --code`), and
/// writes it to `ticket`, which has room for `size` bytes. `interfaces` are those of treecast_discover. Waits for at most `time_ms`
/// milliseconds; 0: half a minute. Returns the length of the ticket without the zero that ends it, or -1. 4,096 bytes are enough.
///
/// # Safety
/// `code` is NULL, or ends with a zero. `interfaces` is NULL, or points to an array of strings that end with a zero. NULL ends the
/// array. `ticket` is NULL, or points to `size` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_ask_code(
    code: *const c_char,
    interfaces: *const *const c_char,
    time_ms: u64,
    ticket: *mut c_char,
    size: usize,
) -> i64 {
    guard(-1, || {
        // SAFETY: the caller promises a string, and an array of them.
        let (code, interfaces) = unsafe { (text(code)?, texts(interfaces)?) };
        let code = code.ok_or("`code` is NULL: give the three words")?;
        let code: Code = code.parse().map_err(|error: CodeError| error.to_string())?;
        if ticket.is_null() || size == 0 {
            return Err("`ticket` has no room: the ticket needs a place".into());
        }
        let stop = Stop::new().map_err(|error| error.to_string())?;
        let interfaces = Interfaces::named(&interfaces)?;
        let got = code::ask(&code, &interfaces, or_default(time_ms, ASK_TIME), &stop)?.to_string();
        if got.len() >= size {
            return Err(Failure(format!("the ticket has {} bytes, and `size` is {size}", got.len())));
        }
        // SAFETY: the caller promises `size` bytes, and the text with its zero is no longer.
        unsafe {
            ptr::copy_nonoverlapping(got.as_ptr().cast(), ticket, got.len());
            ticket.add(got.len()).write(0);
        }
        Ok(got.len() as i64)
    })
}

fn or_default(milliseconds: u64, default: Duration) -> Duration {
    if milliseconds == 0 { default } else { Duration::from_millis(milliseconds) }
}
