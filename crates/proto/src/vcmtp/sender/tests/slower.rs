//! What a receiver that lies about its moves can cost the session.

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
fn an_order_is_told_once_and_carried_out_by_the_receivers_move() {
    let mut bench = with_slower(None);
    bench.send(300);
    assert!(!bench.sender.order(A, 2) && !bench.sender.order(A, 0) && !bench.sender.order(ReceiverId(9), 1));
    assert!(bench.sender.order(A, 1) && bench.sender.is_ready(A));
    assert_eq!((bench.to(A), bench.to(A)), ("Move to 1".to_owned(), String::new()));
    assert!(!bench.sender.order(A, 1), "it has not answered");
    assert_eq!(bench.sender.group_of(A), Some(0));
    bench.message(A, to_group(1));
    assert_eq!((bench.sender.group_of(A), bench.to(A)), (Some(1), "Move to 1".to_owned()));
    assert!(bench.sender.order(A, 0), "and back");
}

/// Symbols go to the first group, which a member of a slower one does not hear.
#[test]
fn who_has_moved_is_sent_blocks_where_others_get_symbols() {
    let fec = Some(Share::Needed);
    let mut bench = Bench::of(SenderConfig { fec, slower_run_lens: vec![100], ..Bench::config() });
    bench.out(20_000, &[A, B]);
    bench.message(A, lacking(5_000, 5_100));
    bench.message(A, to_group(1));
    assert_eq!(bench.to(A), "Move to 1");
    assert_eq!(bench.lane(Lane::Slower(1)), "BOF 0, data 0 5000..5100");
    assert_eq!(bench.to(A), "Digest 0");
    for receiver in [A, B] {
        bench.message(receiver, request(0, 8_000));
    }
    bench.group();
    assert_eq!(bench.sender.repair_symbols(), 0, "B alone is no reason for symbols");
    assert_eq!(bench.to(A).matches("data again").count(), 40);
    let lacks = vec![Lack { source_block: 0, lacking: 9, next: 200 }];
    bench.message(A, Message::SymbolRequest(SymbolRequest::new(0, lacks).unwrap()));
    assert_eq!((bench.to(A), bench.group()), (String::new(), String::new()), "said before it moved");
}

/// A receiver of a slower group takes nothing from the first group's socket, and that is no reason to wait for it.
#[test]
fn the_first_group_does_not_wait_for_the_buffers_of_others() {
    let config = SenderConfig { follow_progress: true, slower_run_lens: vec![100], ..Bench::config() };
    let mut bench = Bench::of(config);
    for receiver in [A, B] {
        bench.input(SenderInput::Joined { receiver, receive_buffer_bytes: 1_000 });
    }
    bench.send(5_000);
    assert_eq!(bench.group().matches("data").count(), 2, "half of a buffer of 1,000 bytes");
    bench.message(A, to_group(1));
    bench.message(B, Message::Progress(Progress { position: 500, ..Progress::default() }));
    assert!(bench.group().contains("data"), "B alone is followed");
}
