//! `treecast send --forecast`: what a delivery will cost, before anything is sent.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde_json::json;
use treecast_experiment::forecast::{Question, forecast};
use treecast_host::quantity::{self, RateText};

use crate::{Outcome, arguments::counted, figures::bytes};

/// The rate of a link and the share of lost packets that are assumed where none is given.
const RATE_BPS: u64 = 100_000_000;
const LOSS: f64 = 0.001;

/// The receivers and the network of a forecast, without what is sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Asked {
    receivers: u32,
    rate_bps: u64,
    loss: f64,
}

/// Reads `RECEIVERS[,RATE[,LOSS]]`.
///
/// # Errors
/// What was expected.
pub fn parse(text: &str) -> Result<Asked, String> {
    let mut parts = text.split(',');
    let mut next = || parts.next();
    let receivers =
        quantity::number(next().unwrap_or_default(), 1..=1_000_000).map_err(|error| error.to_string())?;
    let rate = next().map_or(Ok(RATE_BPS), |rate| quantity::rate_bps(rate, 1_000..=1_000_000_000_000));
    let rate_bps = rate.map_err(|error| error.to_string())?;
    let loss = next()
        .map_or(Ok(LOSS), |loss| quantity::share(loss, 0.0..=0.5))
        .map_err(|error| error.to_string())?;
    match next() {
        None => Ok(Asked { receivers: receivers as u32, rate_bps, loss }),
        Some(_) => Err("write RECEIVERS, RECEIVERS,RATE or RECEIVERS,RATE,LOSS".into()),
    }
}

/// Prints what sending these files would cost.
pub fn run(paths: &[PathBuf], asked: Asked, json: bool) -> Outcome {
    let Asked { receivers, rate_bps, loss } = asked;
    let mut size_bytes = 0;
    for path in paths {
        size_bytes += size_of(path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let answers = forecast(&Question { receivers, size_bytes, rate_bps, loss })?;
    if json {
        for answer in answers {
            let (seconds, sent) = (answer.time.as_secs_f64(), answer.sender_bytes);
            say!(
                "{}",
                json!({ "event": "forecast", "fanout": answer.fanout, "seconds": seconds, "sender_bytes": sent })
            );
        }
        return Ok(ExitCode::SUCCESS);
    }
    say!(
        "{} to {} on one link of {}bit/s that lose {:.2} % of all packets each",
        bytes(size_bytes),
        counted(receivers as usize, "receiver"),
        RateText(rate_bps),
        loss * 100.0
    );
    say!("{:<10}  {:>12}  {:>10}", "FANOUT", "SENT", "TIME");
    for answer in answers {
        let time = format!("{:.1} s", answer.time.as_secs_f64());
        say!("{:<10}  {:>12}  {time:>10}", answer.fanout, bytes(answer.sender_bytes));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the size of a file, or of all files in a folder. Links count nothing.
fn size_of(path: &Path) -> io::Result<u64> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(fs::metadata(path)?.len());
    }
    let mut folders = vec![path.to_owned()];
    let mut total = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            match () {
                () if kind.is_dir() => folders.push(entry.path()),
                () if kind.is_file() => total += entry.metadata()?.len(),
                () => {}
            }
        }
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_read_with_its_rate_and_loss() {
        let asked = |receivers, rate_bps, loss| Ok(Asked { receivers, rate_bps, loss });
        assert_eq!(parse("20"), asked(20, RATE_BPS, LOSS));
        assert_eq!(parse("20,1G"), asked(20, 1_000_000_000, LOSS));
        assert_eq!(parse("20,50M,1%"), asked(20, 50_000_000, 0.01));
        for wrong in ["", "0", "20,fast", "20,1G,200%", "20,1G,1%,1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
