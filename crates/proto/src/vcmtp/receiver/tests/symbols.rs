//! Tests of what a receiver tells its sender of source blocks that symbols have made whole.

use super::*;

/// A receiver that lacks the blocks from 200 to 400 of an object of five. It has asked for these.
fn with_a_gap() -> Bench {
    let mut bench = Bench::with_fec();
    bench.bof(500);
    bench.data(0..200);
    assert_eq!(bench.data(400..500), "store 0 400..500, Retx-Request 0 200..400");
    bench
}

fn symbols(positions: Range<u64>) -> ReceiverInput {
    ReceiverInput::Symbols { from: Channel::Group, file: file(0), positions }
}

fn decoded(is_right: bool) -> ReceiverInput {
    ReceiverInput::Decoded { file: file(0), source_block: 0, is_right }
}

/// Found by seed 55 of `lab faults`: the sender went on sending what had been decoded for seconds.
#[test]
fn what_has_been_asked_for_and_decoded_is_not_wanted_any_more() {
    let mut bench = with_a_gap();
    let decode = "keep 2 of 0/0, decode 0/0 of 0..5 without [200..400]";
    assert_eq!(bench.input(symbols(500..700)), decode);
    assert_eq!(bench.input(decoded(true)), "", "the sender may have dropped the request itself");
    assert_eq!(bench.data_again(200..300), "Symbol-Request 0 (arrived=0 0:lacking=0,next=5)");
    assert_eq!(bench.data_again(300..400), "", "it was on its way");
}

/// The count has taken the place of the request at the sender already: what still comes was on its way.
#[test]
fn who_has_counted_what_it_lacks_need_not_say_that_it_is_whole() {
    let mut bench = with_a_gap();
    assert_eq!(bench.input(symbols(500..600)), "keep 1 of 0/0");
    bench.group(Message::SymbolsSent(SymbolsSent { source_block: 0, next: 6 }));
    assert_eq!(bench.later(Duration::from_millis(20)), "Symbol-Request 0 (arrived=0 0:lacking=1,next=6)");
    bench.input(symbols(600..700));
    bench.input(decoded(true));
    assert_eq!(bench.data_again(200..300), "");
}

/// The receiver joined in the second source block, so it asked for the blocks of the first. Symbols that were meant for others
/// do as well, but these cannot be decoded. The count drops the blocks that the sender still had to send.
#[test]
fn a_late_receiver_repeats_its_request_after_a_failed_decoding() {
    let mut bench = Bench::with_fec();
    // An earlier object needed symbols.
    bench.receiver.requester.counts = true;
    bench.bof(400_000);
    assert_eq!(bench.data(200_000..200_100), "store 0 200000..200100, Retx-Request 0 0..200000");
    let kept = "decode 0/0 of 0..2000 without [0..200000]";
    assert_eq!(bench.input(symbols(200_000..400_000)), format!("keep 2000 of 0/0, {kept}"));
    let count = "Symbol-Request 0 (arrived=0 0:lacking=1,next=4000)";
    assert_eq!(bench.input(decoded(false)), count);
    assert_eq!(bench.later(Duration::from_millis(40)), count, "the answer may have been lost");
    assert_eq!(bench.input(symbols(400_000..400_100)), format!("keep 1 of 0/0, {kept}"));
    bench.input(decoded(true));
    assert_eq!(bench.later(Duration::from_secs(1)), "", "it is whole");
}
