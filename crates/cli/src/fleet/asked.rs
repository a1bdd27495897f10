//! `treecast fleet ask`.

use std::{path::PathBuf, process::ExitCode, thread, time::Duration};

use serde_json::{Value, json};
use treecast_fleet::client::Client;

use super::{get, items, post, text};
use crate::{Outcome, arguments::counted};

/// The time between two looks for answers.
const LOOK: Duration = Duration::from_millis(100);

/// The exit code when a host did not answer, or its program failed.
pub const NOT_ALL_WELL: u8 = 3;

/// The arguments of `treecast fleet ask`.
#[derive(clap::Args)]
pub struct Args {
    /// The hosts to ask
    #[arg(value_name = "SELECTION")]
    select: String,
    /// The longest time of the command
    #[arg(long, value_name = "TIME", default_value = "1m")]
    limit: String,
    /// The command and its arguments
    #[arg(last = true)]
    command: Vec<String>,
}

/// Asks hosts, and prints each answer when it is whole.
pub fn run(client: &Client, args: &Args, json: bool) -> Outcome {
    let Args { select, limit, command } = args;
    let asked = post(client, "/api/asks", &json!({ "select": select, "limit": limit, "command": command }))?;
    let mut failed = 0;
    let hosts = each_answer(client, &asked, &mut |answer| {
        failed += usize::from(!is_well(answer));
        if json { say!("{answer}") } else { print(answer) }
    })?;
    if !json {
        say!("{} asked, {failed} without success", counted(hosts, "host"));
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(NOT_ALL_WELL) })
}

/// The arguments of `treecast fleet batch`.
#[derive(clap::Args)]
pub struct BatchArgs {
    /// The file: a line `SELECTION -- COMMAND...` for each step
    file: PathBuf,
    /// Go on after a step without success
    #[arg(long)]
    keep_going: bool,
    /// The longest time of each command
    #[arg(long, value_name = "TIME", default_value = "1m")]
    limit: String,
}

/// Asks hosts one thing after the other, as a file says (interdomain-2013, 4.6.3: batch mode). The file is read whole before the first
/// step, so that a mistake at its end is told at once.
pub fn batch(client: &Client, args: &BatchArgs, json: bool) -> Outcome {
    let text = treecast_host::text::read(&args.file, 1 << 20)
        .map_err(|error| format!("cannot read {}: {error}", args.file.display()))?;
    let steps = (1..).zip(text.lines()).filter_map(|(number, line)| {
        step(line, &args.limit)
            .map_err(|what| format!("{}:{number}: {what}", args.file.display()))
            .transpose()
    });
    let steps = steps.collect::<Result<Vec<Args>, String>>()?;
    let mut worst = ExitCode::SUCCESS;
    for step in &steps {
        if !json {
            say!("{} -- {}", step.select, step.command.join(" "));
        }
        let code = run(client, step, json)?;
        if code != ExitCode::SUCCESS {
            worst = code;
            if !args.keep_going {
                return Ok(worst);
            }
        }
    }
    Ok(worst)
}

/// Reads a line of a batch file. `None` for an empty line and for a remark behind `#`.
fn step(line: &str, limit: &str) -> Result<Option<Args>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (select, command) = match line.split_once(" -- ") {
        Some((select, command)) => (select, shlex::split(command).ok_or("a quote is not closed")?),
        None => (line, Vec::new()),
    };
    Ok(Some(Args { select: select.trim().to_owned(), limit: limit.to_owned(), command }))
}

/// Calls `each` for each answer to a question once it is whole. Returns the number of hosts.
pub fn each_answer(
    client: &Client,
    asked: &Value,
    each: &mut dyn FnMut(&Value),
) -> Result<usize, Box<dyn std::error::Error>> {
    let path = format!("/api/asks/{}", asked["id"]);
    let mut shown: Vec<String> = Vec::new();
    loop {
        let answers = get(client, &path)?;
        for answer in items(&answers).iter().filter(|answer| answer["is_over"] == true) {
            let host = text(answer, "host");
            if !shown.iter().any(|known| known == host) {
                shown.push(host.to_owned());
                each(answer);
            }
        }
        if shown.len() == items(&answers).len() {
            return Ok(shown.len());
        }
        thread::sleep(LOOK);
    }
}

fn is_well(answer: &Value) -> bool {
    answer.get("failure").is_none() && answer.get("end").is_none_or(|end| end["code"] == 0)
}

fn print(answer: &Value) {
    let host = text(answer, "host");
    for line in items(&answer["lines"]) {
        say!("{host}: {}", line.as_str().unwrap_or_default());
    }
    if let Some(value) = answer.get("value") {
        say!("{host}: {value}");
    }
    if let Some(failure) = answer.get("failure").and_then(Value::as_str) {
        say!("{host}: not done: {failure}");
    }
    let end = &answer["end"];
    text(end, "errors").lines().for_each(|line| say!("{host}: {line}"));
    if end.is_object() && end["code"] != 0 {
        match end["code"].as_i64() {
            Some(code) => say!("{host}: exit code {code}"),
            None => say!("{host}: ended by signal {}", end["signal"]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_batch_file_is_a_question() {
        let read = |line: &str| step(line, "1m").map(|step| step.map(|step| (step.select, step.command)));
        assert_eq!(read("  # a remark"), Ok(None));
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let expected = ("site=kiel and not r1".to_owned(), words(&["echo", "two words"]));
        assert_eq!(read("site=kiel and not r1 -- echo 'two words'"), Ok(Some(expected)));
        assert_eq!(read("all"), Ok(Some(("all".to_owned(), Vec::new()))));
        assert!(read("all -- echo 'open").is_err());
    }
}
