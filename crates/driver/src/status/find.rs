//! Finding running sessions and asking them.

use std::{
    fs,
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use socket2::{Domain, SockAddr, Socket, Type};

use treecast_host::process;

use super::{
    Snapshot,
    answer::{OK, REFUSED, STATUS},
    folder,
};

/// The time that all of them together get to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The most bytes of an answer that are read: far more than a snapshot takes.
pub(super) const MAX_ANSWER_LEN: u64 = 4 << 20;

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
    let asked: Vec<_> = sockets.filter_map(|(pid, path)| Some((pid, ask(pid, &path, STATUS)?))).collect();
    let deadline = Instant::now() + PATIENCE;
    let answered = asked.into_iter().map(|(pid, stream)| Found {
        pid,
        snapshot: stream.and_then(|stream| snapshot(stream, deadline).ok()),
    });
    let mut found: Vec<_> = answered.collect();
    found.sort_by_key(|found| found.pid);
    found
}

/// Removes the sockets of processes that were killed. Those that run are left alone: where a thousand are started, each
/// would wake all others.
pub(super) fn remove_stale(folder: &Path) {
    sockets(folder).filter(|(pid, _)| !is_running(*pid)).for_each(|(pid, path)| _ = ask(pid, &path, STATUS));
}

/// The process ids and paths of a folder's sockets.
fn sockets(folder: &Path) -> impl Iterator<Item = (u32, PathBuf)> {
    folder::below(folder).into_iter().filter_map(|path| {
        let pid = path.file_name()?.to_str()?.strip_suffix(".sock")?.parse().ok()?;
        Some((pid, path))
    })
}

/// Gives an order to the sender with this process id: `start`, or `wait` with a number of receivers.
///
/// # Errors
/// The reason why the order was not obeyed, in words.
pub fn order(pid: u32, order: &str) -> Result<(), String> {
    let mut sockets = folder::all().into_iter().flat_map(|folder| sockets(&folder).collect::<Vec<_>>());
    let path = sockets.find(|(of, _)| *of == pid).map(|(_, path)| path);
    let stream = path.and_then(|path| ask(pid, &path, &format!("{order}\n"))).flatten();
    let stream = stream.ok_or("it does not answer: is it stopped?")?;
    let answer =
        read(stream, Instant::now() + PATIENCE).map_err(|error| format!("it does not answer: {error}"))?;
    let answer = String::from_utf8_lossy(&answer);
    match answer.strip_prefix(REFUSED) {
        Some(why) => Err(why.to_owned()),
        None if answer == OK => Ok(()),
        None => Err("it does not know orders: is it another version of treecast?".to_owned()),
    }
}

/// Connects without waiting, and sends a request; none when nobody is there, and the socket is removed if it is this user's. A process
/// whose queue is full is there and does not answer.
fn ask(pid: u32, path: &Path, request: &str) -> Option<Option<UnixStream>> {
    let connect = || -> io::Result<UnixStream> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.connect(&SockAddr::unix(path)?)?;
        socket.set_nonblocking(false)?;
        let mut stream = UnixStream::from(socket);
        // An answer may be there all the same.
        _ = stream.write_all(request.as_bytes());
        Ok(stream)
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

fn snapshot(stream: UnixStream, deadline: Instant) -> io::Result<Snapshot> {
    Ok(serde_json::from_slice(&read(stream, deadline)?)?)
}

/// Reads an answer to its end.
fn read(mut stream: UnixStream, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    let mut part = [0; 65_536];
    loop {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part)? {
            0 => return Ok(answer),
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
