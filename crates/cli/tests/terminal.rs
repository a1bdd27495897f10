//! Senders and receivers at a terminal: `script` makes one, and hands on what is typed.

use std::{
    fs,
    io::{Read as _, Write as _},
    process::Stdio,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use crate::session::{Guarded, Scratch, SpawnGuarded, TREECAST, finish_well, wait_until};

/// A program at a terminal.
struct Typed {
    child: Guarded,
    shown: Arc<Mutex<String>>,
}

impl Typed {
    fn start(scratch: &Scratch, line: &str) -> Self {
        // `script` starts a shell. One that stayed in between would take Ctrl-C, too, and its end would be taken for the program's.
        let mut command = std::process::Command::new("script");
        let line = format!("exec {TREECAST} {line}");
        command.args(["--quiet", "--return", "--command", &line, "/dev/null"]).current_dir(scratch.path(""));
        command.env("XDG_STATE_HOME", scratch.path("state")).env("TERM", "xterm");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn_guarded();
        let shown = Arc::<Mutex<String>>::default();
        let (mut output, theirs) = (child.stdout.take().unwrap(), Arc::clone(&shown));
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(len @ 1..) = output.read(&mut bytes) {
                theirs.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..len]));
            }
        });
        Self { child, shown }
    }

    fn shows(&self, text: &str) -> bool {
        self.shown.lock().unwrap().contains(text)
    }

    /// Types something. The program may have ended.
    fn types(&mut self, text: &str) {
        _ = self.child.stdin.as_mut().unwrap().write_all(text.as_bytes());
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

#[test]
fn a_number_and_enter_change_for_how_many_a_sender_waits() {
    let scratch = Scratch::with_file("file", 1000);
    for orders in [&["\n"][..], &["nonsense\n", "7\n", "1\n"]] {
        _ = fs::remove_file(scratch.path("ticket"));
        let mut sender = Typed::start(&scratch, "send --interface lo --wait 3 --ticket-file ticket file");
        scratch.wait_for_ticket();
        let receiver = scratch.receive("a", "");
        wait_until("it is there", || sender.shows("(1 of 3)"));
        for order in orders {
            sender.types(order);
            if *order == "7\n" {
                wait_until("it says so", || sender.shows("waits for 7 receivers now (1 there)"));
            }
        }
        finish_well(receiver);
        wait_until("the sender ends", || sender.has_ended());
        assert!(sender.child.wait().unwrap().success(), "{}", sender.shown.lock().unwrap());
        assert_eq!(sender.shows("waits for 7 receivers now"), orders.len() > 1);
        assert!(sender.shows("Enter starts now, a number waits for as many, Ctrl-C ends"));
    }
}

#[test]
fn ctrl_c_keeps_what_came_and_ctrl_c_once_more_removes_it() {
    let scratch = Scratch::with_file("file", 4_000_000);
    let sender = scratch.send("--rate 4M --block 1420 --wait 2 file");
    let other = scratch.receive("b", "");
    let mut receiver = Typed::start(&scratch, "receive --interface lo --into a @ticket");
    scratch.wait_for_part("a");
    // On a busy machine, everything might come before Ctrl-C is read.
    sender.signal(libc::SIGSTOP);
    receiver.types("\u{3}");
    wait_until("it says what is kept", || receiver.shows("Ctrl-C within 3 s removes them"));
    assert_eq!(scratch.parts("a"), 1);
    while !receiver.has_ended() {
        receiver.types("\u{3}");
        thread::sleep(Duration::from_millis(100));
    }
    assert!(
        receiver.shows("interrupted: what was not complete is removed"),
        "{}",
        receiver.shown.lock().unwrap()
    );
    assert_eq!(receiver.child.wait().unwrap().code(), Some(1));
    assert!(scratch.names("a").is_empty(), "nothing is left");
    sender.signal(libc::SIGCONT);
    finish_well(other);
    drop(sender);
    scratch.assert_file("b/file", 4_000_000);
}
