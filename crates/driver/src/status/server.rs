//! The socket that a running session answers on.
//!
//! A request is a line: `status` for the snapshot as JSON, and for a sender that waits for receivers `start`, or `wait` with their
//! number. An order is answered by `ok`, or `refused` and the reason.

use std::{
    fs, io,
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::{Path, PathBuf},
};

use super::{
    Board, Phase, Snapshot,
    answer::{Answerer, OK, REFUSED, STATUS},
    find, folder,
};
use crate::send::Starter;

/// Answers on this process' socket; the socket goes when this is dropped.
#[derive(Debug)]
pub struct StatusServer {
    _answerer: Answerer,
    path: PathBuf,
}

/// Answers everybody that asks for the board's snapshot, and hands orders to the session. `starter` takes the orders.
/// `None`: nobody does.
///
/// # Errors
/// One line, when the socket cannot be made. The session can go on without it.
pub fn serve(board: &Board, starter: Option<Starter>) -> Result<StatusServer, String> {
    let folder = folder::own();
    serve_in(&folder, board, starter).map_err(|error| {
        format!("`treecast status` will not show this session: no socket in {} ({error})", folder.display())
    })
}

fn serve_in(folder: &Path, board: &Board, starter: Option<Starter>) -> io::Result<StatusServer> {
    folder::prepare(folder)?;
    find::remove_stale(folder);
    let path = folder.join(format!("{}.sock", std::process::id()));
    let listener = UnixListener::bind(&path)?;
    // The folder may be one that others can read: as root, labs are in it, too.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    let mut text = board.clone().render(|snapshot| serde_json::to_vec(snapshot).unwrap_or_default().into());
    let board = board.clone();
    let answer = move |request: &[u8]| {
        let line = request.strip_suffix(b"\n")?;
        if line == STATUS.trim_end().as_bytes() {
            return Some(text());
        }
        let answer = match carry_out(line, &board.read().1, starter.as_ref()) {
            Ok(()) => OK.to_owned(),
            Err(why) => format!("{REFUSED}{why}"),
        };
        Some(answer.into_bytes().into())
    };
    Ok(StatusServer { _answerer: Answerer::start(listener, Box::new(answer))?, path })
}

/// Hands an order to the session.
///
/// # Errors
/// The reason why the session cannot obey, in words.
fn carry_out(line: &[u8], snapshot: &Snapshot, starter: Option<&Starter>) -> Result<(), &'static str> {
    let line = str::from_utf8(line).unwrap_or_default();
    let number = line.strip_prefix("wait ").and_then(|number| number.parse::<u32>().ok());
    let starter = starter.ok_or("it does not wait for a number of receivers")?;
    match (line, number.filter(|number| *number > 0)) {
        ("start", _) | (_, Some(_)) if snapshot.phase != Phase::Waiting => Err("it has started already"),
        ("start", _) => {
            starter.start_now();
            Ok(())
        }
        (_, Some(number)) => {
            starter.wait_for(number);
            Ok(())
        }
        _ => Err("it does not know this order: is it another version of treecast?"),
    }
}

impl Drop for StatusServer {
    fn drop(&mut self) {
        // Somebody may have taken it away.
        _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Snapshot, *};

    #[test]
    fn a_session_is_found_while_it_is_there_and_stale_sockets_are_removed() {
        let folder = std::env::temp_dir().join(format!("treecast-server-{}", std::process::id()));
        let board = Board::new(Snapshot { session: "7".into(), ..Snapshot::default() });
        // A killed process may have had this one's number.
        folder::prepare(&folder).unwrap();
        drop(UnixListener::bind(folder.join(format!("{}.sock", std::process::id()))).unwrap());
        let server = serve_in(&folder, &board, None).unwrap();
        // No process has such a number: it is above the kernel's limit.
        let stale = folder.join("2000000000.sock");
        drop(UnixListener::bind(&stale).unwrap());
        fs::write(folder.join("other"), "").unwrap();
        // One that runs is left alone.
        let other = UnixListener::bind(folder.join("1.sock")).unwrap();
        other.set_nonblocking(true).unwrap();
        find::remove_stale(&folder);
        assert!(other.accept().is_err() && !stale.exists());
        fs::remove_file(folder.join("1.sock")).unwrap();
        drop(UnixListener::bind(&stale).unwrap());
        board.update(|snapshot| snapshot.repair = "nack".into());
        let found = find::find_in(std::slice::from_ref(&folder));
        let shown: Vec<_> = found.iter().map(|found| found.snapshot.clone().unwrap()).collect();
        assert_eq!(shown, [Snapshot { session: "7".into(), repair: "nack".into(), ..Snapshot::default() }]);
        assert!(!stale.exists() && folder.join("other").exists());
        drop(server);
        assert!(find::find_in(std::slice::from_ref(&folder)).is_empty());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn orders_go_to_a_sender_that_waits_and_to_nobody_else() {
        let starter = Starter::new().unwrap();
        let mut snapshot = Snapshot::default();
        let carry_out =
            |line: &str, snapshot: &Snapshot, starter| carry_out(line.as_bytes(), snapshot, starter);
        assert_eq!(carry_out("wait 7", &snapshot, Some(&starter)), Ok(()));
        assert_eq!(carry_out("start", &snapshot, Some(&starter)), Ok(()));
        for unknown in ["", "wait", "wait 0", "wait -1", "wait x", "stop"] {
            assert!(
                carry_out(unknown, &snapshot, Some(&starter)).unwrap_err().contains("order"),
                "{unknown}"
            );
        }
        assert!(carry_out("start", &snapshot, None).unwrap_err().contains("number of receivers"));
        snapshot.phase = Phase::Running;
        for late in ["start", "wait 7"] {
            assert_eq!(carry_out(late, &snapshot, Some(&starter)), Err("it has started already"));
        }
    }
}
