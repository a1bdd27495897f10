//! Programs that tests start. One that still runs when its test ends, or panics, is killed.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::{
    fs, io,
    ops::{Deref, DerefMut},
    os::unix::process::CommandExt,
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

const NOBODY: u32 = 65_534;

/// What `treecast` does for a user without any rights: a copy of it that anybody may start, wherever the build is.
pub fn treecast_as_nobody(arguments: &[&str]) -> Output {
    static COPIES: AtomicU32 = AtomicU32::new(0);
    let number = COPIES.fetch_add(1, Ordering::Relaxed);
    let copy = std::env::temp_dir().join(format!("treecast-nobody-{}-{number}", std::process::id()));
    fs::copy(env!("CARGO_BIN_EXE_treecast"), &copy).expect("it is there");
    let output = Command::new(&copy).args(arguments).stdin(Stdio::null()).uid(NOBODY).gid(NOBODY).output();
    let _ = fs::remove_file(&copy);
    output.expect("anybody may run it")
}

/// A child process that is killed when this is dropped.
pub struct Guarded(Option<Child>);

/// Starts processes so.
pub trait SpawnGuarded {
    /// As `spawn`, which must succeed.
    fn spawn_guarded(&mut self) -> Guarded;
}

impl SpawnGuarded for Command {
    #[track_caller]
    fn spawn_guarded(&mut self) -> Guarded {
        Guarded(Some(self.spawn().unwrap_or_else(|error| panic!("{self:?}: {error}"))))
    }
}

impl Guarded {
    /// As that of [`Child`].
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        self.0.take().expect("it is taken once").wait_with_output()
    }
}

impl Deref for Guarded {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().expect("it is taken when this is dropped")
    }
}

impl DerefMut for Guarded {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect("it is taken when this is dropped")
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended.
            _ = child.kill();
            _ = child.wait();
        }
    }
}
