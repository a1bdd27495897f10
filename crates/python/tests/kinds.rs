//! Sessions that send by themselves, in C and Python, with receivers in C, Python and Rust: carousels, updates by difference,
//! sessions that go on after a restart, and feeds that are stopped.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{self, Child, ChildStdout},
    sync::Once,
    thread,
    time::Duration,
};

use treecast::{Answer, Group, Rate, Receiver};

use crate::{
    files::{noise, scratch},
    languages::{Program, compiled, here, package, python},
};

const LEN: usize = 4_000_000;

/// Ends all tests of this file if one hangs: they take seconds.
fn watch() {
    const LIMIT: Duration = Duration::from_secs(600);
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        thread::spawn(|| {
            thread::sleep(LIMIT);
            eprintln!("the tests hang");
            process::exit(1);
        });
    });
}

/// The program of this name in C and in Python.
fn programs(name: &str, folder: &Path) -> [Program; 2] {
    watch();
    let source = here().join("tests/kinds").join(name);
    let c = compiled(&source.with_extension("c"), folder);
    [
        Program { label: "c".into(), command: vec![c], package: None },
        Program {
            label: "python".into(),
            command: vec![python(), source.with_extension("py")],
            package: Some(package(folder)),
        },
    ]
}

/// A sender that runs.
struct Sending {
    label: String,
    child: Child,
    output: BufReader<ChildStdout>,
    ticket: String,
}

impl Sending {
    fn start(program: &Program, kind: &str, path: &Path, state: &Path) -> Self {
        let mut child = program.start(&[kind, path.to_str().unwrap(), state.to_str().unwrap()]);
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut sending = Self { label: program.label.clone(), child, output, ticket: String::new() };
        sending.ticket = sending.line();
        sending
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Ends the sender's input, so that it stops.
    fn stop(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Waits for the end. Returns what the sender has said since its ticket.
    fn end(mut self) -> String {
        let mut said = String::new();
        self.output.read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success(), "{}: {said}", self.label);
        said
    }
}

/// Receivers in C and Python that run, and one in Rust.
struct Receiving {
    programs: Vec<(String, Child)>,
    rust: Receiver,
    folders: [PathBuf; 3],
}

impl Receiving {
    fn start(receivers: &[Program], folder: &Path, ticket: &str, old: &Path) -> Self {
        let folders = ["c", "python", "rust"].map(|label| folder.join(label));
        folders.iter().for_each(|into| fs::create_dir(into).unwrap());
        let start = |(program, into): (&Program, &PathBuf)| {
            let arguments = [into.to_str().unwrap(), ticket, old.to_str().unwrap()];
            (program.label.clone(), program.start(&arguments))
        };
        let programs = receivers.iter().zip(&folders).map(start).collect();
        let rust = Receiver::builder(ticket.parse().unwrap()).interface("lo").folder(&folders[2]).old(old);
        let rust = rust.reconnect(Duration::from_secs(60)).accept(|offer| match offer.name() {
            name if name.starts_with("radar/") => Answer::TakeAs("archive/radar".into()),
            name => (!name.ends_with(".tmp")).into(),
        });
        let rust = rust.join().unwrap();
        Self { programs, rust, folders }
    }

    /// Waits for the ends of all, which have this file then.
    fn expect(self, name: &str, content: &[u8]) {
        let report = self.rust.finish().wait().unwrap();
        assert!(report.is_complete(), "{report:?}");
        for (label, mut child) in self.programs {
            let mut said = String::new();
            child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
            assert!(child.wait().unwrap().success(), "{label}: {said}");
        }
        for folder in self.folders {
            assert!(fs::read(folder.join(name)).unwrap() == content, "{}", folder.display());
        }
    }
}

/// What a sender says last: the bytes that it has sent, and whether it was stopped.
fn sent(said: &str) -> (usize, bool) {
    let words: Vec<&str> = said.lines().last().unwrap_or_default().split(' ').collect();
    match words[..] {
        ["sent", bytes, "stopped", stopped] => (bytes.parse().unwrap(), stopped == "1"),
        _ => panic!("{said}"),
    }
}

#[test]
fn carousels_reach_receivers_in_all_languages() {
    let folder = scratch("kinds");
    let receivers = programs("receive", folder.path());
    let (image, content) = (folder.path().join("image"), noise(300_000, 1));
    fs::write(&image, &content).unwrap();
    for sender in programs("send", folder.path()) {
        let into = scratch("kinds");
        let sending = Sending::start(&sender, "carousel", &image, Path::new(""));
        let receiving = Receiving::start(&receivers, into.path(), &sending.ticket, into.path());
        receiving.expect("image", &content);
        let (bytes, is_stopped) = sent(&sending.end());
        assert!(bytes > content.len() && !is_stopped, "{}: {bytes} bytes", sender.label);
    }
}

#[test]
fn updates_by_difference_send_what_differs_to_all_languages() {
    let folder = scratch("kinds");
    let receivers = programs("receive", folder.path());
    let (image, old, mut content) = (folder.path().join("image"), folder.path().join("old"), noise(LEN, 2));
    fs::write(&old, &content).unwrap();
    content[LEN / 2..LEN / 2 + 10_000].copy_from_slice(&noise(10_000, 7));
    fs::write(&image, &content).unwrap();
    for sender in programs("send", folder.path()) {
        let into = scratch("kinds");
        let mut sending = Sending::start(&sender, "delta", &image, Path::new(""));
        let receiving = Receiving::start(&receivers, into.path(), &sending.ticket, &old);
        assert_eq!(sending.line(), "done image -1 at 3", "{}", sender.label);
        receiving.expect("image", &content);
        let (bytes, is_stopped) = sent(&sending.end());
        assert!(bytes < 500_000 && !is_stopped, "{}: {bytes} bytes", sender.label);
    }
}

/// A sender is stopped in the middle. Another one, in another language, goes on with its session file.
#[test]
fn a_session_goes_on_in_another_language() {
    let folder = scratch("kinds");
    let receivers = programs("receive", folder.path());
    let (image, state, content) = (folder.path().join("image"), folder.path().join("state"), noise(LEN, 4));
    fs::write(&image, &content).unwrap();
    let [c, python] = programs("send", folder.path());
    let mut first = Sending::start(&c, "session", &image, &state);
    let ticket = first.ticket.clone();
    let receiving = Receiving::start(&receivers, folder.path(), &ticket, folder.path());
    while receiving.rust.progress().bytes == 0 {
        thread::sleep(Duration::from_millis(10));
    }
    first.stop();
    assert!(sent(&first.end()).1);
    let second = Sending::start(&python, "session", &image, &state);
    assert_eq!(second.ticket, ticket);
    receiving.expect("image", &content);
    assert!(!sent(&second.end()).1);
}

/// Receivers are asked about each of its objects, and refuse one, and give another one a new name.
#[test]
fn a_feed_that_is_stopped_ends_in_order_at_all_receivers() {
    let folder = scratch("kinds");
    let receivers = programs("receive", folder.path());
    for sender in programs("send", folder.path()) {
        let into = scratch("kinds");
        let feed = into.path().join("feed");
        fs::create_dir_all(feed.join("radar")).unwrap();
        let mut sending = Sending::start(&sender, "feed", &feed, Path::new(""));
        let receiving = Receiving::start(&receivers, into.path(), &sending.ticket, into.path());
        let content = noise(100_000, 5);
        for name in ["draft.tmp", "radar/7", "product"] {
            fs::write(into.path().join("product"), &content).unwrap();
            fs::rename(into.path().join("product"), feed.join(name)).unwrap();
            assert!(sending.line().starts_with(&format!("done {name}")), "{}", sender.label);
        }
        sending.stop();
        let folders = receiving.folders.clone();
        receiving.expect("product", &content);
        for folder in folders {
            assert!(fs::read(folder.join("archive/radar")).unwrap() == content, "{}", folder.display());
            assert!(!folder.join("draft.tmp").exists() && !folder.join("radar").exists());
        }
        sent(&sending.end());
    }
}

/// Rust sends, and C and Python receive.
#[test]
fn a_carousel_by_difference_of_rust_reaches_c_and_python() {
    let folder = scratch("kinds");
    let receivers = programs("receive", folder.path());
    let (image, content) = (folder.path().join("image"), noise(LEN, 6));
    let old = folder.path().join("old");
    fs::write(&image, &content).unwrap();
    fs::write(&old, &content[..LEN - 1000]).unwrap();
    let options = treecast::unstable::options::CarouselOptions::default();
    let builder = Group::builder().interface("lo").path(&image).carousel(options).delta();
    let group = builder.rate(Rate::Bps(200_000_000)).start().unwrap();
    let ticket = group.ticket().to_string();
    Receiving::start(&receivers, folder.path(), &ticket, &old).expect("image", &content);
    group.stop().wait().unwrap();
}
