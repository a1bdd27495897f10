//! The costs that no delivery can avoid: three costs, each measured alone, and added up.

use std::time::Duration;

use serde::Serialize;

use super::{
    crew::Crew,
    stage::{Result, Stage},
    worker::LOST,
};

/// The time that each cost takes for the whole file, in seconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Floor {
    /// Sending the file through super-packet sockets, from one sender to all receivers.
    pub network_seconds: f64,
    /// Writing the file to memory, by as many processes as there are receivers.
    pub write_seconds: f64,
    /// Hashing the file with BLAKE3, by as many processes as there are receivers.
    pub hash_seconds: f64,
}

impl Floor {
    pub fn seconds(&self) -> f64 {
        self.network_seconds + self.write_seconds + self.hash_seconds
    }
}

pub(super) fn measure(stage: &Stage) -> Result<Floor> {
    let network = network_unless_lost(stage)?;
    let write = write(stage, stage.bytes)?;
    let hash = Crew::measure(stage, |_| vec!["hash".into(), stage.bytes.to_string()])?;
    Ok(Floor {
        network_seconds: network.as_secs_f64(),
        write_seconds: write.as_secs_f64(),
        hash_seconds: hash.as_secs_f64(),
    })
}

/// Measures the network. A lost packet spoils a measurement, because nothing is repaired; it is then repeated.
fn network_unless_lost(stage: &Stage) -> Result<Duration> {
    const ATTEMPTS: usize = 5;
    let mut result = network(stage);
    for _ in 1..ATTEMPTS {
        match &result {
            Err(error) if error.to_string().contains(LOST) => result = network(stage),
            _ => break,
        }
    }
    result
}

fn network(stage: &Stage) -> Result<Duration> {
    let (bytes, receivers) = (stage.bytes.to_string(), stage.receivers.to_string());
    let group = "[ff15::7472:6565]:21999";
    let mut crew = Crew::default();
    let interface = stage.interface("server0")?;
    let port = crew.hire(stage, "server0", &["send", &interface, group, &receivers, &bytes])?;
    let control = format!("[{}]:{port}", stage.sender_address()?);
    for client in stage.clients() {
        let interface = stage.interface(&client)?;
        crew.hire(stage, &client, &["receive", &interface, group, &control, &bytes])?;
    }
    crew.go(&stage.lab.stop)
}

/// Makes every receiver write this many bytes to a file at the same time.
pub(super) fn write(stage: &Stage, bytes: u64) -> Result<Duration> {
    Crew::measure(stage, |folder| {
        vec!["write".into(), folder.join("written").to_string_lossy().into(), bytes.to_string()]
    })
}
