//! Objects that are sent by difference.

use super::*;

impl Bench {
    fn indexed(size: u64) -> Self {
        let mut bench = Self::new(Notification::Batched);
        let announced = bench.group(Message::BeginOfFile(begin(size).with_index()));
        assert_eq!(announced, format!("announce 0 {size}"));
        bench
    }

    fn have(&mut self, ranges: &[Range<u64>]) -> String {
        self.input(ReceiverInput::Have { file: file(0), ranges: ranges.to_vec() })
    }
}

#[test]
fn a_receiver_reports_what_its_older_version_lacks_and_takes_only_that() {
    let mut bench = Bench::indexed(1_000);
    let report = "Lacking 0 200..400, Lacking 0 900..1000, Lacking 0 1000..1000";
    assert_eq!(bench.have(&[0..250, 390..900]), report);
    assert_eq!(bench.data(200..400), "store 0 200..400");
    assert_eq!(bench.data(600..700), "", "others lack this");
    assert_eq!(bench.data(900..1_000), "store 0 900..1000");
    assert_eq!(bench.digest(), "hash 0");
    assert_eq!(bench.hashed(HASH), "commit 0, API_File_Received 0, End-Of-Retx-Reqs 0");
}

#[test]
fn losses_are_asked_for_as_ever() {
    let mut bench = Bench::indexed(1_000);
    bench.have(&[0..200, 400..600]);
    assert_eq!(bench.data(600..700), "store 0 600..700, Retx-Request 0 200..400");
    assert_eq!(bench.eof(), "Retx-Request 0 700..1000");
}

#[test]
fn nothing_is_asked_for_while_the_older_version_is_read_and_then_what_went_by() {
    let mut bench = Bench::indexed(1_000);
    assert_eq!(bench.data(500..600), "store 0 500..600");
    assert_eq!(bench.eof() + &bench.digest(), "");
    let report = bench.have(&[Range { start: 0, end: 100 }]);
    assert!(
        report.ends_with("Lacking 0 1000..1000, Retx-Request 0 100..500, Retx-Request 0 600..1000"),
        "{report}"
    );
}

#[test]
fn an_object_that_is_all_there_is_checked_like_any_other() {
    let mut bench = Bench::indexed(300);
    assert_eq!(bench.have(&[Range { start: 0, end: 300 }]), "Lacking 0 300..300");
    assert_eq!(bench.digest(), "hash 0");
    assert!(bench.hashed([8; 32]).contains("Chunk-Hashes-Request") || !bench.output().contains("commit"));
}
