//! Sessions are secure unless asked otherwise: who is admitted, who is not, and what both sides say.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use crate::{
    child::Teller,
    session::{Guarded, Scratch, all_well, assert_says, events, finish, finish_well, last_event, refused},
};
use serde_json::Value;
use treecast_driver::security::PublicKey;
use treecast_wire::ticket::Ticket;

const SIZE: usize = 300_000;

/// A folder with a file.
fn scratch() -> Scratch {
    Scratch::with_file("file", SIZE)
}

/// Makes a key file of this name, and returns its public half.
fn key(scratch: &Scratch, name: &str) -> String {
    scratch.run(["keys", "new", &format!("./{name}.pem")]).split(' ').next().unwrap().to_owned()
}

/// A receiver with another ticket than the sender's.
fn receive_with(scratch: &Scratch, ticket: &Ticket, into: &str, args: &str) -> Command {
    scratch.receive_command(into, format!("{args} {ticket}"))
}

fn end(mut sender: Guarded) -> String {
    sender.kill().unwrap();
    finish(sender).1
}

#[test]
fn keys_are_told_at_both_ends() {
    let scratch = scratch();
    let [sender_public, anna_public] = ["sender", "anna"].map(|name| key(&scratch, name));
    let sender = scratch.send("--json --key ./sender.pem file");
    let ticket = scratch.ticket();
    finish_well(scratch.receive("a", "--secure --name anna --key ./anna.pem"));
    let told = finish_well(sender);
    assert_eq!(last_event(&told, "joined")["key"], anna_public.as_str());
    assert_eq!(last_event(&told, "done")["receivers"][0]["key"], anna_public.as_str());
    scratch.assert_file("a/file", SIZE);
    let public: PublicKey = sender_public.parse().unwrap();
    assert_eq!(ticket.security.unwrap().sender_key, public.to_bytes());
}

#[test]
fn a_plain_session_says_so() {
    let scratch = scratch();
    let sender = scratch.send("--plain file");
    assert!(scratch.ticket().security.is_none());
    refused(&mut scratch.receive_command("a", "--secure @ticket"), &["plain session", "--secure"]);
    let told = finish_well(scratch.receive("a", ""));
    assert_says(&told, &["the session is plain", "--secure refuses such tickets"]);
    finish_well(sender);
}

#[test]
fn nobody_else_can_answer_for_the_sender() {
    let scratch = scratch();
    let sender = scratch.send("--json --wait 2 file");
    let right = scratch.ticket();
    let other: PublicKey = key(&scratch, "other").parse().unwrap();
    let mut wrong = right.clone();
    wrong.security.as_mut().unwrap().sender_key = other.to_bytes();
    let words = ["has another key than the ticket says", &other.to_string(), "ask for the ticket anew"];
    refused(&mut receive_with(&scratch, &wrong, "a", ""), &words);
    // Guessed: the session and the address are right, and no key is known.
    let guessed = Ticket { security: None, ..right.clone() };
    let words = ["cannot trust", "speaks TLS", "the ticket is that of a plain session"];
    refused(&mut receive_with(&scratch, &guessed, "a", ""), &words);
    let told = events(&end(sender)).into_iter().filter(|event| event["event"] == "refused");
    let reasons: String = told.map(|event| event["reason"].to_string()).collect();
    assert_says(&reasons, &["its ticket names another key", "does not speak TLS"]);
    assert!(!scratch.path("a/file").exists());
}

#[test]
fn a_session_of_another_ticket_is_refused() {
    let scratch = scratch();
    let _sender = scratch.send("--wait 2 file");
    let mut other = scratch.ticket();
    other.session.0 ^= 1;
    let words = ["did not admit", "ticket is that of another session: ask whoever sends for the ticket of"];
    refused(&mut receive_with(&scratch, &other, "a", ""), &words);
}

#[test]
fn the_allow_list_is_kept() {
    let scratch = scratch();
    let [anna_public, bert_public] = ["anna", "bert"].map(|name| key(&scratch, name));
    fs::write(scratch.path("list"), format!("# who\n{anna_public} Anna at the desk\n")).unwrap();
    let sender = scratch.send("--json --allow list file");
    for (args, remedy) in
        [("--key ./bert.pem", "ask whoever sends to add this key"), ("", "make one with `treecast keys new`")]
    {
        let words = ["did not admit this receiver", "not on the sender's allow list", remedy];
        refused(&mut scratch.receive_command("a", format!("{args} @ticket")), &words);
        let told = finish(scratch.receive("a", format!("{args} --json"))).1;
        assert!(!told.contains("joined"), "it was not admitted: {told}");
    }
    finish_well(scratch.receive("a", "--key ./anna.pem"));
    let told = finish_well(sender);
    let refused = events(&told).into_iter().find(|event| event["event"] == "refused").unwrap();
    assert_says(&refused["reason"].to_string(), &[&bert_public, "allow list"]);
    assert_eq!(last_event(&told, "joined")["receiver"], "Anna at the desk");
}

#[test]
fn two_receivers_with_one_key_are_told_apart() {
    let scratch = scratch();
    fs::write(scratch.path("list"), key(&scratch, "anna")).unwrap();
    let sender = scratch.send("--json --wait 2 --allow list file");
    let anna = "--key ./anna.pem --name anna";
    let mut one = Teller::start(&mut scratch.receive_command("a", format!("--json {anna} @ticket")));
    one.next("joined");
    let words =
        ["did not admit", "a receiver with its key is there already, called anna", "treecast keys new"];
    refused(&mut scratch.receive_command("b", "--key ./anna.pem --name bert @ticket"), &words);
    // The same name: it has come back.
    let _again = scratch.receive("b", anna);
    assert_eq!(one.wait(), Some(1));
    let left = last_event(&end(sender), "left");
    assert!(left["reason"].to_string().contains("it has come again"), "{left}");

    let sender = scratch.send_anew("--json --wait 2 file");
    all_well(["one", "two"].map(|name| scratch.receive(name, format!("--key ./anna.pem --name {name}"))));
    let warning = last_event(&finish_well(sender), "warning");
    assert!(Value::to_string(&warning["text"]).contains("same key"), "{warning}");
}

#[test]
fn an_expired_ticket_is_refused_by_the_senders_clock_alone() {
    let scratch = scratch();
    let sender = scratch.send("--wait 2 --expires 5s file");
    let real = scratch.ticket();
    // A receiver whose clock is an hour ahead of the ticket's end is admitted all the same.
    let early = Ticket { expires: std::num::NonZeroU64::new(1000), ..real.clone() };
    let mut first = Teller::start(&mut receive_with(&scratch, &early, "a", "--json"));
    first.next("joined");
    std::thread::sleep(std::time::Duration::from_secs(6));
    let refuse = |ticket: &Ticket, args: &str, words: &[&str]| {
        refused(&mut receive_with(&scratch, ticket, "b", args), words);
    };
    let words =
        ["did not admit", "the ticket expired", "by the sender's clock", "ask whoever sends for a new"];
    refuse(&real, "", &words);
    // A receiver whose clock is an hour behind sees that much left.
    let slow = Ticket { expires: real.expires.unwrap().checked_add(3600), ..real.clone() };
    refuse(&slow, "", &["by the sender's clock", "by this host's clock it has 59 minutes left"]);
    drop((first, sender));
    refuse(&early, "--connect-timeout 0", &["cannot reach", "the ticket expired", "ago"]);
}

#[test]
fn bad_keys_and_lists_are_one_line() {
    let scratch = scratch();
    let public = key(&scratch, "anna");
    let send = |args: &str, words: &[&str]| {
        scratch.refuses(format!("send --interface lo --wait-timeout 1 {args} file"), words);
    };
    let (wrong, twice) = (format!("{public}\nanna\n"), format!("{public}\n{public}\n"));
    for (text, words) in [
        ("# nobody\n", ["names nobody", "treecast keys show"]),
        (&wrong, ["list:2", "tck1."]),
        (&twice, ["list:2", "line 1 already"]),
    ] {
        fs::write(scratch.path("list"), text).unwrap();
        send("--allow list", &words);
    }
    fs::set_permissions(scratch.path("anna.pem"), fs::Permissions::from_mode(0o640)).unwrap();
    send("--key ./anna.pem", &["others than its owner", "0640", "chmod 600"]);
    fs::write(scratch.path("ticket"), "treecast2.AAAA").unwrap();
    refused(&mut scratch.receive_command("a", "--key ./anna.pem @ticket"), &["cut short"]);
}
