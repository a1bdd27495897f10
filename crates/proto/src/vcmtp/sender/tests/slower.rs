//! The costs of a receiver that lies about its moves to the session.

use super::{
    super::{awaited::MAX_WAYS_BACK, slower::MAX_MOVES},
    *,
};

#[test]
fn what_somebody_lacks_counts_when_it_moves_and_only_then() {
    let mut bench = with_slower(None);
    bench.send(1_000);
    bench.group();
    bench.message(A, to_group(1));
    bench.to(A);
    assert_eq!(bench.lane(Lane::Slower(1)), "");
    for _ in 0..100 {
        bench.message(A, lacking(0, 1_000));
        assert_eq!(bench.lane(Lane::Slower(1)), "", "it moves nowhere");
        bench.message(A, to_group(1));
        assert_eq!(bench.lane(Lane::Slower(1)), "", "it is there already");
    }
    bench.message(A, to_group(0));
    bench.message(A, lacking(0, 100));
    bench.message(A, lacking(900, 1_000));
    bench.message(A, to_group(1));
    assert_eq!(bench.lane(Lane::Slower(1)), "", "it has spent its moves");
    bench.message(B, lacking(0, 100));
    bench.message(B, lacking(900, 1_000));
    bench.message(B, to_group(1));
    assert_eq!(bench.lane(Lane::Slower(1)), "BOF 0, data 0 0..100, data 0 900..1000");
}

#[test]
fn somebody_who_goes_to_and_fro_does_not_hold_an_object_open_for_ever() {
    let mut bench = with_slower(Some(1.0));
    bench.send(100);
    bench.group();
    bench.hashed();
    bench.message(B, Message::EndOfRetransmissionRequests);
    let mut passes = 0;
    for _ in 0..10_000 {
        bench.message(A, to_group(0));
        bench.message(A, lacking(0, 100));
        bench.message(A, request(0, 100));
        bench.message(A, to_group(1));
        // The group is busy: the pass takes a while.
        bench.now += Duration::from_millis(5);
        passes += bench.lane(Lane::Slower(1)).matches("data").count();
        bench.now += Duration::from_millis(1);
        bench.group();
        bench.to(A);
    }
    assert!((2..=20).contains(&passes), "{passes}");
    assert!(bench.sender.objects.is_empty(), "its time was up at last");
}

#[test]
fn moves_in_a_loop_are_not_answered_for_ever() {
    let mut bench = with_slower(None);
    let (mut answers, mut moves) = (0, 0);
    for number in 0..10_000_u32 {
        bench.message(A, to_group(u8::from(number % 2 == 0)));
        answers += bench.to(A).matches("Move to").count();
        moves += bench.group().matches("in group").count();
    }
    assert_eq!((answers, moves), (MAX_MOVES as usize, 2 * MAX_WAYS_BACK as usize + 1));
    // Of those that are answered, every other one is to where it is already.
    let no_way_back = (u64::from(MAX_MOVES) - moves as u64).div_ceil(2);
    assert_eq!(bench.sender.refused_moves(), 10_000 - u64::from(MAX_MOVES) + no_way_back);
}

#[test]
fn who_follows_a_call_to_a_slower_group_is_waited_for_no_more() {
    let config = SenderConfig { follow_progress: true, slower_run_lens: vec![100], ..Bench::config() };
    let mut bench = Bench::of(config);
    bench.input(SenderInput::Joined { receiver: A, receive_buffer_bytes: 800, round_trip: None });
    bench.send(1_000);
    assert_eq!(bench.group(), "BOF 0, data 0 0..200, data 0 200..400", "its buffer is full");
    bench.sender.call(A, 1);
    assert_eq!(bench.to(A), "Welcome, Move to 1");
    assert_eq!(bench.to(A), "", "once");
    bench.message(A, lacking(400, 1_000));
    bench.message(A, to_group(1));
    let rest = "receiver 1 in group 1, data 0 400..600, data 0 600..800, data 0 800..1000, EOF 0";
    assert_eq!(bench.group(), rest);
    assert_eq!(bench.to(A), "Move to 1", "the answer");
    bench.message(A, Message::Progress(Progress { position: 1_000, ..Progress::default() }));
    bench.send(1_000);
    bench.sender.call(A, 0);
    bench.message(A, to_group(0));
    assert_eq!(bench.group(), "BOF 1, receiver 1 in group 0, data 1 0..200, data 1 200..400", "it is again");
}
