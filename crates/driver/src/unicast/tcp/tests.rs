use std::{fs, path::PathBuf, thread::JoinHandle};

use super::*;
use crate::scratch::{Scratch, scratch};

const CONTENT: &[u8] = b"the file's content, of which not all comes";

const QUICK: Patience =
    Patience { attempts: 2, retry_delay: Duration::from_millis(10), timeout: Duration::from_millis(150) };

/// The behaviour of a server on one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Serving {
    Right,
    Nothing,
    ClosesInHeader,
    ClosesEarly,
    Stalls,
    TooMuch,
    /// The excess comes when the client has all that was announced.
    TooMuchLater,
    WrongContent,
    /// The client's folder is gone before the file is whole.
    FolderGone,
}

struct Folder(Scratch);

impl Folder {
    fn new(test: &str) -> Self {
        Self(scratch(&format!("tcp-{test}")))
    }

    fn copy(&self) -> PathBuf {
        self.0.join("copy")
    }

    fn is_empty(&self) -> bool {
        fs::read_dir(&self.0).map_or(true, |mut entries| entries.next().is_none())
    }
}

/// Starts a server that treats each connection as listed, and then is gone.
fn server(servings: &[Serving], folder: &Folder) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let (servings, folder) = (servings.to_vec(), folder.0.to_path_buf());
    let work = move || {
        for serving in servings {
            let (stream, _) = listener.accept().expect("a client comes");
            serve_once(stream, serving, &folder);
        }
    };
    (address, thread::spawn(work))
}

fn serve_once(mut stream: TcpStream, serving: Serving, folder: &Path) {
    let file_size = CONTENT.len() as u64;
    let header = FileHeader { file_size, hash: *blake3::hash(CONTENT).as_bytes() }.to_bytes();
    let wrong = CONTENT.to_ascii_uppercase();
    let sent = match serving {
        Serving::Nothing => Vec::new(),
        Serving::ClosesInHeader => header[..20].to_vec(),
        Serving::ClosesEarly | Serving::Stalls => [&header, &CONTENT[..9]].concat(),
        Serving::TooMuch => [&header, CONTENT, b"more"].concat(),
        Serving::WrongContent => [&header[..], &wrong].concat(),
        Serving::Right | Serving::TooMuchLater => [&header, CONTENT].concat(),
        Serving::FolderGone => header.to_vec(),
    };
    stream.write_all(&sent).expect("the client reads");
    if serving == Serving::FolderGone {
        thread::sleep(Duration::from_millis(50));
        fs::remove_dir_all(folder).expect("the folder is removed");
        let _ = stream.write_all(CONTENT);
    }
    if serving == Serving::TooMuchLater {
        thread::sleep(Duration::from_millis(50));
        // A client that does not look for more has closed by now.
        let _ = stream.write_all(b"more");
    }
    if [Serving::Nothing, Serving::Stalls].contains(&serving) {
        // Until the client closes.
        let _ = stream.read(&mut [0]);
    }
}

fn fetch_from(address: SocketAddr, folder: &Folder) -> Result<ClientProgress, String> {
    let stop = Stop::new().expect("a descriptor is left");
    fetch_with(QUICK, &folder.copy(), address, &stop, |_| {}).map_err(|error| error.to_string())
}

#[test]
fn what_goes_wrong_once_is_tried_again() {
    use Serving::{ClosesEarly, ClosesInHeader, Nothing, Right, Stalls, TooMuch, TooMuchLater, WrongContent};
    for bad in [Nothing, ClosesInHeader, ClosesEarly, Stalls, TooMuch, TooMuchLater, WrongContent] {
        let folder = Folder::new("again");
        let (address, work) = server(&[bad, Right], &folder);
        let progress = fetch_from(address, &folder).unwrap_or_else(|error| panic!("{bad:?}: {error}"));
        work.join().expect("the server has served");
        assert_eq!((progress.requests, progress.received_bytes), (2, CONTENT.len() as u64), "{bad:?}");
        assert_eq!(fs::read(folder.copy()).expect("the copy is there"), CONTENT, "{bad:?}");
    }
}

#[test]
fn what_goes_wrong_each_time_is_given_up_and_leaves_nothing() {
    let last = ", at the last of 2 attempts";
    for (bad, why) in [
        (Serving::Nothing, "the server has been silent for 0.15 s"),
        (Serving::ClosesInHeader, "the server has closed the connection too early"),
        (Serving::ClosesEarly, "the server has closed the connection too early"),
        (Serving::Stalls, "the server has been silent for 0.15 s"),
        (Serving::TooMuch, TOO_MUCH),
        (Serving::TooMuchLater, TOO_MUCH),
        (Serving::WrongContent, "the file's hash is wrong"),
    ] {
        let folder = Folder::new("given-up");
        let (address, work) = server(&[bad, bad], &folder);
        let error = fetch_from(address, &folder).expect_err("no attempt brings the file");
        work.join().expect("the server has served");
        assert!(error.contains(&format!("{why}{last}")), "{bad:?}: {error}");
        assert!(folder.is_empty(), "{bad:?}");
    }
    let folder = Folder::new("absent");
    let (address, work) = server(&[], &folder);
    work.join().expect("the server is gone");
    let error = fetch_from(address, &folder).expect_err("nobody serves");
    assert!(error.contains("refused") && error.contains(last), "{error}");
}

#[test]
fn a_commit_that_fails_is_a_failure_at_the_first_attempt() {
    let folder = Folder::new("gone");
    let (address, work) = server(&[Serving::FolderGone], &folder);
    let error = fetch_from(address, &folder).expect_err("there is no folder");
    work.join().expect("the server has served");
    assert!(!error.contains("attempts"), "{error}");
}

#[test]
fn clients_are_served_in_turn_and_those_that_are_too_many_are_turned_away() {
    let folder = Folder::new("turns");
    let path = folder.0.join("file");
    fs::write(&path, CONTENT).expect("a file is written");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let stop = Stop::new().expect("a descriptor is left");
    let (events, told) = mpsc::channel();
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            let places = Places { active: 1, waiting: 1 };
            serve_at(&path, &listener, places, &stop, &mut |event| events.send(event).expect("heard"))
        });
        let next = || told.recv_timeout(Duration::from_secs(10)).expect("it tells");
        assert!(matches!(next(), ServerEvent::Ready { .. }));
        let connect = || TcpStream::connect(address).expect("it listens");
        let mut first = connect();
        let (first_from, second) = (first.local_addr().expect("connected"), connect());
        let (second_from, mut third) = (second.local_addr().expect("connected"), connect());
        let third_from = third.local_addr().expect("connected");
        assert_eq!(next(), ServerEvent::Active { client: first_from });
        let reason = "too many clients are waiting".to_owned();
        assert_eq!(next(), ServerEvent::Failed { client: third_from, reason });
        assert_eq!(third.read(&mut [0]).expect("it is closed"), 0);
        let mut whole = vec![0; FileHeader::LEN + CONTENT.len()];
        first.read_exact(&mut whole).expect("it is served");
        assert_eq!(&whole[FileHeader::LEN..], CONTENT);
        drop(first);
        assert_eq!(next(), ServerEvent::Served { client: first_from });
        assert_eq!(next(), ServerEvent::Active { client: second_from });
        stop.request();
        let summary = server.join().expect("it ends").expect("without an error");
        assert_eq!(summary, ServerSummary { served: 1, failed: 1 });
    });
}
