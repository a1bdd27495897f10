//! Receivers that do not hear the group.

use super::*;

fn unheard(receivers: &[ReceiverId]) -> Bench {
    let mut bench = Bench::new(Repair::Nack);
    for receiver in receivers {
        bench.join(*receiver);
        bench.to(*receiver);
    }
    bench.sender.set_unheard(true);
    bench
}

#[test]
fn what_passes_is_sent_to_each_receiver_and_then_its_end() {
    let mut bench = unheard(&[A]);
    bench.send(70_000);
    assert_eq!(bench.group(), "BOF 0, data 0 0..65500", "it waits for a receiver that has been sent all");
    assert_eq!(bench.to(A), "BOF 0, data again 0 0..65500");
    assert_eq!(bench.group(), "data 0 65500..70000, EOF 0");
    bench.hashed();
    assert_eq!(bench.to(A), "data again 0 65500..70000, Digest 0");
}

#[test]
fn the_fastest_receiver_sets_the_pace_and_a_slower_one_is_told_the_end_later() {
    let mut bench = unheard(&[A, B]);
    bench.send(140_000);
    bench.group();
    bench.to(A);
    bench.group();
    bench.to(A);
    assert!(bench.group().ends_with("EOF 0"));
    bench.hashed();
    assert!(bench.to(A).ends_with("Digest 0"));
    let told = bench.to(B);
    assert!(told.starts_with("BOF 0, data again 0 0..") && told.ends_with("..140000, Digest 0"), "{told}");
}

#[test]
fn a_group_that_is_heard_again_brings_the_rest() {
    let mut bench = unheard(&[A]);
    bench.send(65_800);
    bench.group();
    bench.to(A);
    bench.sender.set_unheard(false);
    assert_eq!(bench.group(), "data 0 65500..65700, data 0 65700..65800, EOF 0");
    bench.hashed();
    assert_eq!(bench.to(A), "Digest 0");
}

#[test]
fn a_receiver_that_wants_nothing_of_it_is_sent_no_more() {
    let mut bench = unheard(&[A]);
    bench.send(140_000);
    bench.group();
    bench.message(A, Message::NotWanted);
    assert_eq!(bench.to(A), "");
}

/// Has A take everything at once, and B one message or run in each second that `b_takes` names. Returns the second in which B is
/// put out.
fn put_out_after(receivers: &[ReceiverId], size: u64, b_takes: impl Fn(u64) -> bool) -> Option<u64> {
    let mut bench = unheard(receivers);
    bench.send(size);
    for second in 0..600 {
        bench.now = Instant::ZERO + Duration::from_secs(second);
        let mut told = bench.group();
        while receivers.contains(&A) && !bench.to(A).is_empty() {
            told += &bench.group();
        }
        if told.contains("EOF 0") {
            bench.hashed();
        }
        if b_takes(second) {
            bench.step(Lane::Receiver(B));
        }
        if told.contains("2 is put out (it said nothing for 60 s") {
            return Some(second);
        }
    }
    None
}

#[test]
fn a_receiver_that_has_stopped_is_put_out_after_the_limit() {
    // It takes the announcement and one run, which a connection does although nobody reads from it.
    assert_eq!(put_out_after(&[A, B], 400_000, |second| second < 2), Some(61));
    assert_eq!(put_out_after(&[A, B], 400_000, |_| false), Some(60));
    assert_eq!(put_out_after(&[B], 400_000, |second| second < 2), Some(62), "nobody else is there");
}

#[test]
fn a_slow_receiver_that_gets_on_is_never_put_out() {
    for receivers in [&[A, B][..], &[B]] {
        assert_eq!(put_out_after(receivers, 2_000_000, |second| second % 59 == 0), None);
    }
}

/// Has A take everything at once, and B a run in each second that `b_takes` names and say that it is at work. Returns the second and what
/// is told of B when B is through, or when its time is up.
fn time_given(size: u64, b_takes: impl Fn(u64) -> bool) -> (u64, String) {
    let mut bench = Bench::with(Repair::Nack, Some(1.0));
    for receiver in [A, B] {
        bench.join(receiver);
        bench.to(receiver);
    }
    bench.sender.set_unheard(true);
    bench.send(size);
    for second in 0..1_000 {
        bench.now = Instant::ZERO + Duration::from_secs(second);
        let mut told = bench.group();
        while !bench.to(A).is_empty() {
            told += &bench.group();
        }
        if told.contains("EOF 0") {
            bench.hashed();
            bench.to(A);
            bench.message(A, Message::EndOfRetransmissionRequests);
        }
        bench.message(B, Message::Progress(Progress::default()));
        if b_takes(second)
            && let Some(step) = bench.step(Lane::Receiver(B))
            && step.starts_with("Digest")
        {
            return (second, step);
        }
        if told.contains("2 Failed") {
            return (second, told);
        }
    }
    panic!("it goes on");
}

/// A was through in no time, and the time for retransmissions was as long.
#[test]
fn what_passes_slowly_has_its_time_by_the_speed_of_the_connection() {
    let (second, told) = time_given(2_000_000, |_| true);
    assert!(told == "Digest 0" && second > 20, "{second}: {told}");
}

#[test]
fn who_takes_less_than_the_group_would_get_has_no_more_time() {
    // 20 blocks of 100 bytes a second.
    let (second, told) = time_given(400_000, |second| second % 90 == 0);
    assert!(told.contains("its time for retransmissions was up") && second == 200, "{second}: {told}");
}
