//! The keeper holds the kernel's multicast routing sockets open while no daemon runs, so that a restart loses no
//! packet.
//!
//! A kernel forgets interfaces and entries when the last descriptor of such a socket is closed. So a small process, the
//! keeper, holds both from when a daemon is ready. It hands them to the next daemon (SCM_RIGHTS), and ends when none has
//! come in time. It also does so after SIGKILL. A keeper that is asked to end (SIGTERM) ends: a service manager that
//! stops all processes of a service means this one, too. So systemd, which can hold descriptors itself, is given them
//! as well (sd_notify(3), FDSTORE), and gives them back to the next daemon (sd_listen_fds(3)).
//!
//! Any user of the host can take the keeper's name. Nobody here waits for such a process or takes descriptors from it: the
//! daemon runs without a keeper then, and says whose process is in the way.

use std::{
    env,
    ffi::OsString,
    io::{self, ErrorKind, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream},
    },
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use treecast_host::{poller::Poller, process, signals, unix, user};

use super::Error;

/// The abstract name at which a keeper waits for the next daemon; each network namespace has its own (unix(7)).
const NAME: &str = "treecast-mroute-keeper";

/// The names under which systemd holds the sockets.
const STORED_NAMES: [(&str, Family); 2] =
    [("treecast-mroute-ipv6", Family::Ipv6), ("treecast-mroute-ipv4", Family::Ipv4)];

/// The time for a step between two processes of one host: longer than any takes.
const PATIENCE: Duration = Duration::from_secs(2);

const READY: u8 = b'r';
const DISMISSED: u8 = b'q';

const DAEMON: u64 = 0;
const LISTENER: u64 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Ipv6 = b'6' as isize,
    Ipv4 = b'4' as isize,
}

/// The sockets of a daemon that has ended.
#[derive(Debug, Default)]
pub struct Sockets {
    pub ipv6: Option<OwnedFd>,
    pub ipv4: Option<OwnedFd>,
}

impl Sockets {
    /// Takes over the sockets that were kept for this network namespace's next daemon, if there are any.
    pub fn take_over() -> Self {
        let stored = Self::of_service_manager();
        // Nobody keeps anything, or does so for a daemon that still runs. A keeper is to end in any case.
        let kept = Self::of_keeper().unwrap_or_default();
        if stored.ipv4.is_some() || stored.ipv6.is_some() { stored } else { kept }
    }

    fn of_service_manager() -> Self {
        let mut sockets = Self::default();
        for (name, descriptor) in unix::passed_descriptors() {
            if let Some((_, family)) = STORED_NAMES.iter().find(|(stored, _)| *stored == name) {
                *sockets.place(*family) = Some(descriptor);
            }
        }
        sockets
    }

    fn of_keeper() -> io::Result<Self> {
        let mut stream = unix::connect_at_once(NAME)?;
        if !is_trusted(&stream) {
            return Err(ErrorKind::PermissionDenied.into());
        }
        stream.set_read_timeout(Some(PATIENCE))?;
        let (families, descriptors) = unix::receive_descriptors(&stream)?;
        let mut sockets = Self::default();
        for (family, descriptor) in families.into_iter().zip(descriptors) {
            let family = if family == Family::Ipv6 as u8 { Family::Ipv6 } else { Family::Ipv4 };
            *sockets.place(family) = Some(descriptor);
        }
        // The keeper ends, and its name is free for the next one.
        let _ = stream.read(&mut [0]);
        Ok(sockets)
    }

    fn place(&mut self, family: Family) -> &mut Option<OwnedFd> {
        match family {
            Family::Ipv6 => &mut self.ipv6,
            Family::Ipv4 => &mut self.ipv4,
        }
    }
}

/// Whether the process at the other end may hand descriptors over, and get them: one of this user, or of root.
fn is_trusted(stream: &UnixStream) -> bool {
    unix::peer(stream).is_ok_and(|peer| [0, user::effective()].contains(&peer.user))
}

/// Returns a description of another user's process that has taken the keeper's name. None: there is no such
/// process, or it does not accept connections.
pub fn squatter() -> Option<String> {
    let stream = unix::connect_at_once(NAME).ok()?;
    let peer = unix::peer(&stream).ok()?;
    (!is_trusted(&stream))
        .then(|| format!("process {} of user {} has taken @{NAME}", peer.process, peer.user))
}

/// The daemon's connection to a running keeper.
#[derive(Debug)]
pub struct Keeper {
    process: Child,
    stream: UnixStream,
}

impl Keeper {
    /// Runs `command`, which is to call [`keep`], and gives it these sockets.
    pub fn start(command: &[OsString], sockets: &[(Family, BorrowedFd<'_>)]) -> io::Result<Self> {
        let (program, arguments) = command.split_first().ok_or(ErrorKind::InvalidInput)?;
        let (stream, other) = UnixStream::pair()?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(OwnedFd::from(other)).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn()?;
        let families: Vec<u8> = sockets.iter().map(|(family, _)| *family as u8).collect();
        let descriptors: Vec<_> = sockets.iter().map(|(_, descriptor)| *descriptor).collect();
        unix::send_descriptors(&stream, &families, &descriptors)?;
        stream.set_nonblocking(true)?;
        Ok(Self { process, stream })
    }

    /// Reads whether the keeper has said that it is ready. None: it has ended.
    pub fn is_there(&mut self) -> Option<bool> {
        let mut said = [0];
        match self.stream.read(&mut said) {
            Ok(1) => Some(said == [READY]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Some(false)
            }
            Ok(_) | Err(_) => {
                let _ = self.process.wait();
                None
            }
        }
    }

    /// Ends the keeper at once, because no other daemon is to come.
    pub fn dismiss(mut self) {
        // It may have ended.
        let _ = self.stream.write_all(&[DISMISSED]);
        let _ = self.process.wait();
    }
}

impl AsFd for Keeper {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Gives the sockets to systemd to hold, where it runs this daemon. Returns whether it does; it does not say whether it
/// has taken them.
pub fn store(sockets: &[(Family, BorrowedFd<'_>)]) -> bool {
    let store = || {
        let socket = service_manager()?;
        for (family, descriptor) in sockets {
            let name = STORED_NAMES.iter().find(|(_, of)| of == family).map_or("", |(name, _)| *name);
            let message = format!("FDSTORE=1\nFDNAME={name}\nFDPOLL=0");
            unix::send_descriptors(&socket, message.as_bytes(), &[*descriptor])?;
        }
        io::Result::Ok(())
    };
    store().is_ok()
}

/// Makes systemd forget the sockets, because they no longer route.
pub fn forget() {
    let Ok(socket) = service_manager() else { return };
    for (name, _) in STORED_NAMES {
        // Where it does not listen, it ends with this service.
        let _ = socket.send(format!("FDSTOREREMOVE=1\nFDNAME={name}").as_bytes());
    }
}

/// A socket to systemd, where it runs this daemon. Nothing waits for it.
fn service_manager() -> io::Result<UnixDatagram> {
    let place = env::var_os("NOTIFY_SOCKET").ok_or(ErrorKind::NotFound)?;
    let place = place.to_string_lossy();
    let address = match place.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(&*place)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect_addr(&address)?;
    Ok(socket)
}

/// Runs the keeper: holds the sockets that come by standard input until the other end has been closed for
/// `time`, or another daemon has taken them.
///
/// # Errors
/// If it cannot keep them, or a daemon did not start it.
pub fn keep(time: Duration) -> Result<(), Error> {
    let failed = || Error::system("cannot keep multicast routing for the next daemon");
    // Whoever interrupts the daemon in a terminal does not mean this process: the daemon does.
    process::leave_terminal();
    signals::keep_none_back();
    let input = io::stdin().as_fd().try_clone_to_owned().map_err(failed())?;
    let mut daemon = UnixStream::from(input);
    let (families, descriptors) = unix::receive_descriptors(&daemon).map_err(failed())?;
    let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    let listener = listen().map_err(failed())?;
    // A daemon that has gone does not mind.
    let _ = daemon.write_all(&[READY]);
    if !is_needed(&mut daemon, &listener).map_err(failed())? {
        return Ok(());
    }
    hand_over(&listener, time, &families, &descriptors).map_err(failed())
}

/// Waits until the daemon has gone. Returns whether another may come.
fn is_needed(daemon: &mut UnixStream, listener: &UnixListener) -> io::Result<bool> {
    let mut poll = Poller::new()?;
    poll.watch(daemon, DAEMON)?;
    poll.watch(listener, LISTENER)?;
    loop {
        if poll.tokens(None)?.contains(&DAEMON) {
            let mut said = [0];
            // An error is the end, too: it went with something unread.
            return Ok(daemon.read(&mut said).unwrap_or(0) == 0 || said != [DISMISSED]);
        }
        // The daemon still runs: whoever asks gets nothing.
        drop(listener.accept());
    }
}

/// Gives the sockets to the first daemon of this user that asks within `time`.
fn hand_over(
    listener: &UnixListener,
    time: Duration,
    families: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let deadline = Instant::now() + time;
    let mut poll = Poller::new()?;
    poll.watch(listener, LISTENER)?;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        if poll.tokens(Some(left))?.is_empty() {
            continue;
        }
        let Ok((stream, _)) = listener.accept() else { continue };
        if is_trusted(&stream) && unix::send_descriptors(&stream, families, descriptors).is_ok() {
            return Ok(());
        }
    }
}

/// Takes the name. The keeper of an earlier daemon may still be about to end; another user's process is not waited for.
fn listen() -> io::Result<UnixListener> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let bound = SocketAddr::from_abstract_name(NAME).and_then(|name| UnixListener::bind_addr(&name));
        match bound {
            Err(error)
                if error.kind() == ErrorKind::AddrInUse
                    && squatter().is_none()
                    && Instant::now() < deadline =>
            {
                thread::sleep(Duration::from_millis(10));
            }
            Err(error) => return Err(error),
            Ok(listener) => {
                listener.set_nonblocking(true)?;
                return Ok(listener);
            }
        }
    }
}
