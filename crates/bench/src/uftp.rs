//! Debian's uftp in the same network, at the best rate at which it serves everyone.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use serde::Serialize;

use super::{
    crew::Crew,
    stage::{self, Result, Stage},
};

/// The first rate, in Mbit/s. Each further one is half as much again, until the goodput gets no better; then
/// rates around the best one are tried.
const FIRST_RATE_MBPS: u32 = 100;
const LAST_RATE_MBPS: u32 = 2000;

/// The divisor of the file's size. A smaller file is enough to measure uftp.
const SHARE: u64 = 4;

const TIME_LIMIT_SECONDS: &str = "90";

/// The results at each rate.
#[derive(Debug, Clone, Serialize)]
pub struct Uftp {
    pub attempts: Vec<Attempt>,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub struct Attempt {
    pub rate_mbps: u32,
    /// The goodput at each receiver in bits a second, by uftp's own clock. 0 if not all receivers were served.
    pub goodput_bps: f64,
}

impl Uftp {
    fn try_rate(&mut self, stage: &Stage, source: &Path, rate_mbps: u32) -> Result<f64> {
        stage.lab.go_on()?;
        let goodput_bps = attempt(stage, source, rate_mbps)?;
        self.attempts.push(Attempt { rate_mbps, goodput_bps });
        Ok(goodput_bps)
    }

    pub fn best(&self) -> Option<Attempt> {
        self.attempts.iter().copied().max_by(|a, b| a.goodput_bps.total_cmp(&b.goodput_bps))
    }
}

/// Checks that uftp is installed, before anything is measured.
pub(super) fn check() -> Result<()> {
    // Without arguments, uftp only prints how it is used.
    Command::new("uftp").output().map(drop).map_err(|error| missing(error.into()).into())
}

pub(super) fn measure(stage: &Stage) -> Result<Uftp> {
    let source = stage.path("for-uftp");
    let bytes = stage.bytes / SHARE;
    stage::fill(&source, bytes)?;
    let mut rate_mbps = FIRST_RATE_MBPS;
    let mut uftp = Uftp { attempts: Vec::new() };
    let mut worse = 0;
    // The search ends after two rates in a row that are no better, because uftp only retransmits more at higher
    // rates.
    while rate_mbps <= LAST_RATE_MBPS && worse < 2 {
        let best = uftp.best().map_or(0.0, |attempt| attempt.goodput_bps);
        let goodput_bps = uftp.try_rate(stage, &source, rate_mbps)?;
        worse = if goodput_bps > best { 0 } else { worse + 1 };
        rate_mbps = rate_mbps * 3 / 2;
    }
    // Rates between the steps are tried, and the best one once more.
    let best = uftp.best().map_or(FIRST_RATE_MBPS, |attempt| attempt.rate_mbps);
    for rate_mbps in [best * 4 / 5, best, best * 5 / 4] {
        uftp.try_rate(stage, &source, rate_mbps)?;
    }
    Ok(uftp)
}

/// Makes one transfer to all receivers.
fn attempt(stage: &Stage, source: &Path, rate_mbps: u32) -> Result<f64> {
    let mut crew = Crew::default();
    for client in stage.clients() {
        let folder = stage.folder(&client)?;
        let mut command = Command::new("uftpd");
        command.args(["-d", "-B", "16777216", "-I", &stage.interface(&client)?, "-D"]).arg(&folder);
        crew.add(stage.lab.start(&client, &client, command).map_err(missing)?);
    }
    std::thread::sleep(Duration::from_millis(500));
    let interface = stage.interface("server0")?;
    // At a rate far too high, uftp would go on for minutes.
    let mut command = Command::new("timeout");
    command.args([
        TIME_LIMIT_SECONDS,
        "uftp",
        "-R",
        &(rate_mbps * 1000).to_string(),
        "-B",
        "16777216",
        "-b",
        "1400",
        "-I",
        &interface,
    ]);
    command.arg(source);
    // uftp logs to its standard error.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let sender = stage.lab.get()?.spawn("server0", command).map_err(|error| missing(error.into()))?;
    let output = String::from_utf8_lossy(&sender.wait_with_output()?.stderr).into_owned();
    let lines: Vec<String> = output.lines().map(str::to_owned).collect();
    drop(crew);
    let served = stage.clients().filter(|client| is_served(stage, client, source)).count();
    for client in stage.clients() {
        stage.folder(&client)?;
    }
    Ok(if served == stage.receivers as usize { throughput_bps(&lines).unwrap_or(0.0) } else { 0.0 })
}

fn is_served(stage: &Stage, client: &str, source: &Path) -> bool {
    let copy = stage.path(client).join(source.file_name().unwrap_or_default());
    let size = |path: &Path| std::fs::metadata(path).map(|file| file.len()).ok();
    size(&copy).is_some() && size(&copy) == size(source)
}

fn missing(error: Box<dyn std::error::Error>) -> String {
    format!("{error}; install uftp (`apt-get install uftp`) or leave it out with --no-uftp")
}

/// Parses uftp's line `Overall throughput: 14426.71 KB/s`.
fn throughput_bps(lines: &[String]) -> Option<f64> {
    let kilobytes = lines.iter().find_map(|line| {
        line.split_once("Overall throughput:")?.1.trim().strip_suffix("KB/s")?.trim().parse::<f64>().ok()
    })?;
    Some(kilobytes * 1024.0 * 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_throughput_is_read() {
        let lines = ["Total elapsed time: 18.171 seconds", "Overall throughput: 1000.00 KB/s"];
        let lines = lines.map(str::to_owned);
        assert_eq!(throughput_bps(&lines), Some(8_192_000.0));
        assert_eq!(throughput_bps(&lines[..1]), None);
    }
}
