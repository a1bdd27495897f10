//! Kinds of sessions that the command has, too: updates by difference, and carousels.

use std::{
    fs,
    path::Path,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use treecast::{
    ErrorKind, Group, GroupBuilder, GroupEvent, Rate, Receiver, Ticket,
    unstable::{
        Stop,
        options::CarouselOptions,
        watch::{ReceiveEvent, SendEvent, SendSummary},
    },
};

use crate::files::{noise, scratch};

const LEN: usize = 4_000_000;

/// Writes a file, and an older version of it into a receiver's folder. Returns the file's bytes.
fn versions(folder: &Path) -> Vec<u8> {
    let mut image = noise(LEN, 1);
    fs::create_dir(folder.join("into")).unwrap();
    fs::write(folder.join("into/image"), &image).unwrap();
    image[LEN / 2..LEN / 2 + 10_000].copy_from_slice(&noise(10_000, 2));
    fs::write(folder.join("image"), &image).unwrap();
    image
}

/// Runs a session in a thread. Returns its ticket, and what gives its result.
fn run(builder: GroupBuilder) -> (Ticket, thread::JoinHandle<SendSummary>) {
    let (tell, ready) = mpsc::channel();
    let session = thread::spawn(move || {
        let mut on_event = |event: &SendEvent| {
            if let SendEvent::Ready { ticket } = event {
                tell.send(Ticket::from(ticket.clone())).unwrap();
            }
        };
        builder.run(&Stop::new().unwrap(), &mut on_event).unwrap()
    });
    (ready.recv_timeout(Duration::from_secs(60)).unwrap(), session)
}

#[test]
fn a_receiver_with_an_older_version_fetches_what_differs() {
    let scratch = scratch("delta");
    let image = versions(scratch.path());
    let builder = Group::builder().interface("lo").rate(Rate::Max).path(scratch.path().join("image")).delta();
    let (ticket, session) = run(builder);
    let mut copied = 0;
    let receiver = Receiver::builder(ticket).interface("lo").folder(scratch.path().join("into"));
    let receiver = receiver.old(scratch.path().join("into"));
    let summary = receiver.run(&Stop::new().unwrap(), &mut |event| {
        if let ReceiveEvent::OlderVersion { bytes, .. } = event {
            copied = *bytes;
        }
    });
    let (received, sent) = (summary.unwrap(), session.join().unwrap());
    assert!(received.is_complete() && sent.is_complete(), "{received:?} {sent:?}");
    assert!(copied > 3_500_000, "{copied} bytes are in the older version");
    assert!(sent.progress.sent_bytes < 500_000, "{} bytes went out", sent.progress.sent_bytes);
    assert!(fs::read(scratch.path().join("into/image")).unwrap() == image);
}

#[test]
fn a_group_that_sends_by_difference_takes_no_other_objects() {
    let scratch = scratch("paths");
    let image = versions(scratch.path());
    let group = Group::builder().interface("lo").path(scratch.path().join("image")).delta().start().unwrap();
    assert_eq!(group.send_bytes("late", "x").unwrap_err().kind(), ErrorKind::Closed);
    let receiver = Receiver::builder(group.ticket().clone()).interface("lo");
    let receiver = receiver.folder(scratch.path().join("into")).join().unwrap();
    assert!(group.close().wait().unwrap().is_complete());
    let done = group.events().find_map(|event| match event {
        GroupEvent::PathDone { name, complete, .. } => Some((name, complete)),
        _ => None,
    });
    assert_eq!(done, Some(("image".to_owned(), 1)));
    assert!(receiver.finish().wait().unwrap().is_complete());
    assert!(fs::read(scratch.path().join("into/image")).unwrap() == image);
}

/// The kernel reports no listeners on this interface, but lists them.
#[test]
fn a_carousel_on_the_loopback_interface_ends_when_its_listeners_are_gone() {
    let scratch = scratch("gone");
    let image = noise(300_000, 3);
    fs::write(scratch.path().join("image"), &image).unwrap();
    let mut options = CarouselOptions::default();
    options.idle = Duration::from_millis(300);
    let builder = Group::builder().interface("lo").carousel(options).rate(Rate::Bps(50_000_000));
    let (ticket, session) = run(builder.path(scratch.path().join("image")));
    let receiver = Receiver::builder(ticket).interface("lo").folder(scratch.path().join("into"));
    assert!(receiver.join().unwrap().finish().wait().unwrap().is_complete());
    let gone = Instant::now();
    while !session.is_finished() {
        assert!(gone.elapsed() < Duration::from_secs(30), "it goes on");
        thread::sleep(Duration::from_millis(10));
    }
    let summary = session.join().unwrap();
    assert!(summary.progress.sent_bytes > 0 && !summary.interrupted);
    assert!(fs::read(scratch.path().join("into/image")).unwrap() == image);
}
