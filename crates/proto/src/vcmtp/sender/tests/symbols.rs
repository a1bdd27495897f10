//! Source blocks of which no symbols are left, and those that need none any more.

use super::*;
use crate::vcmtp::sender::symbols::GIVES_WAY;

/// Found by a simulated session with a reader so slow that it asked for what its socket held.
#[test]
fn blocks_are_sent_again_when_symbols_for_the_group_and_for_one_receiver_are_used_up() {
    let mut bench = Bench::of(SenderConfig { fec: Some(Share::Auto), ..Bench::config() });
    bench.out(20_000, &[A, B]);
    lack(&mut bench, A, 0, Lack { source_block: 0, lacking: 200, next: 200 });
    assert!(bench.to(A).starts_with("symbols 0/0 "), "some go to one receiver alone");
    bench.send(20_000);
    bench.group();
    // With this one, it tells nothing new of its losses: it does not seem hopeless.
    lack(&mut bench, B, 1, Lack { source_block: 0, lacking: 1, next: 200 });
    let mut next = 200;
    while bench.to(B).is_empty() {
        // Some of the group's symbols reach it now and then.
        lack(&mut bench, B, 0, Lack { source_block: 0, lacking: 200 - next / 200 % 2, next });
        next += 200;
        assert!(next < 200_000, "it asks again and again");
        bench.group();
    }
    lack(&mut bench, B, 0, Lack { source_block: 0, lacking: 200, next });
    assert!(bench.to(B).starts_with("data again 0 0..200, data again 0 200..400"));
}

/// Before, the group was sent symbols for it until their numbers were used up.
#[test]
fn a_receiver_that_gets_nothing_of_two_rounds_is_sent_symbols_for_itself() {
    let mut bench = Bench::of(SenderConfig { fec: Some(Share::Auto), ..Bench::config() });
    bench.out(20_000, &[A, B]);
    bench.send(20_000);
    bench.group();
    // With this one, it tells nothing new of its losses: it does not seem hopeless.
    lack(&mut bench, B, 1, Lack { source_block: 0, lacking: 1, next: 200 });
    bench.group();
    let mut told = String::new();
    for next in [200, 400, 600] {
        assert_eq!(told, "", "the group is tried first");
        lack(&mut bench, B, 0, Lack { source_block: 0, lacking: 200, next });
        bench.group();
        told = bench.to(B);
    }
    assert!(told.starts_with("symbols 0/0 "), "{told}");
}

/// Found by seed 55 of `lab faults`: a receiver that had lost much more than the others was to have its blocks apart, and
/// decoded them with the symbols that the group had been sent.
#[test]
fn what_a_receiver_has_asked_for_is_not_sent_when_it_has_decoded_it() {
    let mut bench = Bench::of(SenderConfig { fec: Some(Share::Needed), ..Bench::config() });
    bench.out(20_000, &[A, B]);
    bench.message(A, request(0, 4_000));
    assert_eq!(bench.to(A).matches("data again").count(), 20, "nobody else lacks them");
    bench.message(A, request(4_000, 20_000));
    assert_eq!(bench.step(Lane::Receiver(A)).as_deref(), Some("data again 0 4000..4200"));
    lack(&mut bench, A, 0, Lack { source_block: 0, lacking: 0, next: 400 });
    assert_eq!((bench.to(A), bench.group()), (String::new(), String::new()));
    // Should it have been wrong about that, it can ask again.
    lack(&mut bench, A, 0, Lack { source_block: 0, lacking: 1, next: 400 });
    assert!(bench.group().starts_with("symbols 0/0 200.."), "what it lacks is sent");
}

/// Found by seed 55 of `lab faults`: the group got 2,016 symbols for the 520 blocks that four receivers lacked, because the
/// fifth lacked 870 and was served over its own connection.
#[test]
fn a_receiver_that_is_served_apart_does_not_raise_the_share_of_the_group() {
    let mut bench = Bench::of(SenderConfig { fec: Some(Share::Needed), ..Bench::config() });
    let receivers = [1, 2, 3, 4, 5].map(ReceiverId);
    receivers.iter().for_each(|receiver| bench.join(*receiver));
    bench.send(151_300);
    while bench.step(Lane::Group).is_some_and(|words| words != "data 0 100000..100200") {}
    for receiver in receivers {
        bench.message(receiver, request(5_000, if receiver == receivers[4] { 92_000 } else { 57_000 }));
    }
    bench.group();
    let sent = bench.sender.repair_symbols();
    assert!((520..1_000).contains(&sent), "{sent} symbols for 520 lost blocks");
}

/// The driver encodes a source block while its end is being sent, so that the sender need not stand still.
#[test]
fn symbols_are_expected_of_a_source_block_once_several_receivers_have_named_blocks() {
    let mut bench = Bench::of(SenderConfig { fec: Some(Share::Needed), ..Bench::config() });
    [A, B].iter().for_each(|receiver| bench.join(*receiver));
    bench.send(20_000);
    while bench.step(Lane::Group).is_some_and(|words| words != "data 0 10000..10200") {}
    bench.message(A, request(0, 1_000));
    assert!(!bench.sender.expects_symbols(file(0), 0), "its blocks are sent again");
    bench.message(B, request(2_000, 3_000));
    assert!(bench.sender.expects_symbols(file(0), 0) && !bench.sender.expects_symbols(file(0), 1));
    assert!(bench.group().contains("symbols 0/0 "));
}

/// Receivers name what the start has lost before the source block is out. It was expected of the following ones: for ten seconds, a fifth
/// of all packets on a link of 100 Mbit/s were needless symbols.
#[test]
fn what_is_lost_while_the_rate_is_found_is_not_expected_of_the_next_source_block() {
    for is_found_late in [false, true] {
        let mut bench = Bench::of(SenderConfig { fec: Some(Share::Needed), ..Bench::config() });
        [A, B].iter().for_each(|receiver| bench.join(*receiver));
        bench.send(20_000);
        bench.sender.set_finding_rate(true);
        while bench.step(Lane::Group).is_some_and(|words| words != "data 0 8000..8200") {}
        [A, B].iter().for_each(|receiver| bench.message(*receiver, request(0, 4_000)));
        bench.sender.set_finding_rate(is_found_late);
        let words = bench.group();
        assert!(words.contains("symbols 0/0 ") && !words.contains("symbols 0/1 "), "{words}");
    }
}

/// A receiver that has lost nothing of a product had to wait for the symbols of those that had.
#[test]
fn the_hash_goes_before_symbols_and_once() {
    let config = SenderConfig { fec: Some(Share::Percent(50)), digest_to_group: true, ..Bench::config() };
    let mut bench = Bench::of(config);
    [A, B].iter().for_each(|receiver| bench.join(*receiver));
    bench.send(200);
    while bench.step(Lane::Group).is_some_and(|words| words != "data 0 0..200") {}
    assert!(bench.sender.has_symbols_due());
    bench.hashed();
    let words = bench.group();
    assert_eq!(words, "Digest 0, symbols 0/0 2..3, Symbols-Sent 0 (block=0 next=3), EOF 0");
}

/// Products of a feed that come at a time: the second one's blocks waited for the first one's symbols.
#[test]
fn symbols_give_way_to_blocks_of_other_objects_for_a_while() {
    let config = SenderConfig { fec: Some(Share::Percent(50)), ..Bench::config() };
    let mut bench = Bench::of(config);
    [A, B].iter().for_each(|receiver| bench.join(*receiver));
    bench.send(200);
    bench.send(600);
    let words = bench.group();
    assert!(words.find("data 1 400..600") < words.find("symbols 0/0"), "{words}");
    bench.send(200);
    bench.send(200_000);
    while bench.step(Lane::Group).is_some_and(|words| words != "data 2 0..200") {}
    bench.step(Lane::Group);
    bench.now += GIVES_WAY;
    assert_eq!(bench.step(Lane::Group).as_deref(), Some("symbols 2/0 2..3"), "not for ever");
}

fn lack(bench: &mut Bench, from: ReceiverId, index: u32, lack: Lack) {
    let message = Message::SymbolRequest(SymbolRequest::new(0, vec![lack]).unwrap());
    bench.input(SenderInput::Message { from, file: file(index), message });
}
