//! The load generator: how exactly it sends, and how fast, beside Debian's iperf 2 and sockperf.
//!
//! A sender and a receiver on a bridge. First the generator sends at several rates: how far is the real rate from the one asked for,
//! and how late are packets? Then it sends as fast as one processor can, with and without super-packets, in turns with the
//! other tools. All send packets of the same size, to a group, by the same link. A receiver on another processor hears all of
//! them, so the sender's processor also brings each packet to the receiver's socket, and divides super-packets.

use std::{
    io::Read,
    process::{Command, Stdio},
};

use serde::Serialize;
use serde_json::{Value, json};
use treecast_host::stop::Stop;
use treecast_lab::Topology;
use treecast_measure::tables::{Table, quantity, three_digits};

use crate::{Result, Tell, crew::Crew, report::median, stage::OwnLab};

/// The rates asked for, in packets per second.
const RATES: [u32; 5] = [1, 10, 100, 1000, 10_000];
/// The largest deviation from the rate asked for, as a share.
const MAX_DEVIATION: f64 = 0.001;
/// The longest lateness of 99 % of the packets, in microseconds.
const MAX_P99_US: f64 = 1000.0;
/// The least rate of the generator, as a multiple of that of the fastest other tool.
const WANTED_RATIO: f64 = 2.0;

/// UDP payload of each packet, in bytes. sockperf needs 14, our packet 32.
const PACKET_BYTES: u32 = 32;
/// A rate that no processor reaches, in packets per second.
const TOO_FAST: &str = "100000000";
const GROUP: &str = "239.18.1.1";
const PORT: &str = "4321";

/// The measurements of the load generator.
#[derive(Debug, Clone)]
pub struct Scope {
    /// The number of times that each highest rate is measured. Medians count.
    pub runs: u32,
    /// Length of each measurement, in whole seconds.
    pub seconds: u32,
}

/// The results.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub rates: Vec<Rate>,
    /// One entry for each tool that is installed, ours first.
    pub fastest: Vec<Fastest>,
    /// Tools that are not installed.
    pub missing: Vec<String>,
}

/// The measurement of one rate.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Rate {
    pub asked_pps: f64,
    pub real_pps: f64,
    pub mean_us: f64,
    pub p99_us: f64,
    pub max_us: f64,
}

/// The highest rates of one tool, in packets per second.
#[derive(Debug, Clone, Serialize)]
pub struct Fastest {
    pub name: &'static str,
    pub is_ours: bool,
    pub pps: Vec<f64>,
}

/// A program that sends as fast as it can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    SuperPackets,
    SinglePackets,
    Iperf,
    Sockperf,
}

const TOOLS: [Tool; 4] = [Tool::SuperPackets, Tool::SinglePackets, Tool::Iperf, Tool::Sockperf];

/// Makes the measurements. The network is removed when this returns.
///
/// # Errors
/// One line if the network cannot be made, a tool fails, or `stop` is requested.
pub fn measure(scope: &Scope, stop: Stop, tell: Tell) -> Result<Report> {
    let name = format!("benchload{}", std::process::id());
    let lab = OwnLab::up(&Topology::parse("lan:clients=1")?, &name, stop, tell)?;
    let mut report = Report { rates: Vec::new(), fastest: Vec::new(), missing: Vec::new() };
    for rate in RATES {
        lab.go_on()?;
        tell(&format!("{rate} packets per second"));
        // Even the lowest rate sends several packets.
        let seconds = scope.seconds.max(5).to_string();
        let sent = generate(&lab, &["--pps", &rate.to_string(), "--seconds", &seconds])?;
        report.rates.push(Rate::of(&sent).ok_or("the load generator has told no rate")?);
    }
    let (there, missing): (Vec<Tool>, Vec<Tool>) = TOOLS.into_iter().partition(|tool| tool.is_installed());
    report.missing = missing.iter().map(|tool| tool.name().to_owned()).collect();
    report.fastest.extend(there.iter().map(|tool| Fastest {
        name: tool.name(),
        is_ours: tool.is_ours(),
        pps: Vec::new(),
    }));
    let mut crew = Crew::default();
    start_receiver(&lab, &mut crew)?;
    for run in 1..=scope.runs {
        tell(&format!("run {run} of {}: as fast as one processor can", scope.runs));
        for (tool, fastest) in there.iter().zip(&mut report.fastest) {
            lab.go_on()?;
            fastest.pps.push(tool.send(&lab, scope.seconds)?);
        }
    }
    Ok(report)
}

/// Makes the load generator send in the sender's node. Returns what it tells.
fn generate(lab: &OwnLab, options: &[&str]) -> Result<Value> {
    let mut command = on_processor(0, &std::env::current_exe()?.to_string_lossy());
    command.args([
        "load",
        "run",
        "--json",
        "--only",
        "send",
        "--lead",
        "0.2",
        "--size",
        &PACKET_BYTES.to_string(),
    ]);
    command.args(["--group", &format!("{GROUP}:{PORT}"), "--interface", &lab.interface("server0")?.name]);
    command.args(options);
    Ok(serde_json::from_str(&run(lab, command)?)?)
}

/// Starts a receiver on the last processor.
fn start_receiver(lab: &OwnLab, crew: &mut Crew) -> Result<()> {
    let last = std::thread::available_parallelism().map_or(1, usize::from) - 1;
    // It says on its standard error that it is ready.
    let mut command = Command::new("sh");
    command.args(["-c", "exec taskset -c \"$@\" 2>&1 >/dev/null", "sh", &last.to_string()]);
    command.arg(std::env::current_exe()?);
    command.args(["load", "run", "--json", "--only", "receive", "--group", &format!("{GROUP}:{PORT}")]);
    command.args(["--interface", &lab.interface("client0")?.name]);
    crew.add(lab.start("client0", "the receiver", command)?);
    crew.wait_ready(&lab.stop).map(drop)
}

fn on_processor(number: usize, program: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &number.to_string(), program]);
    command
}

/// Runs a program in the sender's node. Returns its output.
fn run(lab: &OwnLab, mut command: Command) -> Result<String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = lab.get()?.spawn("server0", command)?;
    let mut output = String::new();
    if let Some(stdout) = &mut child.stdout {
        stdout.read_to_string(&mut output)?;
    }
    child.wait()?;
    Ok(output)
}

impl Tool {
    fn name(self) -> &'static str {
        match self {
            Self::SuperPackets => "treecast --super-packets",
            Self::SinglePackets => "treecast",
            Self::Iperf => "iperf",
            Self::Sockperf => "sockperf",
        }
    }

    fn is_ours(self) -> bool {
        matches!(self, Self::SuperPackets | Self::SinglePackets)
    }

    fn is_installed(self) -> bool {
        let asked = || {
            Command::new(self.name()).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status()
        };
        self.is_ours() || asked().is_ok()
    }

    /// Sends as fast as it can. Returns the packets per second, by the tool's own count.
    fn send(self, lab: &OwnLab, seconds: u32) -> Result<f64> {
        let (seconds, bytes) = (seconds.to_string(), PACKET_BYTES.to_string());
        let own = ["--pps", TOO_FAST, "--seconds", &seconds];
        let told = match self {
            Self::SuperPackets => own_pps(&generate(lab, &[&own[..], &["--super-packets"]].concat())?),
            Self::SinglePackets => own_pps(&generate(lab, &own)?),
            Self::Iperf => {
                let mut command = on_processor(0, "iperf");
                // It knows no unlimited rate for packets.
                command.args([
                    "-c", GROUP, "-p", PORT, "-u", "-b", "100g", "-l", &bytes, "-t", &seconds, "-y", "C",
                ]);
                iperf_pps(&run(lab, command)?)
            }
            Self::Sockperf => {
                let mut command = on_processor(0, "sockperf");
                let address = lab.get()?.node("server0")?.v4().ok_or("the sender has no address")?;
                command.args([
                    "throughput",
                    "-i",
                    GROUP,
                    "-p",
                    PORT,
                    "-m",
                    &bytes,
                    "-t",
                    &seconds,
                    "--mps=max",
                ]);
                command.arg(format!("--mc-tx-if={address}"));
                sockperf_pps(&run(lab, command)?)
            }
        };
        told.ok_or_else(|| format!("{} has told no rate", self.name()).into())
    }
}

fn own_pps(report: &Value) -> Option<f64> {
    report["senders"][0]["steps"][0]["real_pps"].as_f64()
}

/// Parses a line of `iperf -y C`: time, addresses, ports, number, seconds, bytes, and more.
fn iperf_pps(output: &str) -> Option<f64> {
    let fields: Vec<&str> = output.lines().rfind(|line| line.contains(GROUP))?.split(',').collect();
    let (begin, end) = fields.get(6)?.split_once('-')?;
    let seconds = end.parse::<f64>().ok()? - begin.parse::<f64>().ok()?;
    let bytes: f64 = fields.get(7)?.parse().ok()?;
    (seconds > 0.0).then(|| bytes / f64::from(PACKET_BYTES) / seconds)
}

/// Parses `Summary: Message Rate is 608150 [msg/sec]`.
fn sockperf_pps(output: &str) -> Option<f64> {
    let (_, rest) = output.split_once("Message Rate is ")?;
    rest.split_whitespace().next()?.parse().ok()
}

impl Rate {
    fn of(report: &Value) -> Option<Self> {
        let (step, late) = (&report["senders"][0]["steps"][0], &report["senders"][0]["deadline_error"]);
        Some(Self {
            asked_pps: step["asked_pps"].as_f64()?,
            real_pps: step["real_pps"].as_f64()?,
            mean_us: late["mean_us"].as_f64()?,
            p99_us: late["p99_us"].as_f64()?,
            max_us: late["max_us"].as_f64()?,
        })
    }

    fn deviation(&self) -> f64 {
        (self.real_pps / self.asked_pps - 1.0).abs()
    }

    fn is_met(&self) -> bool {
        self.deviation() <= MAX_DEVIATION && self.p99_us < MAX_P99_US
    }
}

impl Fastest {
    fn median(&self) -> f64 {
        median(self.pps.iter().copied())
    }
}

impl Report {
    /// The generator's rate as a multiple of that of the fastest other tool. `None` if there is no other tool.
    pub fn ratio(&self) -> Option<f64> {
        let best = |is_ours: bool| {
            let tools = self.fastest.iter().filter(|tool| tool.is_ours == is_ours).map(Fastest::median);
            tools.reduce(f64::max)
        };
        Some(best(true)? / best(false)?)
    }

    /// Whether every figure is good enough.
    pub fn is_met(&self) -> bool {
        self.rates.iter().all(Rate::is_met) && self.ratio().is_none_or(|ratio| ratio >= WANTED_RATIO)
    }

    pub fn as_json(&self) -> Value {
        json!({ "results": self, "ratio": self.ratio(), "is_met": self.is_met() })
    }

    pub fn as_table(&self) -> String {
        let columns = ["ASKED/S", "REAL/S", "OFF", "LATE BY: MEAN", "99 %", "MAX", "<"];
        let mut rates = Table::new("Sending at a rate", &columns);
        let time = |us: f64| quantity(us / 1e6, "s");
        for rate in &self.rates {
            let verdict = if rate.is_met() { "good" } else { "not within 0.1 %, or 99 % not within 1 ms" };
            let row = [
                three_digits(rate.asked_pps),
                format!("{:.3}", rate.real_pps),
                format!("{:.4} %", rate.deviation() * 100.0),
                time(rate.mean_us),
                time(rate.p99_us),
                time(rate.max_us),
                verdict.to_owned(),
            ];
            rates.rows.push(row.map(Into::into).to_vec());
        }
        let mut fastest = Table::new("Sending as fast as one processor can", &["<PROGRAM", "PACKETS/S"]);
        for tool in &self.fastest {
            fastest.rows.push(vec![tool.name.into(), format!("{:.0}", tool.median()).into()]);
        }
        if let Some(ratio) = self.ratio() {
            let verdict = if ratio >= WANTED_RATIO { "good" } else { "not good enough" };
            fastest.notes.push(format!(
                "{ratio:.2} times the fastest other program, wanted {WANTED_RATIO}: {verdict}"
            ));
        }
        fastest
            .notes
            .extend(self.missing.iter().map(|tool| format!("{tool} is not installed, and is left out")));
        format!("{}\n{}", rates.to_text(), fastest.to_text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_other_tools_tell_is_read() {
        let line =
            "19700101000000,10.9.0.1,55595,239.18.1.1,5001,1,0.0-2.0,64000000,217454430,0.000,0,-1,-0.000,0";
        assert_eq!(iperf_pps(line), Some(1_000_000.0));
        assert_eq!(iperf_pps("connect failed: Network is unreachable"), None);
        let lines = "sockperf: Test ended\nsockperf: Summary: Message Rate is 608150 [msg/sec]\n";
        assert_eq!((sockperf_pps(lines), sockperf_pps("")), (Some(608_150.0), None));
    }

    #[test]
    fn the_best_of_ours_is_compared_with_the_best_of_theirs() {
        let tool = |name, is_ours, pps: &[f64]| Fastest { name, is_ours, pps: pps.to_vec() };
        let good = Rate { asked_pps: 10.0, real_pps: 10.005, mean_us: 50.0, p99_us: 900.0, max_us: 2000.0 };
        let mut report = Report {
            rates: vec![good],
            fastest: vec![
                tool("a", true, &[5.0, 4.0, 9.0]),
                tool("b", true, &[1.0]),
                tool("c", false, &[2.0]),
            ],
            missing: Vec::new(),
        };
        assert_eq!((report.ratio(), report.is_met()), (Some(2.5), true));
        report.rates[0].real_pps = 10.02;
        assert!(!report.is_met());
        report.fastest.pop();
        assert_eq!(report.ratio(), None);
    }
}
