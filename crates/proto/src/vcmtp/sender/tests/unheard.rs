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
