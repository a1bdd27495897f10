//! The socket that a running session answers on.

use std::{
    fs, io,
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::{Path, PathBuf},
};

use super::{Board, answer::Answerer, find, folder};

/// Answers on this process' socket; the socket goes when this is dropped.
#[derive(Debug)]
pub struct StatusServer {
    _answerer: Answerer,
    path: PathBuf,
}

/// Answers whoever connects with the board's snapshot, as JSON.
///
/// # Errors
/// One line, when the socket cannot be made. The session can go on without it.
pub fn serve(board: &Board) -> Result<StatusServer, String> {
    let folder = folder::own();
    serve_in(&folder, board).map_err(|error| {
        format!("`treecast status` will not show this session: no socket in {} ({error})", folder.display())
    })
}

fn serve_in(folder: &Path, board: &Board) -> io::Result<StatusServer> {
    folder::prepare(folder)?;
    find::remove_stale(folder);
    let path = folder.join(format!("{}.sock", std::process::id()));
    let listener = UnixListener::bind(&path)?;
    // The folder may be one that others can read: as root, labs are in it, too.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    let mut text = board.clone().render(|snapshot| serde_json::to_vec(snapshot).unwrap_or_default().into());
    let answerer = Answerer::start(listener, Box::new(move |_: &[u8]| Some(text())))?;
    Ok(StatusServer { _answerer: answerer, path })
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
        let server = serve_in(&folder, &board).unwrap();
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
}
