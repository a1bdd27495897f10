//! Recordings: what is written is read, as far as there is anything to read, and exported whole.

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use proptest::{collection::vec, prelude::*};
use treecast_measure::{
    db::Machine,
    monitor::{Ending, Exit, MonitorError, ProgramEnd, Reader, Record, Start, Writer, csv, json, sql},
    sample::Reading,
};

fn start() -> Start {
    Start {
        at: SystemTime::UNIX_EPOCH + Duration::from_nanos(1_795_204_471_006_817_028),
        every: Duration::from_secs(1),
        machine: Machine {
            hostname: "it's".into(),
            kernel: "Linux 6.1".into(),
            cpu_model: "A \"B\", C".into(),
            cpus: 2,
            memory_bytes: 8 << 30,
            treecast_version: "0.1.0".into(),
        },
    }
}

fn program_end() -> ProgramEnd {
    ProgramEnd {
        elapsed: Duration::from_millis(1500),
        cpu_user: Duration::from_millis(200),
        cpu_system: Duration::from_millis(100),
        peak_memory_bytes: 3 << 20,
        exit: Exit::Signal(15),
    }
}

fn reading(name: &str, value: i64) -> Reading {
    Reading { name: name.into(), value }
}

/// Three samples; the second series, whose name is made to break quoting, comes with the second sample.
fn recording() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes).unwrap();
    writer.write(&Record::Start(start())).unwrap();
    let arguments = vec!["sh".into(), "-c".into(), "echo 'x', \"y\"".into()];
    writer.write(&Record::Program { pid: 77, arguments }).unwrap();
    writer.sample(Duration::from_millis(0), &[reading("cpu/user_ns", 10)]).unwrap();
    let two = [reading("interface/a'b,\"c\"/tx_bytes", 5_000_000_000), reading("cpu/user_ns", 30)];
    writer.sample(Duration::from_millis(1000), &two).unwrap();
    writer.sample(Duration::from_micros(2_000_500), &[reading("cpu/user_ns", 7), two[0].clone()]).unwrap();
    writer.write(&Record::ProgramEnd(program_end())).unwrap();
    writer.finish().unwrap();
    bytes
}

fn reader(bytes: &[u8]) -> Reader<&[u8]> {
    Reader::new(bytes, Path::new("test.rec")).unwrap()
}

fn records(bytes: &[u8]) -> (Vec<Record>, Ending) {
    let mut reader = reader(bytes);
    let records = std::iter::from_fn(|| reader.next_record()).collect();
    (records, reader.ending().unwrap())
}

#[test]
fn a_recording_comes_back_with_its_program() {
    let (records, ending) = records(&recording());
    assert_eq!(ending, Ending::Complete);
    assert_eq!(records.first(), Some(&Record::Start(start())));
    assert_eq!(records.last(), Some(&Record::ProgramEnd(program_end())));
    assert!(matches!(&records[1], Record::Program { pid: 77, arguments } if arguments.len() == 3));
}

#[test]
fn cut_at_any_byte_it_is_read_up_to_the_cut_and_says_so() {
    let whole = recording();
    let (all, _) = records(&whole);
    let mut seen = 0;
    for len in 9..whole.len() {
        let (some, ending) = records(&whole[..len]);
        assert!(matches!(ending, Ending::CutShort { at_byte } if at_byte <= len as u64), "{len}: {ending:?}");
        assert_eq!(some, all[..some.len()], "{len}");
        assert!(some.len() >= seen, "more bytes, fewer records");
        seen = some.len();
    }
    assert_eq!(seen, all.len(), "without its last byte, only the end is missing");
}

#[test]
fn damage_is_found_wherever_it_is() {
    let whole = recording();
    let (all, _) = records(&whole);
    for at in 9..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x20;
        let (some, ending) = records(&damaged);
        assert!(matches!(ending, Ending::CutShort { .. }), "byte {at}");
        assert_eq!(some, all[..some.len()], "byte {at}");
    }
}

#[test]
fn what_is_no_recording_or_a_newer_one_is_refused() {
    let refused = |bytes: &[u8]| Reader::new(bytes, Path::new("x.rec")).err().unwrap();
    assert!(matches!(refused(b""), MonitorError::NoRecording { .. }));
    assert!(matches!(refused(b"[workspace]\nresolver"), MonitorError::NoRecording { .. }));
    let newer = refused(b"TCMONITR\x09");
    assert!(matches!(newer, MonitorError::Newer { found: 9, .. }), "{newer}");
    assert!(newer.to_string().contains("x.rec"));
}

#[test]
fn sql_loads_into_sqlite_twice_and_keeps_names_as_they_are() {
    let database = rusqlite::Connection::open_in_memory().unwrap();
    let whole = recording();
    for bytes in [&whole[..], &whole[..whole.len() - 1]] {
        let mut statements = Vec::new();
        sql(&mut reader(bytes), &mut statements).unwrap();
        database.execute_batch(&String::from_utf8(statements).unwrap()).unwrap();
    }
    let one = |query: &str| -> String { database.query_row(query, [], |row| row.get(0)).unwrap() };
    assert_eq!(one("SELECT group_concat(complete) FROM monitor_recordings"), "1,0");
    assert_eq!(one("SELECT hostname FROM monitor_recordings"), "it's");
    assert_eq!(one("SELECT exit_signal || ' ' || peak_memory_bytes FROM monitor_recordings"), "15 3145728");
    assert_eq!(one("SELECT name FROM monitor_series WHERE number = 1"), "interface/a'b,\"c\"/tx_bytes");
    let samples = "SELECT group_concat(at_ns || '=' || value, ' ') FROM monitor_samples \
                   WHERE recording_id = 2 AND series_number = 0";
    assert_eq!(one(samples), "0=10 1000000000=30 2000500000=7");
}

#[test]
fn csv_has_a_column_a_series_and_a_line_a_sample() {
    let whole = recording();
    let mut text = Vec::new();
    csv(&mut reader(&whole), &mut reader(&whole), &mut text).unwrap();
    assert_eq!(
        String::from_utf8(text).unwrap(),
        "seconds,cpu/user_ns,\"interface/a'b,\"\"c\"\"/tx_bytes\"\n\
         0.000000,10,\n1.000000,30,5000000000\n2.000500,7,5000000000\n"
    );
}

#[test]
fn json_is_an_object_a_line() {
    let mut text = Vec::new();
    json(&mut reader(&recording()), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<&str> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["start", "program", "sample", "sample", "sample", "program_end", "end"]);
    assert_eq!(lines[3]["changed"]["cpu/user_ns"], 30);
    assert_eq!(lines[4]["seconds"], 2.0005);
    assert_eq!(lines[6]["complete"], true);
}

proptest! {
    /// Times in microseconds and values of any kind come back from any sequence of samples in which
    /// series come and go.
    #[test]
    fn samples_come_back(
        samples in vec((0u64..1 << 40, vec((0usize..12, any::<i64>()), 0..8)), 0..20),
    ) {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes).unwrap();
        let mut at = Duration::ZERO;
        let mut expected: Vec<(Duration, Vec<(String, i64)>)> = Vec::new();
        for (after, values) in &samples {
            at += Duration::from_micros(*after);
            let mut distinct: Vec<(usize, i64)> = values.clone();
            distinct.sort_by_key(|(series, _)| *series);
            distinct.dedup_by_key(|(series, _)| *series);
            let readings: Vec<Reading> =
                distinct.iter().map(|(series, value)| reading(&format!("s/{series}_x"), *value)).collect();
            writer.sample(at, &readings).unwrap();
            expected.push((at, readings.iter().map(|r| (r.name.to_string(), r.value)).collect()));
        }
        writer.finish().unwrap();

        let mut reader = reader(&bytes);
        let mut found = expected.iter();
        while let Some(record) = reader.next_record() {
            if matches!(record, Record::Sample(_)) {
                let (at, values) = found.next().unwrap();
                prop_assert_eq!(*at, reader.at());
                for value in values {
                    prop_assert!(reader.series().contains(value), "{:?} in {:?}", value, reader.series());
                }
            }
        }
        prop_assert!(found.next().is_none());
        prop_assert_eq!(reader.ending(), Some(Ending::Complete));
    }

    /// Whatever a file holds, it is read to an end.
    #[test]
    fn no_bytes_can_make_the_reader_panic(bytes in vec(any::<u8>(), 0..300)) {
        let file = [b"TCMONITR\x01", &bytes[..]].concat();
        let (_, ending) = records(&file);
        // That random bytes are a record with a right checksum is out of the question.
        let Ending::CutShort { at_byte } = ending else { panic!("complete") };
        prop_assert_eq!(at_byte, 9);
    }
}
