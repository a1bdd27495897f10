//! Somebody who may rename things in a folder exchanges them while it is sent. Nothing outside the folder is read, written or
//! removed, and no device or pipe is opened.
//!
//! `TREECAST_EXCHANGES=10000` makes so many exchanges in place of a few hundred.

use std::{
    ffi::CString,
    fs,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::symlink},
    },
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::session::{Guarded, Scratch, finish, start, wait_until};

/// What is in every file outside the folder, and in none of those in it.
const SECRET: &str = "nobody is to have this";

/// The number of exchanges of one test.
fn exchanges() -> usize {
    std::env::var("TREECAST_EXCHANGES").map_or(300, |number| number.parse().expect("a number of exchanges"))
}

/// The kernel's word on whether anything is opened, read, written or removed.
struct Watch {
    events: OwnedFd,
    /// The paths that are watched, by the numbers that the kernel gives them from 1 on.
    paths: Vec<PathBuf>,
}

impl Watch {
    fn new(paths: &[PathBuf]) -> Self {
        // SAFETY: the call takes flags alone, and the descriptor is nobody else's.
        let watch =
            unsafe { OwnedFd::from_raw_fd(libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC)) };
        let events = libc::IN_OPEN
            | libc::IN_ACCESS
            | libc::IN_MODIFY
            | libc::IN_CLOSE
            | libc::IN_CREATE
            | libc::IN_DELETE
            | libc::IN_DELETE_SELF;
        for path in paths {
            let path = CString::new(path.as_os_str().as_bytes()).unwrap();
            // SAFETY: the path ends in a zero byte.
            assert!(unsafe { libc::inotify_add_watch(watch.as_raw_fd(), path.as_ptr(), events) } > 0);
        }
        Self { events: watch, paths: paths.to_vec() }
    }

    /// What has happened: the path that was watched, and the kind of event (inotify(7)).
    fn happened(&self) -> Vec<String> {
        const HEAD: usize = 16;
        let mut buffer = [0_u8; 4096];
        // SAFETY: the buffer is as long as is said.
        let read = unsafe { libc::read(self.events.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
        let mut rest = &buffer[..usize::try_from(read).unwrap_or(0)];
        let mut happened = Vec::new();
        while let Some((head, behind)) = rest.split_at_checked(HEAD) {
            let word = |at: usize| u32::from_ne_bytes(head[at..at + 4].try_into().unwrap());
            let path = &self.paths[word(0) as usize - 1];
            happened.push(format!("{}: {:#x}", path.display(), word(4)));
            rest = &behind[word(12) as usize..];
        }
        happened
    }
}

/// Exchanges two names in one step.
fn exchange(one: &Path, other: &Path) -> bool {
    let name = |path: &Path| CString::new(path.as_os_str().as_bytes()).unwrap();
    let (one, other) = (name(one), name(other));
    // SAFETY: both paths end in a zero byte.
    let done = unsafe {
        libc::renameat2(libc::AT_FDCWD, one.as_ptr(), libc::AT_FDCWD, other.as_ptr(), libc::RENAME_EXCHANGE)
    };
    done == 0
}

/// A folder to send, what must not be touched, and things to exchange.
struct Stage {
    scratch: Scratch,
    watch: Watch,
}

/// What the places in the folder are exchanged for.
const BAIT: [&str; 7] = ["folder", "file", "sub-folder", "pipe", "device", "real-folder", "real-file"];

impl Stage {
    fn new() -> Self {
        let scratch = Scratch::new();
        for folder in ["outside/sub", "bait/real-folder/sub"] {
            fs::create_dir_all(scratch.path(folder)).unwrap();
        }
        for name in ["a", "b", "deep", "sub/a", "sub/b", ".treecast-feed"] {
            fs::write(scratch.path("outside").join(name), SECRET).unwrap();
        }
        for name in ["real-folder/a", "real-folder/sub/b", "real-file"] {
            fs::write(scratch.path("bait").join(name), "another").unwrap();
        }
        let bait = |name: &str| scratch.path("bait").join(name);
        symlink(scratch.path("outside"), bait("folder")).unwrap();
        symlink(scratch.path("outside/sub"), bait("sub-folder")).unwrap();
        symlink(scratch.path("outside/a"), bait("file")).unwrap();
        assert!(Command::new("mkfifo").arg(bait("pipe")).status().unwrap().success());
        // /dev/full: writing to it would fail, and reading it would never end.
        let made = Command::new("mknod").arg(bait("device")).args(["c", "1", "7"]).status();
        assert!(made.unwrap().success(), "only root makes devices");
        let outside = ["", "a", "b", "deep", "sub", "sub/a", "sub/b", ".treecast-feed"];
        let mut watched: Vec<_> = outside.map(|name| scratch.path("outside").join(name)).into();
        watched.extend([bait("pipe"), bait("device")]);
        let stage = Self { watch: Watch::new(&watched), scratch };
        stage.fill();
        stage
    }

    /// Puts files into the folder, in place of those that were sent and removed.
    fn fill(&self) {
        fill(&self.scratch.path("in"));
    }

    /// Makes `count` exchanges, in a thread of its own.
    fn attack(&self, count: usize) -> Attack {
        let (folder, bait) = (self.scratch.path("in"), self.scratch.path("bait"));
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let thread = thread::spawn(move || {
            let places = ["x", "y", "x/a", "y/sub", "y/sub/b", "a", ".treecast-feed", ".treecast-feed.new"];
            let mut made = 0;
            for round in 0..count * 100 {
                if made >= count {
                    break;
                }
                let (place, bait) =
                    (folder.join(places[round % places.len()]), bait.join(BAIT[round / 3 % BAIT.len()]));
                if is_below(&folder, &place) && exchange(&place, &bait) {
                    made += 1;
                    thread::sleep(Duration::from_micros(500 + (round % 7 * 300) as u64));
                    // What was exchanged is soon back, unless the sender has removed it.
                    made += usize::from(is_below(&folder, &place) && exchange(&place, &bait));
                }
                // The state of a feed as a link to a file elsewhere.
                if round % 5 == 0 {
                    _ = symlink("../outside/b", folder.join(".treecast-feed.new"));
                }
                if round % 9 == 0 {
                    fill(&folder);
                }
            }
            over.store(true, Ordering::Relaxed);
            made
        });
        Attack { is_over, thread }
    }

    /// Checks that nothing outside was touched, and that no receiver has anything of it.
    fn check(&self, phase: &str) {
        let happened = self.watch.happened();
        assert!(happened.is_empty(), "{phase}: opened, written or removed outside: {happened:?}");
        for name in ["a", "b", "deep", "sub/a", "sub/b", ".treecast-feed"] {
            let path = self.scratch.path("outside").join(name);
            assert!(
                path.symlink_metadata().is_ok_and(|status| status.len() == SECRET.len() as u64),
                "{name}"
            );
        }
        let got = ["got"].map(|name| self.scratch.path(name));
        let found = Command::new("grep").args(["-rlF", SECRET]).args(got).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&found.stdout), "", "{phase}: a receiver has it");
        _ = fs::remove_dir_all(self.scratch.path("got"));
    }
}

/// An attack that goes on.
struct Attack {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
}

impl Attack {
    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    /// Waits for its end. Returns how many exchanges were made.
    fn finish(self) -> usize {
        self.thread.join().unwrap()
    }
}

/// Writes files where none are. Nothing that the attack has put there is written to.
fn fill(folder: &Path) {
    for name in ["x/a", "x/deep", "y/sub/a", "y/sub/b", "a", "b"] {
        let path = folder.join(name);
        if is_below(folder, &path) {
            _ = fs::create_dir_all(path.parent().unwrap());
            // Exclusively, so that no exchanged link or pipe is opened.
            let new = fs::File::options().write(true).create_new(true).open(&path);
            _ = new.and_then(|mut new| std::io::Write::write_all(&mut new, b"in the folder"));
        }
    }
}

/// Whether no link is on the way from the folder to what is at this path. The attack alone changes that.
fn is_below(folder: &Path, path: &Path) -> bool {
    let around = path.ancestors().skip(1).take_while(|around| *around != folder);
    around.into_iter().all(|around| !around.is_symlink())
}

/// Starts a sender of the folder. Returns it when its ticket is there, or it has ended.
fn begin(stage: &Stage, args: &str) -> Guarded {
    _ = fs::remove_file(stage.scratch.path("ticket"));
    let mut sender =
        start(&mut stage.scratch.command(format!("{args} --interface lo --ticket-file ticket in")));
    wait_until("there is a ticket, or the sender has refused", || {
        has_ticket(stage) || sender.try_wait().unwrap().is_some()
    });
    sender
}

fn has_ticket(stage: &Stage) -> bool {
    stage.scratch.path("ticket").exists()
}

#[test]
fn exchanges_during_a_walk_lead_nowhere() {
    let stage = Stage::new();
    let attack = stage.attack(exchanges());
    let mut sessions = 0;
    while attack.goes_on() {
        let sender = begin(&stage, "send --wait-timeout 20");
        if has_ticket(&stage) {
            finish(stage.scratch.receive("got", "--reconnect 1"));
        }
        finish(sender);
        sessions += 1;
    }
    println!("{} exchanges, {sessions} sessions", attack.finish());
    stage.check("send");
}

#[test]
fn exchanges_while_a_session_is_resumed_lead_nowhere() {
    let stage = Stage::new();
    // It is large enough to be sent for a while.
    stage.scratch.file("in/x/large", 3_000_000);
    let attack = stage.attack(exchanges());
    let mut sessions = 0;
    while attack.goes_on() {
        _ = fs::remove_file(stage.scratch.path("session"));
        let args = "send --wait-timeout 20 --session session --rate 60M --block 1420";
        let mut sender = begin(&stage, args);
        if has_ticket(&stage) {
            let mut receiver = stage.scratch.receive("got", "--reconnect 2");
            wait_until("some of it has come", || {
                !stage.scratch.names("got").is_empty()
                    || receiver.try_wait().unwrap().is_some()
                    || sender.try_wait().unwrap().is_some()
            });
            _ = sender.kill();
            finish(sender);
            // It reads everything again, unless it refuses what has changed.
            let mut again = begin(&stage, args);
            finish(receiver);
            if again.try_wait().unwrap().is_none() {
                again.signal(libc::SIGTERM);
            }
            finish(again);
        } else {
            finish(sender);
        }
        sessions += 1;
    }
    println!("{} exchanges, {sessions} sessions", attack.finish());
    stage.check("resume");
}

#[test]
fn exchanges_while_a_folder_is_fed_lead_nowhere() {
    let stage = Stage::new();
    for args in ["--remove", ""] {
        let attack = stage.attack(exchanges() / 2);
        let mut runs = 0;
        while attack.goes_on() {
            // It refuses a state file that is a link.
            let feed = begin(&stage, &format!("feed {args}"));
            if has_ticket(&stage) {
                let receiver = stage.scratch.receive("got", "--reconnect 1");
                let started = std::time::Instant::now();
                let is_over = || !attack.goes_on() || started.elapsed() > Duration::from_secs(8);
                wait_until("the attack is over, or a feed has run for a while", is_over);
                feed.signal(libc::SIGTERM);
                finish(feed);
                finish(receiver);
            } else {
                finish(feed);
            }
            runs += 1;
        }
        println!("{} exchanges, {runs} feeds {args}", attack.finish());
        stage.check("feed");
    }
}
