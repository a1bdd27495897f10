//! Standing receivers: those that stay, and take announced sessions by rules.

use std::{
    ffi::{CString, c_char, c_int, c_void},
    ptr, slice,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use treecast::unstable::{
    keys::PublicKey,
    standing::{Entry, Owner, Rule, Running, Standing},
};

use crate::{
    error::{BAD_ARGUMENT, done, guard},
    events::await_next,
    failure::Failure,
    handle::Handles,
    out::Out,
    receiver::{chooser, treecast_accept},
    text::{Texts, c_string, path, text, texts},
};

/// The largest number of rules. More are taken for a number that the program has not set.
const MOST_RULES: usize = 10_000;

/// A receiver that stays: it takes announced sessions of senders that it trusts, again and again, and keeps a history. It may be used
/// from several threads; one of them reads events.
pub struct treecast_standing {
    running: Running,
    key: CString,
    texts: Mutex<Texts>,
}

/// The standing receivers that C has pointers to.
static STANDING: Handles<treecast_standing> = Handles::new("standing receiver");

/// A rule of a standing receiver: whose sessions it takes, and what becomes of them. Its fields have the names of the configuration
/// file's (`treecast receive --standing`). `senders` and `into` are needed. Zero and NULL are the defaults of the others.
#[repr(C)]
pub struct treecast_standing_rule {
    /// The public keys of the senders that are trusted (`treecast keys show`, `sender` of treecast_announced): an array that ends with
    /// NULL.
    pub senders: *const *const c_char,
    /// A pattern of the names of sessions, such as image*. NULL: all.
    pub session: *const c_char,
    /// The folder for what comes.
    pub into: *const c_char,
    /// The owner of what comes: USER, USER:GROUP or :GROUP. NULL: the user of this process.
    pub owner: *const c_char,
    /// Whether existing files stay, and objects of their names are not fetched.
    pub keep_existing: bool,
    /// Whether names may begin with a dot at the top of the folder.
    pub hidden: bool,
    /// The largest number of objects of a session, and their largest total size in bytes. 0: no limit.
    pub max_files: u64,
    pub max_bytes: u64,
    /// The longest time that a session may take, in milliseconds. 0: no limit.
    pub max_time_ms: u64,
    /// The words of a program that runs after a session that is complete, an array that ends with NULL. {} in a word stands for the
    /// folder. NULL: no program.
    pub command: *const *const c_char,
    /// The longest time that the program may take, in milliseconds. 0: ten minutes.
    pub command_time_ms: u64,
    /// Decides which objects are wanted, in a thread of the session's. NULL: all.
    pub accept: treecast_accept,
    /// What `accept` gets. It is used until the standing receiver is freed.
    pub context: *mut c_void,
    /// The audience that a session must have: standing, named (this receiver is named by its sender) or anybody. NULL: standing.
    pub audience: *const c_char,
    /// Whether a session is ignored that began before the last one of this rule and sender.
    pub in_order: bool,
}

/// The options of a standing receiver. `state` and rules are needed. Zero and NULL are the defaults of the others.
#[repr(C)]
pub struct treecast_standing_options {
    /// The folder for the history and the key. It is made if it is missing.
    pub state: *const c_char,
    /// The receiver's key: its name (`treecast keys`) or its file. NULL: key.pem in the folder, which is made at the first start.
    pub key: *const c_char,
    /// The receiver's name at senders. NULL: the host's.
    pub name: *const c_char,
    /// The names of the interfaces to listen on: an array that ends with NULL. NULL: all that are up.
    pub interfaces: *const *const c_char,
    /// The largest number of sessions at the same time, at most 64. 0: 4.
    pub at_once: u32,
    /// The rules. The first one that takes a session counts.
    pub rules: *const treecast_standing_rule,
    /// The number of rules.
    pub rule_count: usize,
}

/// An event of a standing receiver, as the history has it. Its strings are valid until its next event is read. Those that it has not
/// are NULL.
#[repr(C)]
pub struct treecast_standing_event {
    /// The time, in seconds since 1970.
    pub at: u64,
    /// What has happened, such as started, began, received, interrupted, given_up, ignored, command_run, command_failed or warning.
    pub event: *const c_char,
    /// The session's name and number, and the public key of its sender.
    pub name: *const c_char,
    pub session: *const c_char,
    pub sender: *const c_char,
    /// The folder that the session goes to.
    pub into: *const c_char,
    /// The number of files that have come, and their size in bytes.
    pub files: u64,
    pub bytes: u64,
    /// The reason or the result, in words.
    pub text: *const c_char,
}

/// Starts a standing receiver. NULL if an option cannot be used. What it meets later is told by events, and by treecast_standing_wait.
///
/// # Safety
/// `options` is NULL, or points to options whose strings end with a zero, whose arrays of strings end with NULL, and whose `rules` are as
/// many as `rule_count` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_standing_start(
    options: *const treecast_standing_options,
) -> *mut treecast_standing {
    guard(ptr::null_mut(), || {
        // SAFETY: the caller promises NULL or options.
        let options = unsafe { options.as_ref() }.ok_or("`options` is NULL: name `state` and rules")?;
        // SAFETY: the caller promises the strings and the arrays.
        let running = unsafe { standing(options)? }.start()?;
        let key = c_string(&running.public_key().to_string());
        Ok(STANDING.add(treecast_standing { running, key, texts: Mutex::default() }))
    })
}

/// # Safety
/// That of [`treecast_standing_start`].
unsafe fn standing(options: &treecast_standing_options) -> Result<Standing, Failure> {
    if options.rule_count > 0 && options.rules.is_null() || options.rule_count > MOST_RULES {
        return Err(format!("`rules` are not {} rules", options.rule_count).into());
    }
    let rules = match options.rule_count {
        0 => &[],
        // SAFETY: the caller promises so many rules.
        count => unsafe { slice::from_raw_parts(options.rules, count) },
    };
    // SAFETY: the caller promises the strings and the arrays.
    let (state, key, name, interfaces) =
        unsafe { (path(options.state), text(options.key)?, text(options.name)?, texts(options.interfaces)?) };
    let state = state.ok_or("`state` is NULL: name a folder for the history")?;
    let mut standing = Standing::new(state, key.as_deref())?.interfaces(interfaces);
    if let Some(name) = name {
        standing = standing.name(name);
    }
    if options.at_once > 0 {
        standing = standing.at_once(options.at_once as usize);
    }
    for (number, one) in (1..).zip(rules) {
        // SAFETY: the caller promises the strings and the arrays.
        let rule = unsafe { rule(one) };
        standing = standing.rule(rule.map_err(|Failure(why)| format!("rule {number}: {why}"))?);
    }
    Ok(standing)
}

/// # Safety
/// The strings of `options` end with a zero, and its arrays with NULL.
unsafe fn rule(options: &treecast_standing_rule) -> Result<Rule, Failure> {
    // SAFETY: the caller promises the strings and the arrays.
    let (senders, session, into, owner, command, audience) = unsafe {
        (
            texts(options.senders)?,
            text(options.session)?,
            path(options.into),
            text(options.owner)?,
            texts(options.command)?,
            text(options.audience)?,
        )
    };
    if senders.is_empty() {
        return Err("`senders` is empty: name the public key of at least one sender".into());
    }
    let senders = senders.iter().map(|key| key.parse::<PublicKey>().map_err(|error| error.to_string()));
    let senders = senders.collect::<Result<Vec<_>, _>>()?;
    let into = into.ok_or("`into` is NULL: name a folder for what comes")?;
    let mut rule = Rule::new(senders, into).keep_existing(options.keep_existing).hidden(options.hidden);
    rule = rule.in_order(options.in_order);
    if let Some(pattern) = session {
        rule = rule.session_like(&pattern)?;
    }
    if let Some(audience) = audience {
        rule = rule.audience_called(&audience)?;
    }
    if let Some(owner) = owner {
        rule = rule.owner(owner.parse::<Owner>()?);
    }
    if options.max_files > 0 {
        rule = rule.max_files(options.max_files);
    }
    if options.max_bytes > 0 {
        rule = rule.max_bytes(options.max_bytes);
    }
    if options.max_time_ms > 0 {
        rule = rule.max_time(Duration::from_millis(options.max_time_ms));
    }
    if !command.is_empty() {
        rule = rule.command(command);
    }
    if options.command_time_ms > 0 {
        rule = rule.command_time(Duration::from_millis(options.command_time_ms));
    }
    if let Some(accept) = options.accept {
        rule = rule.accept(chooser(accept, options.context));
    }
    Ok(rule)
}

/// The public key of the receiver, which senders name to send to it. Valid as long as the standing receiver. NULL if `standing` is none.
#[unsafe(no_mangle)]
pub extern "C" fn treecast_standing_key(standing: *const treecast_standing) -> *const c_char {
    guard(ptr::null(), || Ok(STANDING.get(standing)?.key.as_ptr()))
}

/// Reads the next event. Waits for at most `timeout_ms` milliseconds; a negative number waits until there is one. Returns 1 if there
/// is an event, 0 if the receiver has ended and all events have been read, -1 if none came in time, and -2 if the arguments cannot be
/// used.
///
/// # Safety
/// `event` is NULL, or points to an event that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treecast_standing_next_event(
    standing: *const treecast_standing,
    event: *mut treecast_standing_event,
    timeout_ms: i64,
) -> c_int {
    guard(BAD_ARGUMENT, || {
        let (standing, event) = (STANDING.get(standing)?, Out::new(event, "event")?);
        let next = match await_next(standing.running.next_event(), timeout_ms) {
            Ok(next) => next,
            Err(none) => return Ok(none),
        };
        let mut texts = standing.texts.lock().unwrap_or_else(PoisonError::into_inner);
        texts.clear();
        // SAFETY: the caller promises that it may be written.
        unsafe { event.write(told(&next, &mut texts)) };
        Ok(1)
    })
}

fn told(entry: &Entry, texts: &mut Texts) -> treecast_standing_event {
    treecast_standing_event {
        at: entry.at,
        event: texts.keep(&entry.event.words().replace(' ', "_")),
        name: texts.keep_some(entry.name.as_deref()),
        session: texts.keep_some(entry.session.as_deref()),
        sender: texts.keep_some(entry.sender.as_deref()),
        into: entry.into.as_deref().map_or(ptr::null(), |into| texts.keep_path(into)),
        files: entry.files.unwrap_or(0),
        bytes: entry.bytes.unwrap_or(0),
        text: texts.keep_some(entry.text.as_deref()),
    }
}

/// Asks a standing receiver to end. What is under way is taken up again by the next start with the same `state`. Returns at once:
/// treecast_standing_wait waits for the end. Returns 0, or -1 if `standing` is none.
#[unsafe(no_mangle)]
pub extern "C" fn treecast_standing_stop(standing: *const treecast_standing) -> c_int {
    done(|| {
        drop(STANDING.get(standing)?.running.stop());
        Ok(())
    })
}

/// Waits until a standing receiver has ended. Returns 0, or -1 if it could not run, or this was called before, or `standing` is none.
#[unsafe(no_mangle)]
pub extern "C" fn treecast_standing_wait(standing: *const treecast_standing) -> c_int {
    done(|| Ok(STANDING.get(standing)?.running.finish().wait()?))
}

/// Frees a standing receiver. If it has not ended, stops it and waits for its end. NULL, and one that was freed before, are left alone.
#[unsafe(no_mangle)]
pub extern "C" fn treecast_standing_free(standing: *mut treecast_standing) {
    done(|| {
        if let Some(standing) = STANDING.take(standing)? {
            _ = standing.running.stop().wait();
        }
        Ok(())
    });
}
