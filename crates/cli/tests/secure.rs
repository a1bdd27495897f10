//! Sessions are secure unless asked otherwise: who is admitted, who is not, and what both sides say.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use crate::session::{
    Guarded, Scratch, SpawnGuarded, contents, events, finish, finish_well, path, refused, start, treecast,
    wait_until,
};
use serde_json::Value;
use treecast_wire::ticket::Ticket;

const SIZE: usize = 300_000;

/// Makes a key file, and returns its path and public half.
fn key(scratch: &Scratch, name: &str) -> (String, String) {
    let mut command = treecast();
    command.env("XDG_CONFIG_HOME", scratch.path("config")).args(["keys", "new", name]);
    let text = finish_well(start(&mut command));
    let file = scratch.path("config/treecast/keys").join(name).with_extension("pem");
    (path(&file).to_owned(), text.split(' ').next().unwrap().to_owned())
}

/// A receiver with another ticket than the sender's.
fn receive_with(scratch: &Scratch, ticket: &Ticket, into: &str, args: &[&str]) -> Command {
    let mut command = scratch.receive_command(into);
    command.args(args).arg(ticket.to_string());
    command
}

fn event(events: &[Value], name: &str) -> Value {
    events.iter().find(|event| event["event"] == name).unwrap_or_else(|| panic!("{events:?}")).clone()
}

fn end(mut sender: Guarded) -> String {
    sender.kill().unwrap();
    finish(sender).1
}

#[test]
fn keys_are_told_at_both_ends() {
    let scratch = Scratch::new();
    let file = scratch.file("file", SIZE);
    let (sender_key, sender_public) = key(&scratch, "sender");
    let (anna, anna_public) = key(&scratch, "anna");
    let sender = scratch.send(&["--json", "--key", &sender_key, path(&file)]);
    let ticket = scratch.ticket();
    let receiver = scratch.receive("a", &["--secure", "--name", "anna", "--key", &anna]);
    finish_well(receiver);
    let told = events(&finish_well(sender));
    assert_eq!(event(&told, "joined")["key"], anna_public.as_str());
    assert_eq!(event(&told, "done")["receivers"][0]["key"], anna_public.as_str());
    assert!(fs::read(scratch.path("a/file")).unwrap() == contents(SIZE));
    let public: treecast_driver::security::PublicKey = sender_public.parse().unwrap();
    assert_eq!(ticket.security.unwrap().sender_key, public.to_bytes());
}

#[test]
fn a_plain_session_says_so() {
    let scratch = Scratch::new();
    let file = scratch.file("file", SIZE);
    let sender = scratch.send(&["--plain", path(&file)]);
    assert!(scratch.ticket().security.is_none());
    refused(
        &mut receive_with(&scratch, &scratch.ticket(), "a", &["--secure"]),
        &["plain session", "--secure"],
    );
    let told = finish_well(scratch.receive("a", &[]));
    assert!(
        told.contains("the session is plain") && told.contains("--secure refuses such tickets"),
        "{told}"
    );
    finish_well(sender);
}

#[test]
fn nobody_else_can_answer_for_the_sender() {
    let scratch = Scratch::new();
    let file = scratch.file("file", SIZE);
    let sender = scratch.send(&["--json", "--wait", "2", path(&file)]);
    let right = scratch.ticket();
    let (_, other) = key(&scratch, "other");
    let other: treecast_driver::security::PublicKey = other.parse().unwrap();
    let mut wrong = right.clone();
    wrong.security.as_mut().unwrap().sender_key = other.to_bytes();
    let words = ["has another key than the ticket says", &other.to_string(), "ask for the ticket anew"];
    refused(&mut receive_with(&scratch, &wrong, "a", &[]), &words);
    // Guessed: the session and the address are right, and no key is known.
    let guessed = Ticket { security: None, ..right.clone() };
    refused(
        &mut receive_with(&scratch, &guessed, "a", &[]),
        &["cannot trust", "speaks TLS", "the ticket is that of a plain session"],
    );
    let told = events(&end(sender));
    let reasons: Vec<_> = told
        .iter()
        .filter(|event| event["event"] == "refused")
        .map(|event| event["reason"].to_string())
        .collect();
    assert!(reasons.iter().any(|reason| reason.contains("its ticket names another key")), "{reasons:?}");
    assert!(reasons.iter().any(|reason| reason.contains("does not speak TLS")), "{reasons:?}");
    assert!(!scratch.path("a/file").exists());
}

#[test]
fn a_session_of_another_ticket_is_refused() {
    let scratch = Scratch::new();
    let file = scratch.file("file", SIZE);
    let sender = scratch.send(&["--wait", "2", path(&file)]);
    let mut other = scratch.ticket();
    other.session.0 ^= 1;
    refused(
        &mut receive_with(&scratch, &other, "a", &[]),
        &["did not admit", "ticket is that of another session: ask whoever sends for the ticket of"],
    );
    end(sender);
}

#[test]
fn the_allow_list_is_kept() {
    let scratch = Scratch::new();
    let file = scratch.file("file", SIZE);
    let ((anna, anna_public), (bert, bert_public)) = (key(&scratch, "anna"), key(&scratch, "bert"));
    let list = scratch.path("list");
    fs::write(&list, format!("# who\n{anna_public} Anna at the desk\n")).unwrap();
    let sender = scratch.send(&["--json", "--allow", path(&list), path(&file)]);
    let ticket = scratch.ticket();
    for (args, remedy) in [
        (&["--key", bert.as_str()][..], "ask whoever sends to add this key"),
        (&[], "make one with `treecast keys new`"),
    ] {
        let words = ["did not admit this receiver", "not on the sender's allow list", remedy];
        refused(&mut receive_with(&scratch, &ticket, "a", args), &words);
        let told = receive_with(&scratch, &ticket, "a", args).arg("--json").output().unwrap().stdout;
        assert!(!String::from_utf8_lossy(&told).contains("joined"), "it was not admitted");
    }
    finish_well(scratch.receive("a", &["--key", &anna]));
    let told = events(&finish_well(sender));
    let refused = event(&told, "refused")["reason"].to_string();
    assert!(refused.contains(&bert_public) && refused.contains("allow list"), "{refused}");
    assert_eq!(event(&told, "joined")["receiver"], "Anna at the desk");
}

#[test]
fn two_receivers_with_one_key_are_told_apart() {
    let scratch = Scratch::new();
    let file = scratch.file("file", SIZE);
    let (anna, public) = key(&scratch, "anna");
    let list = scratch.path("list");
    fs::write(&list, &public).unwrap();
    let sender = scratch.send(&["--json", "--wait", "2", "--allow", path(&list), path(&file)]);
    let ticket = scratch.ticket();
    let log = scratch.path("log");
    let first = |name: &str| {
        let mut command = receive_with(&scratch, &ticket, "a", &["--json", "--key", &anna, "--name", name]);
        command.stdout(fs::File::create(&log).unwrap()).spawn_guarded()
    };
    let joined = || fs::read_to_string(&log).is_ok_and(|text| text.contains("\"joined\""));
    let one = first("anna");
    wait_until("the first has joined", joined);
    let words =
        ["did not admit", "a receiver with its key is there already, called anna", "treecast keys new"];
    refused(&mut receive_with(&scratch, &ticket, "b", &["--key", &anna, "--name", "bert"]), &words);
    // The same name: it has come back.
    let again = start(&mut receive_with(&scratch, &ticket, "b", &["--key", &anna, "--name", "anna"]));
    let (code, _) = finish(one);
    assert_eq!(code, Some(1));
    end(again);
    let told = events(&end(sender));
    let left = event(&told, "left");
    assert!(left["reason"].to_string().contains("it has come again"), "{left}");

    let sender = scratch.send_anew(&["--json", "--wait", "2", path(&file)]);
    let receivers = ["one", "two"].map(|name| scratch.receive(name, &["--key", &anna, "--name", name]));
    receivers.into_iter().for_each(|receiver| drop(finish_well(receiver)));
    let told = events(&finish_well(sender));
    assert!(event(&told, "warning")["text"].to_string().contains("same key"), "{told:?}");
}

#[test]
fn an_expired_ticket_is_refused_by_the_senders_clock_alone() {
    let scratch = Scratch::new();
    let file = scratch.file("file", SIZE);
    let sender = scratch.send(&["--wait", "2", "--expires", "5s", path(&file)]);
    let real = scratch.ticket();
    // A receiver whose clock is an hour ahead of the ticket's end is admitted all the same.
    let early = Ticket { expires: std::num::NonZeroU64::new(1000), ..real.clone() };
    let log = scratch.path("log");
    let mut first = receive_with(&scratch, &early, "a", &["--json"]);
    let first = first.stdout(fs::File::create(&log).unwrap()).spawn_guarded();
    wait_until("it has joined", || fs::read_to_string(&log).is_ok_and(|text| text.contains("\"joined\"")));
    std::thread::sleep(std::time::Duration::from_secs(6));
    let words =
        ["did not admit", "the ticket expired", "by the sender's clock", "ask whoever sends for a new"];
    refused(&mut receive_with(&scratch, &real, "b", &[]), &words);
    // A receiver whose clock is an hour behind sees that much left.
    let later = real.expires.unwrap().checked_add(3600);
    let slow = Ticket { expires: later, ..real.clone() };
    let words = ["by the sender's clock", "by this host's clock it has 59 minutes left"];
    refused(&mut receive_with(&scratch, &slow, "b", &[]), &words);
    end(first);
    end(sender);
    let words = ["cannot reach", "the ticket expired", "ago"];
    refused(&mut receive_with(&scratch, &early, "b", &["--connect-timeout", "0"]), &words);
}

#[test]
fn bad_keys_and_lists_are_one_line() {
    let scratch = Scratch::new();
    let file = scratch.file("file", SIZE);
    let (anna, public) = key(&scratch, "anna");
    let send = |args: &[&str]| {
        let mut command = treecast();
        command.args(["send", "--interface", "lo", "--wait-timeout", "1"]).args(args).arg(&file);
        command
    };
    let list = scratch.path("list");
    let wrong = format!("{public}\nanna\n");
    let twice = format!("{public}\n{public}\n");
    for (text, words) in [
        ("# nobody\n", ["names nobody", "treecast keys show"]),
        (&wrong, ["list:2", "tck1."]),
        (&twice, ["list:2", "line 1 already"]),
    ] {
        fs::write(&list, text).unwrap();
        refused(&mut send(&["--allow", path(&list)]), &words);
    }
    fs::set_permissions(&anna, fs::Permissions::from_mode(0o640)).unwrap();
    refused(&mut send(&["--key", &anna]), &["others than its owner", "0640", "chmod 600"]);
    let ticket = scratch.path("ticket");
    fs::write(&ticket, "treecast2.AAAA").unwrap();
    let mut receive = scratch.receive_command("a");
    refused(receive.args(["--key", &anna]).arg(format!("@{}", path(&ticket))), &["cut short"]);
}
