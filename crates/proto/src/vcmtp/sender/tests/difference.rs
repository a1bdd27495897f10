//! Objects that are sent by difference.

use super::*;

const C: ReceiverId = ReceiverId(3);

fn indexed(size: u64) -> BeginOfFile {
    begin(size).with_index()
}

fn end_of_report(size: u64) -> Message {
    Message::Lacking(RetransmissionRequest::end_of_report(size).into())
}

/// An object of ten blocks that has been announced to these receivers.
fn announced(receivers: &[ReceiverId]) -> Bench {
    let mut bench = Bench::of(SenderConfig { keepalive: Duration::from_secs(5), ..Bench::config() });
    for receiver in receivers {
        bench.join(*receiver);
    }
    bench.sender.send(bench.now, indexed(1_000));
    assert_eq!(bench.group(), "BOF 0", "it waits for reports");
    bench
}

impl Bench {
    fn report(&mut self, from: ReceiverId, lacks: &[(u64, u64)]) {
        lacks.iter().for_each(|(start, end)| self.message(from, lacking(*start, *end)));
        self.message(from, end_of_report(1_000));
    }

    fn after(&mut self, seconds: u64) -> String {
        self.now += Duration::from_secs(seconds);
        self.group()
    }
}

#[test]
fn what_anybody_lacks_goes_out_once_when_all_have_reported() {
    let mut bench = announced(&[A, B, C]);
    bench.report(A, &[(100, 200), (900, 1_000)]);
    bench.report(B, &[(150, 350)]);
    assert_eq!(bench.group(), "");
    bench.report(C, &[]);
    assert_eq!(bench.group(), "data 0 100..300, data 0 300..400, data 0 900..1000, EOF 0");
    assert_eq!(bench.sender.multicast_bytes(), 400);
    bench.to(A);
    bench.message(A, request(100, 300));
    assert_eq!(bench.to(A), "data again 0 100..300", "losses are mended as ever");
    bench.hashed();
    for receiver in [A, B, C] {
        bench.message(receiver, Message::EndOfRetransmissionRequests);
    }
    assert!(bench.group().ends_with("API_File_Done 0 of 3"));
}

#[test]
fn nothing_goes_out_when_nobody_lacks_anything() {
    let mut bench = announced(&[A, B]);
    bench.report(A, &[]);
    bench.report(B, &[]);
    assert_eq!(bench.group(), "EOF 0");
}

#[test]
fn one_that_has_not_begun_to_report_is_not_waited_for_when_it_leaves_or_does_not_want_it() {
    let mut bench = announced(&[A, B, C]);
    bench.report(A, &[(0, 100)]);
    bench.left(B);
    assert!(!bench.group().contains("data"));
    bench.message(C, Message::NotWanted);
    assert!(bench.group().contains("data 0 0..100, EOF 0"));
}

#[test]
fn a_silent_receiver_holds_nobody_up_for_long_and_a_slow_one_only_once() {
    let mut bench = announced(&[A, B, C]);
    bench.report(A, &[(0, 100)]);
    let alive = |bench: &mut Bench| bench.message(B, Message::Progress(Progress::default()));
    for _ in 0..9 {
        assert_eq!(bench.after(1), "");
        alive(&mut bench);
    }
    assert_eq!(bench.after(1), "data 0 0..100, EOF 0", "the time is up for both");
    bench.sender.send(bench.now, indexed(1_000));
    bench.message(A, Message::Progress(Progress::default()));
    assert_eq!(bench.group(), "BOF 1");
    bench.message_of(A, 1, end_of_report(1_000));
    assert_eq!(bench.group(), "", "C may speak again");
    bench.message(A, Message::Progress(Progress::default()));
    assert_eq!(bench.after(1), "EOF 1", "B came too late before, and C says nothing");
}

#[test]
fn the_slower_half_has_as_long_again_and_less_each_time_that_it_is_in_vain() {
    const SIZE: u64 = 10_000_000_000;
    let mut bench = Bench::of(SenderConfig { keepalive: Duration::from_secs(10_000), ..Bench::config() });
    bench.join(A);
    let mut waits = Vec::new();
    for (index, liar) in (0..6).zip(10..) {
        // A receiver that was late comes again under another number.
        bench.join(ReceiverId(liar));
        bench.sender.send(bench.now, indexed(SIZE));
        bench.group();
        bench.now += Duration::from_secs(30);
        bench.group();
        bench.message_of(A, index, end_of_report(SIZE));
        let reported = bench.now;
        while !bench.group().contains("EOF") {
            bench.now += Duration::from_secs(1);
        }
        waits.push((bench.now - reported).as_secs());
        bench.left(ReceiverId(liar));
    }
    assert_eq!(waits, [40, 20, 10, 5, 5, 5]);
}

#[test]
fn fewer_than_half_of_the_receivers_hurry_nobody() {
    const SIZE: u64 = 1_000_000_000;
    let mut bench = Bench::of(SenderConfig { keepalive: Duration::from_secs(10_000), ..Bench::config() });
    [A, B, C].into_iter().for_each(|receiver| bench.join(receiver));
    bench.sender.send(bench.now, indexed(SIZE));
    assert_eq!(bench.group(), "BOF 0");
    bench.message_of(A, 0, end_of_report(SIZE));
    assert_eq!(bench.after(109), "");
    bench.message_of(B, 0, end_of_report(SIZE));
    assert_eq!(bench.after(1), "EOF 0", "the time to read it is up");
}

#[test]
fn a_receiver_that_says_nothing_at_all_is_waited_for_less_long() {
    let mut bench = Bench::of(SenderConfig { keepalive: Duration::from_secs(1), ..Bench::config() });
    bench.join(A);
    bench.join(B);
    bench.sender.send(bench.now, indexed(1_000));
    bench.group();
    bench.report(A, &[(0, 100)]);
    assert_eq!(bench.after(1), "");
    assert_eq!(bench.after(1), "data 0 0..100, EOF 0");
}

#[test]
fn a_late_report_adds_what_has_not_gone_by() {
    let mut bench = announced(&[A, B]);
    bench.report(A, &[(0, 200), (800, 1_000)]);
    bench.now += Duration::from_secs(10);
    assert_eq!(bench.step(Lane::Group).as_deref(), Some("data 0 0..200"));
    bench.report(B, &[(0, 300), (600, 700)]);
    assert_eq!(bench.group(), "data 0 200..300, data 0 600..700, data 0 800..1000, EOF 0");
    bench.report(B, &[(0, 1_000)]);
    assert_eq!(bench.group(), "", "all is out");
}

#[test]
fn an_announcement_that_may_be_lost_is_repeated_to_those_that_have_not_reported() {
    let mut bench = announced(&[A, B]);
    assert_eq!([bench.to(A), bench.to(B)], ["Welcome", "Welcome"]);
    bench.report(A, &[]);
    bench.now += Duration::from_millis(299);
    bench.group();
    assert_eq!(bench.to(B), "");
    bench.now += Duration::from_millis(1);
    bench.group();
    assert_eq!([bench.to(A), bench.to(B)], ["", "BOF 0"]);
    bench.after(1);
    assert_eq!(bench.to(B), "", "once");
}

#[test]
fn whoever_joins_meanwhile_is_waited_for() {
    let mut bench = announced(&[A]);
    bench.join(B);
    bench.report(A, &[(0, 100)]);
    assert_eq!(bench.group(), "");
    bench.to(B);
    bench.report(B, &[(300, 400)]);
    assert_eq!(bench.group(), "data 0 0..100, data 0 300..400, EOF 0");
}

#[test]
fn objects_before_and_behind_it_do_not_wait() {
    let mut bench = announced(&[A]);
    bench.send(100);
    assert_eq!(bench.group(), "BOF 1, data 1 0..100, EOF 1");
    // What makes no sense is passed over.
    bench.message(A, lacking(5_000, u64::MAX));
    bench.message_of(A, 1, lacking(0, 100));
    bench.message_of(B, 0, end_of_report(1_000));
    bench.report(A, &[(950, 2_000)]);
    assert_eq!(bench.group(), "data 0 900..1000, EOF 0");
}
