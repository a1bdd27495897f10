//! Finding running sessions and asking them.

use std::{
    fs,
    io::{self, Read},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use socket2::{Domain, SockAddr, Socket, Type};

use treecast_host::process;

use super::{Snapshot, folder};

/// How long all of them together get to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Far more than a snapshot takes.
const MAX_ANSWER_LEN: u64 = 4 << 20;

/// A session that runs.
#[derive(Debug)]
pub struct Found {
    pub pid: u32,
    /// The state of the session; none when its process does not answer.
    pub snapshot: Option<Snapshot>,
}

/// Asks every session of this user, as root of every user, in the order of their process ids.
pub fn find() -> Vec<Found> {
    find_in(&folder::all())
}

pub(super) fn find_in(folders: &[PathBuf]) -> Vec<Found> {
    let sockets = folders.iter().flat_map(|folder| sockets(folder));
    let asked: Vec<_> = sockets.filter_map(|(pid, path)| Some((pid, ask(pid, &path)?))).collect();
    let deadline = Instant::now() + PATIENCE;
    let answered = asked
        .into_iter()
        .map(|(pid, stream)| Found { pid, snapshot: stream.and_then(|stream| read(stream, deadline).ok()) });
    let mut found: Vec<_> = answered.collect();
    found.sort_by_key(|found| found.pid);
    found
}

/// Removes the sockets of processes that were killed. Those that run are left alone: where a thousand are started, each
/// would wake all others.
pub(super) fn remove_stale(folder: &Path) {
    sockets(folder).filter(|(pid, _)| !is_running(*pid)).for_each(|(pid, path)| _ = ask(pid, &path));
}

/// The process ids and paths of a folder's sockets.
fn sockets(folder: &Path) -> impl Iterator<Item = (u32, PathBuf)> {
    folder::below(folder).into_iter().filter_map(|path| {
        let pid = path.file_name()?.to_str()?.strip_suffix(".sock")?.parse().ok()?;
        Some((pid, path))
    })
}

/// Connects without waiting; none when nobody is there, and the socket is removed if it is this user's. A process
/// whose queue is full is there and does not answer.
fn ask(pid: u32, path: &Path) -> Option<Option<UnixStream>> {
    let connect = || -> io::Result<UnixStream> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.connect(&SockAddr::unix(path)?)?;
        socket.set_nonblocking(false)?;
        Ok(socket.into())
    };
    match connect() {
        Ok(stream) => Some(Some(stream)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Some(None),
        Err(error) => {
            let is_refused = error.kind() == io::ErrorKind::ConnectionRefused;
            if is_refused && !is_running(pid) && path.parent().is_some_and(folder::is_own) {
                // Another may have been quicker.
                _ = fs::remove_file(path);
            }
            None
        }
    }
}

fn read(mut stream: UnixStream, deadline: Instant) -> io::Result<Snapshot> {
    let mut answer = Vec::new();
    let mut part = [0; 65_536];
    loop {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part)? {
            0 => return Ok(serde_json::from_slice(&answer)?),
            count => answer.extend_from_slice(&part[..count]),
        }
        // Where somebody else has used up the time, an answer that is there already is read all the same.
        if answer.len() as u64 > MAX_ANSWER_LEN || Instant::now() >= deadline + PATIENCE {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

/// Whether a process is there that may answer soon. What this one finds under its own number is a killed one's: in a
/// container, each may have the same.
fn is_running(pid: u32) -> bool {
    pid != std::process::id() && i32::try_from(pid).is_ok_and(process::is_there)
}
