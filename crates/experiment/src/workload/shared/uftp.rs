//! A transfer by uftp with its own congestion control, which is TFMCC (RFC 4654): what a session is compared with. uftp is another
//! program, which Debian has as a package.

use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    programs::UFTP,
    server::POLL,
    site::{Program, Said, Site},
};

/// The program that receives.
const RECEIVER: &str = "uftpd";

/// The port at which receivers listen for a transfer.
const PORT: u16 = 1044;

/// The time that receivers may take to listen.
const LISTENING: Duration = Duration::from_secs(10);

/// The number of routers that packets may pass.
const HOPS: &str = "32";

/// The buffer of each socket, in bytes.
const BUFFER_BYTES: &str = "16777216";

/// The unit in which the kernel counts what a file takes, in bytes.
const SECTOR_BYTES: u64 = 512;

/// A transfer of one file from a node to others.
pub struct Uftp<'a> {
    pub site: &'a dyn Site,
    /// The sending node and its interface.
    pub from: (String, String),
    /// The receiving nodes and their interfaces.
    pub to: Vec<(String, String)>,
    /// The file that is sent, at the sending node. It is larger than what can be sent in the time.
    pub file: PathBuf,
    pub origin: Instant,
    /// The place to note when the first bytes had come, counted from `origin`.
    pub begun: &'a OnceLock<Duration>,
}

/// A receiver, which runs until it is dropped, and its copy.
struct Receiving {
    program: Program,
    copy: PathBuf,
}

impl Uftp<'_> {
    /// Sends until the time is over. Returns how many bytes of the file each receiver has. What was lost counts only after it has come
    /// again, which is after the end of a file that is this large.
    pub fn run(&self, is_over: &AtomicBool) -> io::Result<Vec<u64>> {
        let receivers: Vec<Receiving> =
            self.to.iter().map(|to| self.receive(to)).collect::<io::Result<_>>()?;
        self.await_listeners(is_over)?;
        let (node, interface) = &self.from;
        let mut command = Command::new(UFTP);
        command.args(["-C", "tfmcc", "-t", HOPS, "-B", BUFFER_BYTES, "-I", interface]);
        command.arg(self.site.offer(node, &self.file)?);
        let sender = self.site.start(node, command)?;
        while !is_over.load(Ordering::Relaxed) {
            if receivers.iter().any(|receiving| bytes_of(&receiving.copy) > 0) {
                _ = self.begun.set(self.origin.elapsed());
            }
            if let Ok((_, Said::Ended(ended, last))) = sender.next(Instant::now() + POLL) {
                return Err(io::Error::other(last.unwrap_or_else(|| ended.describe())));
            }
        }
        let bytes = receivers.iter().map(|receiving| bytes_of(&receiving.copy)).collect();
        sender.handle.signal(libc::SIGKILL);
        for Receiving { program, copy } in &receivers {
            program.handle.signal(libc::SIGKILL);
            fs::remove_file(copy)?;
        }
        Ok(bytes)
    }

    fn receive(&self, (node, interface): &(String, String)) -> io::Result<Receiving> {
        let folder = self.site.folder(node, "uftp")?;
        let mut command = Command::new(RECEIVER);
        // In the foreground, with a temporary file beside each copy.
        command.args(["-d", "-q", "-B", BUFFER_BYTES, "-I", interface, "-D"]).arg(&folder);
        let copy = folder.join(self.file.file_name().unwrap_or_default());
        Ok(Receiving { program: self.site.start(node, command)?, copy })
    }

    fn await_listeners(&self, is_over: &AtomicBool) -> io::Result<()> {
        let end = Instant::now() + LISTENING;
        for (node, _) in &self.to {
            while !self.site.is_listening(node, "udp", PORT)? {
                if is_over.load(Ordering::Relaxed) || Instant::now() >= end {
                    let what = format!("{RECEIVER} does not listen at {node}");
                    return Err(io::Error::new(ErrorKind::TimedOut, what));
                }
                thread::sleep(POLL);
            }
        }
        Ok(())
    }
}

/// Bytes that have been written of a file. It has holes where something is missing.
fn bytes_of(copy: &Path) -> u64 {
    fs::metadata(copy).map_or(0, |file| file.len().min(file.blocks() * SECTOR_BYTES))
}
