//! The loop of the monitor.

use std::{
    ffi::OsString,
    ops::ControlFlow,
    os::fd::AsFd,
    path::PathBuf,
    time::{Duration, Instant, SystemTime},
};

use treecast_host::{poller::wait_readable, signals::Signals};

use super::{
    MonitorError,
    program::{Program, ProgramEnd},
    recording::{self, Start, Writer},
};
use crate::{
    db::Machine,
    sample::{InterfaceSource, MachineSampler, NodeSampler, NodeSource, OwnCost, Reading},
    series,
};

/// The options of the monitor.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub every: Duration,
    /// The path of the recording. `None`: samples are not recorded.
    pub out: Option<PathBuf>,
    /// The interfaces to sample. If empty, all except the loopback.
    pub interfaces: Vec<String>,
    /// The program to start, with its arguments. If empty, the monitor runs until it is told to stop.
    pub program: Vec<OsString>,
    pub treecast_version: String,
}

impl Options {
    /// Removes the recording of a program that could not be started.
    fn discard_recording(&self) {
        if let Some(path) = &self.out {
            recording::discard(path);
        }
    }
}

/// A sample, for observers.
pub struct Observed<'a> {
    pub at: Duration,
    pub readings: &'a [Reading],
}

/// The result of monitoring.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub samples: u64,
    pub elapsed: Duration,
    /// Processor time that the monitor itself used.
    pub own_cpu: Duration,
    pub own_memory_bytes: u64,
    pub recorded_bytes: u64,
    pub program: Option<ProgramEnd>,
}

impl Report {
    /// The monitor's own cost as a share of one processor.
    pub fn own_load(&self) -> f64 {
        self.own_cpu.as_secs_f64() / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Monitors until the program ends or, without a program, until SIGINT, SIGTERM or SIGHUP. These signals are
/// passed on to the program. If `observe` asks to stop, the monitor stops, unless it has a program or a
/// recording. If recording fails, the program is killed.
pub fn run(
    options: &Options,
    observe: &mut dyn FnMut(Observed<'_>) -> ControlFlow<()>,
) -> Result<Report, MonitorError> {
    let signals = Signals::catch(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP]).map_err(MonitorError::Wait)?;
    let mut monitor = Monitor::open(options)?;
    let program = match &options.program[..] {
        [] => None,
        arguments => Some(monitor.start(arguments).inspect_err(|_| options.discard_recording())?),
    };
    let mut next = Instant::now();
    loop {
        let unwatched = monitor.sample(observe)?.is_break();
        if unwatched && program.is_none() && options.out.is_none() {
            break;
        }
        next = (next + options.every).max(Instant::now());
        if wait_until(next, &signals, program.as_ref())? {
            break;
        }
    }
    // One more sample is taken when the program has ended (librecast-updates-2022, A.2).
    let end = program.map(Program::end).transpose()?;
    _ = monitor.sample(observe)?;
    monitor.finish(end)
}

/// Waits until it is time to stop, and returns true then. Returns false at `deadline`.
fn wait_until(deadline: Instant, signals: &Signals, program: Option<&Program>) -> Result<bool, MonitorError> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let [signalled, ended] = wait_readable([Some(signals.as_fd()), program.map(Program::ended)], left)
            .map_err(MonitorError::Wait)?;
        if ended {
            return Ok(true);
        }
        match (signals.next().filter(|_| signalled), program) {
            (Some(_), None) => return Ok(true),
            (Some(signal), Some(program)) if !signal.from_terminal => program.signal(signal.number),
            _ => {}
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
    }
}

struct Monitor {
    machine: MachineSampler,
    own: OwnCost,
    node: NodeSampler,
    writer: Option<Writer>,
    readings: Vec<Reading>,
    started: Instant,
    samples: u64,
    own_cpu_at_start_ns: i64,
}

impl Monitor {
    fn open(options: &Options) -> Result<Self, MonitorError> {
        let interface = |name: &String| InterfaceSource { device: name.clone(), label: name.clone() };
        let node = NodeSource {
            name: "this machine".into(),
            namespace: None,
            interfaces: options.interfaces.iter().map(interface).collect(),
            queues: false,
        };
        let mut monitor = Self {
            machine: MachineSampler::open()?,
            own: OwnCost::open()?,
            node: NodeSampler::open(vec![node])?,
            writer: None,
            readings: Vec::new(),
            started: Instant::now(),
            samples: 0,
            own_cpu_at_start_ns: 0,
        };
        monitor.own_cpu_at_start_ns = monitor.own_reading(series::SELF_CPU_NS);
        if let Some(path) = &options.out {
            let machine = Machine::here(&options.treecast_version);
            let start = Start { at: SystemTime::now(), every: options.every, machine };
            monitor.writer = Some(Writer::create(path, &start)?);
        }
        Ok(monitor)
    }

    fn start(&mut self, arguments: &[OsString]) -> Result<Program, MonitorError> {
        let program = Program::start(arguments)?;
        self.node.watch_process(0, program.pid());
        if let Some(writer) = &mut self.writer {
            let arguments: Vec<String> = arguments.iter().map(|a| a.to_string_lossy().into_owned()).collect();
            writer.program(program.pid(), &arguments)?;
        }
        Ok(program)
    }

    fn sample(
        &mut self,
        observe: &mut dyn FnMut(Observed<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, MonitorError> {
        let at = self.started.elapsed();
        self.readings.clear();
        self.machine.sample(&mut self.readings);
        self.node.sample(|_, reading| self.readings.push(reading));
        self.own.sample(&mut self.readings);
        if let Some(writer) = &mut self.writer {
            writer.sample(at, &self.readings)?;
        }
        self.samples += 1;
        Ok(observe(Observed { at, readings: &self.readings }))
    }

    fn finish(mut self, program: Option<ProgramEnd>) -> Result<Report, MonitorError> {
        let own_cpu_ns = self.own_reading(series::SELF_CPU_NS) - self.own_cpu_at_start_ns;
        let own_memory_bytes = self.own_reading(series::SELF_RESIDENT_BYTES);
        let mut recorded_bytes = 0;
        if let Some(mut writer) = self.writer {
            if let Some(end) = program {
                writer.program_end(&end)?;
            }
            recorded_bytes = writer.finish()?;
        }
        Ok(Report {
            samples: self.samples,
            elapsed: self.started.elapsed(),
            own_cpu: Duration::from_nanos(own_cpu_ns.max(0) as u64),
            own_memory_bytes: own_memory_bytes.max(0) as u64,
            recorded_bytes,
            program,
        })
    }

    fn own_reading(&mut self, name: &str) -> i64 {
        let mut readings = Vec::new();
        self.own.sample(&mut readings);
        readings.iter().find(|reading| &*reading.name == name).map_or(0, |reading| reading.value)
    }
}
