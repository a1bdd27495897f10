//! Receivers that want some objects and not others.

use super::*;

/// Four objects that are sent one behind the other. A asks which there will be, and does not want the last three.
fn picky(receivers: &[ReceiverId]) -> Bench {
    let mut bench = Bench::of(SenderConfig { at_once: 1, ..Bench::config() });
    for receiver in receivers {
        bench.join(*receiver);
        bench.to(*receiver);
    }
    (0..4).for_each(|_| bench.send(1_000));
    bench.input(SenderInput::Close);
    bench.message(A, Message::NamesRequest);
    assert_eq!(bench.to(A), "Offer, Offer, Offer, Offer");
    for index in 1..4 {
        bench.input(SenderInput::Message { from: A, file: file(index), message: Message::NotWanted });
    }
    bench
}

#[test]
fn who_has_all_that_it_wants_may_go_while_the_others_get_the_rest() {
    let mut bench = picky(&[A, B]);
    let mut told = String::new();
    while !told.contains("EOF 0") {
        told = told + &bench.step(Lane::Group).unwrap() + ", ";
    }
    bench.hashed();
    bench.message(A, Message::EndOfRetransmissionRequests);
    for _ in 0..5 {
        told = told + &bench.step(Lane::Group).unwrap() + ", ";
    }
    assert_eq!(told.matches("1 NotWanted").count(), 3, "it is known at once: {told}");
    assert!(told.contains("BOF 1") && !told.contains("EOF 1"), "{told}");
    assert_eq!(bench.to(A), "Goodbye, close connection");
    bench.left(A);
    assert!(!bench.to(B).contains("Offer"), "it has not asked");
    assert!(bench.group().contains("EOF 3"), "B wants all");
}

#[test]
fn what_nobody_wants_is_not_sent() {
    let mut bench = picky(&[A]);
    let told = bench.group();
    assert!(told.contains("EOF 0") && !told.contains("BOF 1"), "{told}");
    assert!(told.contains("API_File_Done 3 of 1"), "{told}");
    bench.hashed();
    bench.message(A, Message::EndOfRetransmissionRequests);
    bench.group();
    assert!(bench.to(A).ends_with("Goodbye, close connection"));
    bench.left(A);
    assert_eq!(bench.group(), "closed");
}

#[test]
fn objects_that_have_begun_are_offered_too() {
    let mut bench = Bench::new(Repair::Nack);
    for receiver in [A, B] {
        bench.join(receiver);
        bench.to(receiver);
    }
    (0..2).for_each(|_| bench.send(1_000));
    bench.input(SenderInput::Close);
    while !bench.step(Lane::Group).unwrap().contains("BOF 1") {}
    bench.message(A, Message::NamesRequest);
    assert_eq!(bench.to(A), "Offer, Offer", "both are under way");
    bench.input(SenderInput::Message { from: A, file: file(1), message: Message::NotWanted });
    bench.message(B, Message::NamesRequest);
    assert_eq!(bench.to(B), "Offer, Offer");
    assert!(bench.group().contains("1 NotWanted"), "it counts at once");
}

#[test]
fn nobody_knows_what_a_feed_will_bring() {
    let mut bench = Bench::of(SenderConfig { is_feed: true, ..Bench::config() });
    bench.join(A);
    bench.to(A);
    bench.message(A, Message::NamesRequest);
    bench.send(1_000);
    assert_eq!(bench.to(A), "");
    bench.message(A, Message::NotWanted);
    assert!(bench.group().starts_with("BOF 0"));
}
