//! A receiver that moves from one group to another.

use super::*;

fn placed(bench: &mut Bench, group: u8) -> String {
    bench.control(Message::Move(Move::new(group).unwrap()))
}

#[test]
fn who_moves_tells_what_it_has_not_heard_and_asks_for_gaps_at_the_end_alone() {
    let mut bench = Bench::begun(1_000);
    bench.data(0..200);
    assert_eq!(bench.data(400..500), "store 0 400..500, Retx-Request 0 200..400");
    assert_eq!(bench.input(ReceiverInput::Moved { group: 1 }), "Lacking 0 500..1000, Move to 1");
    // What was said before the sender knew is about the first group.
    assert_eq!((bench.digest(), bench.later(Duration::from_secs(1))), (String::new(), String::new()));
    assert_eq!(placed(&mut bench, 1), "BOF-Request 0", "its time may be up");
    assert_eq!(bench.data(900..1_000), "store 0 900..1000", "a gap says nothing");
    assert_eq!(bench.data(200..300), "store 0 200..300");
    assert_eq!(bench.eof(), "", "nor does the group's word");
    assert_eq!(bench.digest(), "");
    let lost = "Retx-Request 0 300..400, Retx-Request 0 500..900";
    assert_eq!(bench.later(Duration::from_millis(100)), lost);
    assert_eq!(bench.input(ReceiverInput::Moved { group: 2 }), "Move to 2", "the sender knows");
    placed(&mut bench, 2);
    bench.data_again(300..400);
    assert_eq!(bench.data(500..900), "store 0 500..900, hash 0");
}

#[test]
fn in_the_first_group_everything_that_is_missing_is_a_gap_again() {
    let mut bench = Bench::begun(1_000);
    bench.data(0..100);
    bench.input(ReceiverInput::Moved { group: 1 });
    placed(&mut bench, 1);
    bench.data(800..900);
    assert_eq!(bench.input(ReceiverInput::Moved { group: 0 }), "Move to 0");
    assert_eq!(bench.data(500..600), "store 0 500..600, Retx-Request 0 100..500");
    assert_eq!(placed(&mut bench, 1), "called back to 1");
    let told = "Lacking 0 600..800, Lacking 0 900..1000, Move to 1";
    assert_eq!(bench.input(ReceiverInput::Moved { group: 1 }), told);
}

#[test]
fn a_slower_group_need_not_bring_what_is_not_wanted() {
    let mut bench = Bench::new(Notification::PerFile);
    bench.input(ReceiverInput::Moved { group: 1 });
    placed(&mut bench, 1);
    assert_eq!(bench.bof(1_000), "API_BOF_Received 0");
    assert_eq!(bench.respond(Response::Ignore), "discard 0, BOF-Request 0");
    assert_eq!(bench.bof_again(1_000), "NotWanted");
}

#[test]
fn the_sender_may_order_a_move_that_nobody_has_begun() {
    let mut bench = Bench::begun(1_000);
    assert_eq!(placed(&mut bench, 0), "", "it is there");
    assert_eq!(placed(&mut bench, 2), "ordered to 2");
    assert_eq!(bench.input(ReceiverInput::Moved { group: 2 }), "Lacking 0 0..1000, Move to 2");
    assert_eq!(placed(&mut bench, 2), "", "the answer");
    assert_eq!(placed(&mut bench, 0), "ordered to 0");
}

/// Symbols go to the first group alone, so what was counted there is to come block by block.
#[test]
fn who_counts_what_it_lacks_names_it_when_it_moves_and_from_then_on() {
    let mut bench = Bench::with_fec();
    bench.receiver.requester.counts = true;
    bench.bof(500);
    bench.data(0..200);
    assert_eq!(bench.data(300..400), "store 0 300..400", "it would count at the end");
    let moved = "forget symbols 0, Lacking 0 200..300, Lacking 0 400..500, Move to 1";
    assert_eq!(bench.input(ReceiverInput::Moved { group: 1 }), moved);
    placed(&mut bench, 1);
    assert_eq!(bench.data(200..300), "store 0 200..300");
    assert_eq!(bench.digest(), "");
    assert_eq!(bench.later(Duration::from_millis(100)), "Retx-Request 0 400..500");
    assert_eq!(bench.data_again(400..500), "store 0 400..500, hash 0");
}
