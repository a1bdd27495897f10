//! The options of a group.

use std::{ffi::c_char, time::Duration};

use treecast::{
    Group, GroupBuilder, Rate,
    unstable::options::{CarouselOptions, FeedSource, FolderOptions},
};

use crate::{
    failure::Failure,
    text::{path, paths, text, texts},
};

/// The options of a group. They have the names of the command's options (`treecast send --help`). Zero and NULL are the defaults:
/// `struct treecast_group_options options = {0};`.
#[repr(C)]
pub struct treecast_group_options {
    /// The name of the network interface. NULL: the one of the route.
    pub interface: *const c_char,
    /// The number of receivers with which the session starts. 0: 1.
    pub wait: u32,
    /// The time in milliseconds after which the session fails if fewer are there. 0: a minute; a carousel waits for ever.
    pub wait_timeout_ms: u64,
    /// The rate, in bits of IP packets a second. 0: what the path to the worst receiver delivers; a carousel sends at 50 Mbit/s.
    pub rate_bps: u64,
    /// Whether packets go as fast as the slowest receiver takes them, whatever other traffic there is. rate_bps is not used.
    pub rate_max: bool,
    /// The retransmission factor of objects that have none of their own. 0: no limit.
    pub retx_factor: f64,
    /// The multicast group's address. NULL: a random one.
    pub group: *const c_char,
    /// The multicast group's UDP port. 0: a random one.
    pub port: u16,
    /// The way in which a packet reaches many hosts: multicast, unicast, mead, xcast or auto. NULL: multicast.
    pub fanout: *const c_char,
    /// Whether nothing is encrypted, and nobody proves their identity.
    pub plain: bool,
    /// The sender's key: its name (`treecast keys`) or its file. NULL: one that is made for the session.
    pub key: *const c_char,
    /// The file with the public keys of the receivers that are admitted. NULL: everybody who has the ticket.
    pub allow: *const c_char,
    /// The level, 1 to 19, at which objects are compressed by zstd. 0: not at all.
    pub compress: i32,
    /// What the session sends by itself. Zeros: what the program sends.
    pub source: treecast_source,
    /// The name under which the session is announced on the network, so that treecast_discover and standing receivers find it. An
    /// empty name is that of the first path. NULL: it is not announced.
    pub announce: *const c_char,
    /// The standing receivers that the session is for: names or keys with commas between them, or a file with one a line. An empty
    /// text: all that trust the key. The session is announced to them. NULL: people.
    pub to_standing: *const c_char,
    /// Whether treecast_group_code gives a short code, by which a receiver on the same network gets the ticket.
    pub code: bool,
    /// More options of `treecast send` by their names there: an array of texts such as "stall-limit=2m" that ends with NULL. NULL:
    /// none.
    pub options: *const *const c_char,
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
    pub session: *const c_char,
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
        // SAFETY: zeros are NULL, 0 and false.
        unsafe { std::mem::zeroed() }
    }
}

/// The number, or `None` for zero, which stands for the default.
fn some(number: u64) -> Option<u64> {
    Some(number).filter(|number| *number > 0)
}

/// Starts a group with these options.
///
/// # Errors
/// One line for the first option that cannot be used.
///
/// # Safety
/// The strings of `options` end with a zero, and the array of paths with NULL.
pub(crate) unsafe fn start(options: &treecast_group_options) -> Result<Group, Failure> {
    // SAFETY: the caller promises the strings.
    let mut builder = unsafe { with_texts(Group::builder(), options)? };
    if options.wait > 0 {
        builder = builder.wait(options.wait);
    }
    if let Some(time) = some(options.wait_timeout_ms) {
        builder = builder.wait_timeout(Duration::from_millis(time));
    }
    if options.retx_factor != 0.0 {
        builder = builder.retx_factor(options.retx_factor);
    }
    if options.port > 0 {
        builder = builder.port(options.port);
    }
    if options.compress != 0 {
        builder = builder.compress(options.compress);
    }
    if options.plain {
        builder = builder.plain();
    }
    if options.code {
        builder = builder.code();
    }
    builder = match (options.rate_max, options.rate_bps) {
        (true, _) => builder.rate(Rate::Max),
        (false, 0) => builder,
        (false, bps) => builder.rate(Rate::Bps(bps)),
    };
    // SAFETY: the caller promises the strings.
    builder = unsafe { with_source(builder, &options.source, options.wait_timeout_ms) };
    Ok(builder.start()?)
}

/// # Safety
/// The strings of `options` end with a zero.
unsafe fn with_texts(
    mut builder: GroupBuilder,
    options: &treecast_group_options,
) -> Result<GroupBuilder, Failure> {
    let named = [
        ("interface", options.interface),
        ("group", options.group),
        ("fanout", options.fanout),
        ("key", options.key),
        ("announce", options.announce),
        ("to-standing", options.to_standing),
    ];
    // SAFETY: the caller promises that these are strings.
    unsafe {
        for (name, value) in named {
            if let Some(value) = text(value)? {
                builder = builder.option(name, &value)?;
            }
        }
        if let Some(allow) = path(options.allow) {
            builder = builder.allow(allow);
        }
        for option in texts(options.options)? {
            let (name, value) = option.split_once('=').unwrap_or((&option, "true"));
            builder = builder.option(name, value)?;
        }
    }
    Ok(builder)
}

/// # Safety
/// The strings of `source` end with a zero, and the array of paths with NULL.
unsafe fn with_source(
    mut builder: GroupBuilder,
    source: &treecast_source,
    wait_timeout_ms: u64,
) -> GroupBuilder {
    // SAFETY: the caller promises that these are strings, and an array of them.
    let (sent, [feed_folder, session]) =
        unsafe { (paths(source.paths), [source.feed_folder, source.session].map(|one| path(one))) };
    builder = sent.into_iter().fold(builder, GroupBuilder::path);
    if let Some(folder) = feed_folder {
        builder = builder.feed(FeedSource::Folder(FolderOptions::new(folder)));
    }
    if source.delta {
        builder = builder.delta();
    }
    if let Some(file) = session {
        builder = builder.session(file);
    }
    // SAFETY: the caller promises NULL or options.
    if let Some(given) = unsafe { source.carousel.as_ref() } {
        let mut options = CarouselOptions::default();
        options.loops = some(given.loops);
        options.idle = some(given.idle_ms).map_or(options.idle, Duration::from_millis);
        options.wait_timeout = some(wait_timeout_ms).map(Duration::from_millis);
        builder = builder.carousel(options);
    }
    builder
}
