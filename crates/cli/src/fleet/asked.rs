//! `treecast fleet ask`.

use std::{process::ExitCode, thread, time::Duration};

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
