//! Receivers that say nothing more, and what that costs the others.

use super::*;

/// More than may have begun at once.
const OBJECTS: u32 = 5_000;

/// Has B say nothing, or something every now and then, while A takes many small objects. Returns how long A needed for
/// them, in virtual time, and whether B was put out.
fn many_small_objects(is_silent: bool) -> (Option<Duration>, bool) {
    let mut bench = Bench::new(Repair::Nack);
    [A, B].into_iter().for_each(|receiver| bench.join(receiver));
    (0..OBJECTS).for_each(|_| bench.send(0));
    let (mut done, mut is_put_out) = (0, false);
    for step in 0..100 {
        bench.now = Instant::ZERO + Duration::from_millis(100) * step;
        loop {
            match bench.sender.poll(bench.now, Lane::Group) {
                Step::Transmit(SenderTransmit::Message { file, message: Message::EndOfFile, .. }) => {
                    bench.input(SenderInput::Hashed { file, hash: HASH });
                    let message = Message::EndOfRetransmissionRequests;
                    bench.input(SenderInput::Message { from: A, file, message });
                    done += 1;
                }
                Step::Event(SenderEvent::PutOut { receiver: B, reason }) => {
                    assert!(reason.contains("it said nothing for 1.5 s"), "{reason}");
                    is_put_out = true;
                }
                Step::Wait(..) => break,
                _ => {}
            }
        }
        if !is_silent {
            bench.message(B, Message::Progress(Progress::default()));
        }
        if done == OBJECTS {
            return (Some(Duration::from_millis(100) * step), is_put_out);
        }
    }
    (None, is_put_out)
}

#[test]
fn a_silent_receiver_keeps_no_new_objects_from_the_others_for_two_seconds() {
    let (needed, is_put_out) = many_small_objects(true);
    assert!(needed.is_some_and(|needed| needed < Duration::from_secs(2)) && is_put_out, "{needed:?}");
}

#[test]
fn a_receiver_that_speaks_is_waited_for() {
    assert_eq!(many_small_objects(false), (None, false));
}

/// Only `--retx-factor` ends it. The others have their files, and have gone.
#[test]
fn who_says_for_ever_that_it_is_at_work_holds_up_the_end_and_nobody_else() {
    for factor in [None, Some(2.0)] {
        let mut bench = Bench::with(Repair::Nack, factor);
        bench.out(500, &[A, B]);
        bench.to(A);
        bench.to(B);
        bench.message(A, Message::EndOfRetransmissionRequests);
        bench.input(SenderInput::Close);
        let mut told = bench.group();
        assert_eq!(bench.to(A), "Goodbye, close connection");
        bench.left(A);
        for _ in 0..120 {
            bench.now += Duration::from_secs(30);
            bench.message(B, Message::Progress(Progress::default()));
            told = told + &bench.group();
            bench.to(B);
        }
        assert_eq!(told.contains("API_File_Done 0"), factor.is_some(), "{told}");
    }
}

/// A connection that says nothing does not count, however often it comes again.
#[test]
fn who_comes_and_goes_for_ever_does_not_hold_up_the_end() {
    let mut bench = Bench::new(Repair::Nack);
    bench.out(500, &[A]);
    bench.sender.linger(Some(Duration::from_secs(10)), Instant::ZERO);
    bench.input(SenderInput::Close);
    bench.message(A, Message::EndOfRetransmissionRequests);
    bench.input(SenderInput::Left { receiver: B, reason: "it was killed".into() });
    bench.group();
    bench.to(A);
    bench.left(A);
    let is_over = |events: String| events.split(", ").any(|event| event == "closed");
    for _ in 0..20 {
        if is_over(bench.group()) {
            return;
        }
        bench.join(B);
        bench.to(B);
        bench.now += Duration::from_secs(3);
        assert!(!is_over(bench.group()), "it is there");
        bench.left(B);
    }
    panic!("it goes on");
}
