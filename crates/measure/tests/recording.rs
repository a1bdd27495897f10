//! Recordings: what is written is read, as far as there is anything to read, and exported whole.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, SystemTime},
};

use proptest::{collection::vec, prelude::*};
use treecast_measure::{
    db::Machine,
    monitor::{Ending, Exit, MonitorError, ProgramEnd, Recording, Start, Writer, csv, json, sql},
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

/// Three samples; the second series, whose name is made to break quoting, comes with the second sample. The writer is not
/// finished.
fn begun(path: &Path) -> Writer {
    let mut writer = Writer::create(path, &start()).unwrap();
    writer.program(77, &["sh".into(), "-c".into(), "echo 'x', \"y\"".into()]).unwrap();
    writer.sample(Duration::from_millis(0), &[reading("cpu/user_ns", 10)]).unwrap();
    let two = [reading("interface/a'b,\"c\"/tx_bytes", 5_000_000_000), reading("cpu/user_ns", 30)];
    writer.sample(Duration::from_millis(1000), &two).unwrap();
    writer.sample(Duration::from_micros(2_000_500), &[reading("cpu/user_ns", 7), two[0].clone()]).unwrap();
    writer
}

fn recording(folder: &Path) -> Recording {
    let path = folder.join("whole.rec");
    let mut writer = begun(&path);
    writer.program_end(&program_end()).unwrap();
    assert!(writer.finish().unwrap() > 0);
    Recording::open(&path).unwrap()
}

type Samples = Vec<(Duration, Vec<(usize, i64)>)>;

fn samples(recording: &Recording) -> Result<Samples, MonitorError> {
    let mut samples = Vec::new();
    recording.samples(|at, changes| {
        samples.push((at, changes.to_vec()));
        Ok::<(), MonitorError>(())
    })?;
    Ok(samples)
}

#[test]
fn a_recording_comes_back_with_its_program_and_is_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let recording = recording(folder.path());
    assert_eq!((recording.ending, &recording.start), (Ending::Complete, &start()));
    assert_eq!(recording.program_end, Some(program_end()));
    assert!(matches!(&recording.program, Some((77, arguments)) if arguments.len() == 3));
    let second = vec![(0, 30), (1, 5_000_000_000)];
    let ms = Duration::from_millis;
    let expected =
        vec![(ms(0), vec![(0, 10)]), (ms(1000), second), (Duration::from_micros(2_000_500), vec![(0, 7)])];
    assert_eq!(samples(&recording).unwrap(), expected);
    drop(recording);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// A reader that opens it while the monitor writes, or after it was killed, has every sample.
#[test]
fn a_recording_that_is_not_finished_has_all_samples_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.rec");
    let writer = begun(&path);
    let meanwhile = Recording::open(&path).unwrap();
    assert_eq!((meanwhile.ending, samples(&meanwhile).unwrap().len()), (Ending::CutShort, 3));
    drop(writer);
    let mut text = Vec::new();
    json(&meanwhile, &mut text).unwrap();
    assert!(String::from_utf8(text).unwrap().ends_with("{\"complete\":false,\"event\":\"end\"}\n"));
}

#[test]
fn what_is_no_recording_or_another_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.rec");
    let refused = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        Recording::open(&path).err().unwrap()
    };
    assert!(matches!(refused(b""), MonitorError::NoRecording { .. }));
    assert!(matches!(refused(b"[workspace]\nresolver = 3"), MonitorError::NoRecording { .. }));
    assert!(matches!(refused(b"TCMONITR\x01 and so on"), MonitorError::Older { .. }));
    std::fs::remove_file(&path).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE notes (text TEXT)").unwrap();
    assert!(matches!(Recording::open(&path).err().unwrap(), MonitorError::NoRecording { .. }));
    drop(recording(folder.path()));
    let newer = folder.path().join("whole.rec");
    rusqlite::Connection::open(&newer).unwrap().pragma_update(None, "user_version", 9).unwrap();
    let newer = Recording::open(&newer).err().unwrap();
    assert!(matches!(newer, MonitorError::Newer { found: 9, .. }), "{newer}");
    assert!(newer.to_string().contains("whole.rec"));
}

#[test]
fn sql_loads_into_sqlite_twice_and_keeps_names_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let unfinished = folder.path().join("unfinished.rec");
    let writer = begun(&unfinished);
    let database = rusqlite::Connection::open_in_memory().unwrap();
    for recording in [recording(folder.path()), Recording::open(&unfinished).unwrap()] {
        let mut statements = Vec::new();
        sql(&recording, &mut statements).unwrap();
        database.execute_batch(&String::from_utf8(statements).unwrap()).unwrap();
    }
    drop(writer);
    let one = |query: &str| -> String { database.query_row(query, [], |row| row.get(0)).unwrap() };
    assert_eq!(one("SELECT group_concat(complete) FROM monitor_recordings"), "1,0");
    assert_eq!(one("SELECT hostname FROM monitor_recordings"), "it's");
    assert_eq!(one("SELECT exit_signal || ' ' || peak_memory_bytes FROM monitor_recordings"), "15 3145728");
    assert_eq!(one("SELECT program FROM monitor_recordings"), "sh -c echo 'x', \"y\"");
    assert_eq!(one("SELECT name FROM monitor_series WHERE number = 1"), "interface/a'b,\"c\"/tx_bytes");
    let samples = "SELECT group_concat(at_ns || '=' || value, ' ') FROM monitor_samples \
                   WHERE recording_id = 2 AND series_number = 0";
    assert_eq!(one(samples), "0=10 1000000000=30 2000500000=7");
}

#[test]
fn csv_has_a_column_a_series_and_a_line_a_sample() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = Vec::new();
    csv(&recording(folder.path()), &mut text).unwrap();
    assert_eq!(
        String::from_utf8(text).unwrap(),
        "seconds,cpu/user_ns,\"interface/a'b,\"\"c\"\"/tx_bytes\"\n\
         0.000000,10,\n1.000000,30,5000000000\n2.000500,7,5000000000\n"
    );
}

#[test]
fn json_is_an_object_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = Vec::new();
    json(&recording(folder.path()), &mut text).unwrap();
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
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Times and values of any kind come back from any sequence of samples in which series come and go, also samples in
    /// which nothing changed.
    #[test]
    fn samples_come_back(taken in vec((0u64..1 << 40, vec((0usize..12, any::<i64>()), 0..8)), 0..20)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.rec");
        let mut writer = Writer::create(&path, &start()).unwrap();
        let mut at = Duration::ZERO;
        let mut expected: Vec<(Duration, BTreeMap<String, i64>)> = Vec::new();
        let mut values = BTreeMap::new();
        for (after, changes) in &taken {
            at += Duration::from_micros(*after);
            let now: BTreeMap<usize, i64> = changes.iter().copied().collect();
            let readings: Vec<Reading> = now.iter().map(|(n, value)| reading(&format!("s/{n}_x"), *value)).collect();
            writer.sample(at, &readings).unwrap();
            values.extend(readings.iter().map(|reading| (reading.name.to_string(), reading.value)));
            expected.push((at, values.clone()));
        }
        writer.finish().unwrap();

        let recording = Recording::open(&path).unwrap();
        let mut values = BTreeMap::new();
        let mut found = Vec::new();
        for (at, changes) in samples(&recording).unwrap() {
            values.extend(changes.into_iter().map(|(series, value)| (recording.series[series].clone(), value)));
            found.push((at, values.clone()));
        }
        prop_assert_eq!(found, expected);
        prop_assert_eq!(recording.ending, Ending::Complete);
    }

    /// A damaged file is read to an end or an error.
    #[test]
    fn no_damage_can_make_the_reader_panic(at in 100usize..20_000, damage in vec(any::<u8>(), 1..300)) {
        let folder = tempfile::tempdir().unwrap();
        drop(recording(folder.path()));
        let path = folder.path().join("whole.rec");
        let mut bytes = std::fs::read(&path).unwrap();
        let at = at % (bytes.len() - damage.len());
        bytes[at..at + damage.len()].copy_from_slice(&damage);
        std::fs::write(&path, bytes).unwrap();
        if let Ok(recording) = Recording::open(&path) {
            let _ = samples(&recording);
        }
    }
}
