//! Feeds: what is forgotten, and what is kept for receivers that come late.

use super::*;

/// A feed's objects leave nothing behind, however many there are.
#[test]
fn objects_of_a_feed_are_forgotten_when_they_are_done() {
    let mut bench = Bench::with(Repair::Nack, Some(10.0));
    bench.sender = Sender::new(SenderConfig { is_feed: true, ..bench.sender.config.clone() });
    bench.join(A);
    for index in 0..20_000 {
        bench.send(100);
        bench.group();
        bench.input(SenderInput::Hashed { file: file(index), hash: HASH });
        bench.input(SenderInput::Message {
            from: A,
            file: file(index),
            message: Message::EndOfRetransmissionRequests,
        });
        bench.group();
        bench.to(A);
    }
    let sender = &bench.sender;
    assert!(sender.objects.is_empty() && sender.objects.done().chunks() <= 5);
    assert!(sender.coordinator.deadline().is_none() && sender.coordinator.events.is_empty());
    bench.join(B);
    assert_eq!(bench.to(B), "Welcome", "what it has missed is not told one by one");
}

/// A receiver that comes late to a feed, or comes back, gets the newest of its objects, but none that was
/// given up.
#[test]
fn a_feed_keeps_its_newest_objects_for_who_comes_late() {
    let mut bench = Bench::with(Repair::Nack, None);
    let config = SenderConfig { is_feed: true, kept_objects: 2, ..bench.sender.config.clone() };
    bench.sender = Sender::new(config);
    bench.join(A);
    let done = |bench: &mut Bench, from, index| {
        let message = Message::EndOfRetransmissionRequests;
        bench.input(SenderInput::Message { from, file: file(index), message });
        bench.group();
    };
    for index in 0..5 {
        bench.send(100);
        bench.group();
        bench.input(SenderInput::Hashed { file: file(index), hash: HASH });
        match index {
            3 => bench.input(SenderInput::Withdraw { file: file(3), reason: "expired".into() }),
            _ => done(&mut bench, A, index),
        }
        bench.group();
        bench.to(A);
    }
    let known = |bench: &Bench| [0, 1, 2, 3, 4].map(|index| bench.sender.announced(file(index)).is_some());
    assert_eq!(known(&bench), [false, false, true, false, true]);
    bench.join(B);
    assert_eq!(bench.to(B), "Welcome, BOF 2, Digest 2, BOF 4, Digest 4");
    done(&mut bench, B, 2);
    // What is over may expire, too.
    bench.input(SenderInput::Withdraw { file: file(2), reason: "expired".into() });
    assert_eq!(known(&bench), [false, false, false, false, true]);
}
