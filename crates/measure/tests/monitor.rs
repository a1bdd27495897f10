//! The monitor at work, and what it costs. One test at a time: what the monitor costs is what its
//! process costs.

use std::{
    io::{BufRead, BufReader},
    ops::ControlFlow,
    path::Path,
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant},
};

use treecast_measure::{
    monitor::{self, Digest, Ending, Exit, MonitorError, Options, Recording, Report},
    series,
};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn options(every_ms: u64, out: Option<&Path>, program: &[&str]) -> Options {
    Options {
        every: Duration::from_millis(every_ms),
        out: out.map(Path::to_owned),
        interfaces: vec!["lo".into()],
        program: program.iter().map(Into::into).collect(),
        treecast_version: "0.1.0".into(),
    }
}

fn digest(path: &Path) -> Digest {
    Digest::of(&Recording::open(path).unwrap()).unwrap()
}

fn shell(every_ms: u64, out: Option<&Path>, script: &str) -> Result<Report, MonitorError> {
    monitor::run(&options(every_ms, out, &["sh", "-c", script]), &mut |_| ControlFlow::Continue(()))
}

/// At one sample a second, 5 ms of CPU a sample are 0.5 % of a processor.
#[test]
fn a_sample_costs_less_than_half_a_percent_of_a_processor_at_one_a_second() {
    let _alone = alone();
    // What else runs takes caches away: the best of a few counts.
    let costs = (0..4).map(|_| {
        let report = shell(10, None, "sleep 1").unwrap();
        assert!(report.samples > 3, "{report:?}");
        report.own_cpu / report.samples as u32
    });
    let cost = costs.min().unwrap();
    println!("{cost:?} a sample: {:.3} % of a processor at 1 Hz", cost.as_secs_f64() * 100.0);
    assert!(cost < Duration::from_millis(5), "{cost:?} a sample");
}

#[test]
fn a_programs_cpu_memory_and_exit_are_in_the_recording() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.rec");
    // About 40 MB in the shell's memory, and some CPU in its child.
    let script = "x=$(head -c 40000000 /dev/zero | tr '\\0' x); i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 7";
    let report = shell(20, Some(&path), script).unwrap();
    let end = report.program.unwrap();
    assert_eq!(end.exit, Exit::Code(7));
    assert!(end.peak_memory_bytes > 30_000_000, "{end:?}");
    assert!(end.cpu_user > Duration::from_millis(10) && end.elapsed >= Duration::from_millis(10), "{end:?}");

    let digest = digest(&path);
    assert_eq!((digest.ending, digest.program), (Ending::Complete, Some(end)));
    assert_eq!(digest.samples, report.samples);
    let names: Vec<&str> = digest.series.iter().map(|(name, _)| name.as_str()).collect();
    for name in
        [series::LOAD_ONE_MINUTE_MILLI, series::PROCESS_CPU_NS, "interface/lo/tx_bytes", series::SELF_CPU_NS]
    {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    let text = digest.table().to_text();
    assert!(text.contains("exit code 7") && !text.contains("cut short"), "{text}");
}

#[test]
fn a_signal_to_the_monitor_ends_its_program_and_the_recording_is_complete() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.rec");
    let thread = std::thread::spawn({
        let options = options(20, Some(&path), &["sleep", "600"]);
        let (tell, me) = std::sync::mpsc::channel();
        let killer = std::thread::spawn(move || {
            let monitor: libc::pid_t = me.recv().unwrap();
            std::thread::sleep(Duration::from_millis(300));
            // SAFETY: tgkill has no memory effects; it signals the monitor's thread, which waits for it.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), monitor, libc::SIGTERM) };
        });
        move || {
            let mut told = Some(tell);
            let report = monitor::run(&options, &mut |_| {
                if let Some(tell) = told.take() {
                    // SAFETY: gettid has no preconditions.
                    tell.send(unsafe { libc::gettid() }).unwrap();
                }
                ControlFlow::Continue(())
            });
            killer.join().unwrap();
            report
        }
    });
    let start = Instant::now();
    let report = thread.join().unwrap().unwrap();
    assert!(start.elapsed() < Duration::from_secs(300));
    assert_eq!(report.program.unwrap().exit, Exit::Signal(libc::SIGTERM));
    assert_eq!(digest(&path).ending, Ending::Complete);
}

#[test]
fn what_cannot_be_done_is_said_and_leaves_nothing_behind() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.rec");
    let error = |options: &Options| {
        monitor::run(options, &mut |_| ControlFlow::Continue(())).unwrap_err().to_string()
    };

    let mut no_interface = options(20, Some(&path), &["true"]);
    no_interface.interfaces = vec!["no-such-if".into()];
    assert!(error(&no_interface).contains("no-such-if"));
    assert!(!path.exists());

    assert!(error(&options(20, None, &["/no/such/program"])).contains("/no/such/program"));
    std::fs::write(&path, "precious").unwrap();
    assert!(error(&options(20, Some(&path), &["true"])).contains("exists already"));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    assert!(error(&options(20, Some(&folder.path().join("no/folder")), &["true"])).contains("cannot create"));
}

/// The recording fails when its disk is full, and the program must not go on unwatched.
#[test]
fn a_full_disk_is_an_error_of_one_line() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mount(folder.path());
    let path = disk.0.join("a.rec");
    let start = Instant::now();
    let error = shell(10, Some(&path), "exec sleep 600").unwrap_err().to_string();
    assert!(
        error.contains("a.rec") && error.contains("is the disk full?") && !error.contains('\n'),
        "{error}"
    );
    assert!(start.elapsed() < Duration::from_secs(300), "the program was killed");
}

/// A file system of 128 KiB, in which a recording has no room for long.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Self {
        let mut mount = std::process::Command::new("mount");
        let status = mount.args(["-t", "tmpfs", "-o", "size=128k", "tmpfs"]).arg(at).status().unwrap();
        assert!(status.success(), "needs root");
        Self(at.to_owned())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}

/// Runs in a process of its own, which the test below kills.
#[test]
fn monitor_until_killed() {
    let Some(path) = std::env::var_os("TREECAST_TEST_RECORDING") else { return };
    let mut seen = 0;
    monitor::run(&options(10, Some(Path::new(&path)), &[]), &mut |_| {
        seen += 1;
        println!("{seen}");
        ControlFlow::Continue(())
    })
    .unwrap();
}

/// A sample that the monitor has taken is in the recording, whenever it is killed.
#[test]
fn a_monitor_that_is_killed_loses_no_sample() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.rec");
    let mut monitor = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "monitor::monitor_until_killed", "--nocapture"])
        .env("TREECAST_TEST_RECORDING", &path)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(monitor.stdout.take().unwrap()).lines();
    let mut told = 0;
    while told < 40 {
        told = lines.next().unwrap().unwrap().trim().parse().unwrap_or(told);
    }
    monitor.kill().unwrap();
    monitor.wait().unwrap();
    told = lines.map_while(Result::ok).filter_map(|line| line.trim().parse().ok()).last().unwrap_or(told);
    let digest = digest(&path);
    assert_eq!(digest.ending, Ending::CutShort);
    assert!(digest.samples >= told, "{} samples of {told}", digest.samples);
}
