//! Programs that send and count traffic at hosts far away.
//!
//! The engine writes lines to the program's standard input: first a [`Job`], and when all are ready the moment at which it begins
//! ([`Begin`]). The end of that input ends the job. The program prints [`Told`] lines. All lines are JSON.

use std::{
    io::{self, BufRead, Lines, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    Clock, Expected, Flow, FlowPlan, Membership, PORT, Pace, Sent, Sinks, StampedSocket, Tally, send,
};

/// What a program is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Job {
    /// Send a flow.
    Send { plan: FlowPlan, pace: Pace, clock: Clock },
    /// Count what comes.
    Count { membership: Option<Membership>, expected: Expected, clock: Clock },
}

/// The moment at which a run begins.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Begin {
    /// The time since 1970 in nanoseconds, by the run's clock.
    pub at_ns: u64,
}

/// What a program tells.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "told", rename_all = "snake_case")]
pub enum Told {
    /// The socket is open.
    Ready,
    /// The number of packets that have come until now.
    Came {
        packets: u64,
    },
    Sent(Sent),
    /// A part of the [`Tally`] as JSON. Lines have a greatest length.
    Part {
        text: String,
    },
    /// All parts were told.
    Counted,
}

/// The time between two looks whether something was to be told.
const LOOK: Duration = Duration::from_millis(100);

/// The most bytes of a part. As a string of JSON in JSON, it may be twice as long.
const PART_LEN: usize = 24 << 10;

/// Does the job that `input` says.
///
/// # Errors
/// If there is no such job, or it cannot be done at this host.
pub fn run(input: impl BufRead + Send + 'static, output: &mut dyn Write) -> io::Result<()> {
    let mut lines = input.lines();
    let job: Job = next(&mut lines)?.ok_or_else(|| invalid("nothing is to be done"))?;
    match job {
        Job::Send { plan, pace, clock } => send_flow(&plan, &pace, clock, lines, output),
        Job::Count { membership, expected, clock } => {
            count(membership.as_ref(), expected, clock, lines, output)
        }
    }
}

fn send_flow(
    plan: &FlowPlan,
    pace: &Pace,
    clock: Clock,
    mut lines: Lines<impl BufRead + Send + 'static>,
    output: &mut dyn Write,
) -> io::Result<()> {
    if pace.flows == 0 || pace.payload_bytes < super::STAMP_LEN || pace.payload_bytes > usize::from(u16::MAX)
    {
        return Err(invalid("no such pace"));
    }
    let flow = Flow::open(plan)?;
    tell(output, &Told::Ready)?;
    let Some(Begin { at_ns }) = next(&mut lines)? else { return Ok(()) };
    let is_over = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&is_over);
    thread::spawn(move || {
        lines.for_each(drop);
        switch.store(true, Ordering::Relaxed);
    });
    let is_over = || is_over.load(Ordering::Relaxed);
    while !is_over()
        && let Some(left) = Duration::from_nanos(at_ns).checked_sub(clock.now())
    {
        thread::sleep(left.min(LOOK));
    }
    tell(output, &Told::Sent(send(&[flow], pace, clock, &is_over)))
}

fn count(
    membership: Option<&Membership>,
    expected: Expected,
    clock: Clock,
    mut lines: Lines<impl BufRead + Send + 'static>,
    output: &mut dyn Write,
) -> io::Result<()> {
    /// As many as a conference can have members.
    const MOST_FLOWS: usize = 10_000;
    if expected.flows > MOST_FLOWS {
        return Err(invalid("too many flows"));
    }
    let socket = StampedSocket::open(PORT, membership)?;
    let sinks = Arc::new(Sinks::new(vec![socket], expected, clock));
    tell(output, &Told::Ready)?;
    let (listening, told) = (Arc::clone(&sinks), Arc::clone(&sinks));
    thread::spawn(move || {
        while let Ok(Some(Begin { at_ns })) = next(&mut lines) {
            told.begin(Duration::from_nanos(at_ns));
        }
        told.end();
    });
    let counting = thread::spawn(move || listening.run());
    let mut before = 0;
    while !counting.is_finished() {
        thread::sleep(LOOK);
        let packets = sinks.has_come();
        if packets != before {
            before = packets;
            tell(output, &Told::Came { packets })?;
        }
    }
    let tallies = counting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    let text = serde_json::to_string(tallies.first().unwrap_or(&Tally::new(0)))?;
    // JSON of numbers has one byte a character.
    for part in text.as_bytes().chunks(PART_LEN) {
        tell(output, &Told::Part { text: String::from_utf8_lossy(part).into_owned() })?;
    }
    tell(output, &Told::Counted)
}

/// Reads the next line; `None` at the end.
fn next<T: DeserializeOwned>(lines: &mut Lines<impl BufRead>) -> io::Result<Option<T>> {
    let line = lines.next().transpose()?;
    Ok(line.map(|line| serde_json::from_str(&line)).transpose()?)
}

fn tell(output: &mut dyn Write, told: &Told) -> io::Result<()> {
    let mut line = serde_json::to_vec(told)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.flush()
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn what_is_no_job_is_refused() {
        let refused =
            |text: &str| run(Cursor::new(text.to_owned()), &mut Vec::new()).unwrap_err().to_string();
        assert_eq!(refused(""), "nothing is to be done");
        assert!(refused("{\"do\":\"dance\"}\n").contains("unknown variant"));
        let plan = FlowPlan { number: 0, interface: "lo".into(), to: vec![] };
        let pace = Pace { run: 1, flows: 0, payload_bytes: 100, packets: 1, interval: LOOK };
        let job = Job::Send { plan, pace, clock: Clock::default() };
        assert_eq!(refused(&serde_json::to_string(&job).unwrap()), "no such pace");
    }

    #[test]
    fn counts_come_in_parts_and_are_whole() {
        let expected = Expected { run: 1, flows: 300, packets: 640 };
        let job = Job::Count { membership: None, expected, clock: Clock::default() };
        let mut output = Vec::new();
        // The input ends at once, and the counting with it.
        run(Cursor::new(serde_json::to_string(&job).unwrap()), &mut output).unwrap();
        let told = output.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
        let parts = told.filter_map(|told| if let Told::Part { text } = told { Some(text) } else { None });
        let tally: Tally = serde_json::from_str(&parts.collect::<String>()).unwrap();
        assert!(tally.can_be(300, 640) && !tally.can_be(299, 640));
        assert_eq!(tally.packets, 0);
    }
}
