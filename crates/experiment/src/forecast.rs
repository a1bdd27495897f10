//! Forecasts: how long a delivery takes and what leaves its sender, by fanout, before anything is sent.
//!
//! The simulator delivers a smaller object to fewer receivers on one LAN, with the protocol machines of real sessions. Its results are
//! scaled to the real size and number.

use std::{path::Path, time::Duration};

use crate::{
    Error, Place,
    document::Experiment,
    simulate::{Simulation, Simulator},
};

/// The largest object and the most receivers that are simulated, so that a forecast takes seconds at most.
const MOST_BYTES: u64 = 4_000_000;
const MOST_RECEIVERS: u32 = 50;
/// The smallest object that is simulated. Times of smaller ones are those of this one.
const LEAST_BYTES: u64 = 100_000;
/// The share of a link's rate that a session fills.
const FILLED: f64 = 0.9;

/// The delivery that is asked about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Question {
    pub receivers: u32,
    pub size_bytes: u64,
    /// The rate of the sender's link, in bits per second.
    pub rate_bps: u64,
    /// The share of packets that each receiver loses, from 0 to 1.
    pub loss: f64,
}

/// The cost of a delivery by one fanout.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub fanout: &'static str,
    /// The time until the last receiver has everything.
    pub time: Duration,
    /// The bytes of frames that leave the sender.
    pub sender_bytes: u64,
}

/// Forecasts a delivery by multicast and by unicast.
///
/// # Errors
/// If the simulator cannot make such a delivery, such as one with a loss of 1.
pub fn forecast(question: &Question) -> Result<Vec<Answer>, Error> {
    if question.receivers == 0 {
        return Ok(Vec::new());
    }
    ["multicast", "unicast"].into_iter().map(|fanout| answer(question, fanout)).collect()
}

fn answer(question: &Question, fanout: &'static str) -> Result<Answer, Error> {
    let receivers = question.receivers.min(MOST_RECEIVERS);
    let size_bytes = question.size_bytes.clamp(LEAST_BYTES, MOST_BYTES);
    let text = document(question, fanout, receivers, size_bytes);
    let experiment = Experiment::parse(&text, "the forecast", Path::new("."), &[])?;
    let plan = Simulator.plan(&experiment)?;
    let failed = |what: String| Error::Run {
        run: format!("the forecast of {fanout}"),
        error: std::io::Error::other(what),
    };
    let planned = plan.runs.first().ok_or_else(|| failed("nothing is to be simulated".into()))?;
    let waits = vec![Duration::ZERO; planned.clients()];
    let simulation = Simulation { experiment: &experiment, plan: &plan, planned, waits: &waits };
    let made = planned.work.simulate(&simulation).map_err(failed)?;
    if let Some((node, why)) = made.outcome.failures.first() {
        return Err(failed(format!("{node}: {why}")));
    }
    let sent = made.outcome.carried.map_or(0, |carried| carried.sender);
    let seconds = made.clients.iter().filter_map(|client| client.run_seconds()).fold(0.0, f64::max);
    // What is sent once stays the same, whoever receives it; what is sent to each grows with their number.
    let more = f64::from(question.receivers) / f64::from(receivers);
    let size = size_bytes as f64;
    let once = if fanout == "multicast" { size.min(sent as f64) } else { 0.0 };
    let of_all = once + (sent as f64 - once) * more;
    let larger = question.size_bytes as f64 / size;
    Ok(Answer {
        fanout,
        time: Duration::from_secs_f64(seconds * larger.max(1.0) * of_all / (sent as f64).max(1.0)),
        sender_bytes: (of_all * larger) as u64,
    })
}

/// Returns the experiment of a forecast.
fn document(question: &Question, fanout: &str, receivers: u32, size_bytes: u64) -> String {
    let Question { rate_bps, loss, .. } = question;
    let rate = (*rate_bps as f64 * FILLED) as u64;
    let loss = loss * 100.0;
    format!(
        "title = \"forecast\"\nrate = \"{rate}\"\ntimeout = \"1h\"\n\
         workload = {{ kind = \"files\", sizes = [\"{size_bytes}\"] }}\n\
         network = [{{ name = \"N\", topology = \"lan:clients={receivers},rate={rate_bps},loss={loss}%\" }}]\n\
         delivery = [{{ fanout = \"{fanout}\", repair = \"nack\" }}]\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multicast_costs_once_what_unicast_costs_for_each() {
        let question = Question { receivers: 20, size_bytes: 2_000_000, rate_bps: 100_000_000, loss: 0.001 };
        let of = |question: Question| {
            let answers = forecast(&question).unwrap();
            let cost = |index: usize| {
                let answer: &Answer = &answers[index];
                (answer.time.as_secs_f64(), answer.sender_bytes as f64)
            };
            (cost(0), cost(1))
        };
        let ((time, bytes), (unicast_time, unicast_bytes)) = of(question);
        assert!((2.0e6..2.6e6).contains(&bytes), "{bytes}");
        assert!((40e6..52e6).contains(&unicast_bytes), "{unicast_bytes}");
        assert!((0.16..1.5).contains(&time) && unicast_time > 3.0 * time, "{time} s, {unicast_time} s");
        // Ten times as many receivers of a file that is a thousand times as large.
        let ((later, more), (_, unicast_more)) =
            of(Question { receivers: 200, size_bytes: 2_000_000_000, ..question });
        assert!((2.0e9..3.5e9).contains(&more), "{more}");
        assert!(later > 170.0 && (400e9..520e9).contains(&unicast_more), "{later} s, {unicast_more}");
        assert!(forecast(&Question { receivers: 0, ..question }).unwrap().is_empty());
        assert!(forecast(&Question { loss: 1.5, ..question }).is_err());
    }
}
