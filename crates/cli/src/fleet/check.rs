//! `treecast fleet doctor` and `treecast fleet beacon`.

use std::{process::ExitCode, thread, time::Duration};

use serde_json::{Value, json};
use treecast_fleet::client::Client;

use super::{asked::NOT_ALL_WELL, get, items, post, print_table, text};
use crate::{Outcome, arguments::counted, output};

/// The time between two looks how many hosts have told.
const LOOK: Duration = Duration::from_millis(200);
/// The most hosts with a row and a column each.
const MOST: usize = 40;

/// The arguments of `treecast fleet doctor`.
#[derive(clap::Args)]
pub struct DoctorArgs {
    /// The hosts
    #[arg(value_name = "SELECTION", default_value = "all")]
    select: String,
}

/// The arguments of `treecast fleet beacon`.
#[derive(clap::Args)]
pub struct BeaconArgs {
    /// The hosts, 2 to 200
    #[arg(value_name = "SELECTION", default_value = "all")]
    select: String,
    /// How long they send and listen. From 3 to 60
    #[arg(long, value_name = "S", default_value_t = 10)]
    seconds: u32,
    /// The group and UDP port [default: a random one]
    #[arg(long, value_name = "ADDR:PORT")]
    group: Option<String>,
    /// Show delays in milliseconds instead of losses
    #[arg(long)]
    delay: bool,
}

/// Has hosts look for what hinders multicast there, and prints what each has found.
pub fn doctor(client: &Client, args: &DoctorArgs, json: bool) -> Outcome {
    let body = json!({ "kind": "doctor", "select": args.select });
    let check = follow(client, &body, json)?;
    if json {
        say!("{check}");
        return Ok(exit_code(items(&check["hosts"]).iter().all(is_healthy)));
    }
    for host in items(&check["hosts"]) {
        let name = text(host, "host");
        if let Some(failure) = host["failure"].as_str() {
            say!("{name}: told nothing: {failure}");
        }
        for finding in items(&host["findings"]) {
            say!("{name}: {}: {}: {}", text(finding, "level"), text(finding, "kind"), text(finding, "seen"));
            say!("{name}:   what to do: {}", text(finding, "todo"));
        }
    }
    let healthy = items(&check["hosts"]).iter().filter(|host| is_healthy(host)).count();
    let hosts = items(&check["hosts"]).len();
    say!("{}, {healthy} without a problem", counted(hosts, "host"));
    Ok(exit_code(healthy == hosts))
}

/// Has hosts send to a group and listen, and prints which hears which.
pub fn beacon(client: &Client, args: &BeaconArgs, json: bool) -> Outcome {
    let mut body = json!({ "kind": "beacon", "select": args.select, "seconds": args.seconds });
    if let Some(group) = &args.group {
        body["group"] = json!(group);
    }
    let check = follow(client, &body, json)?;
    match json {
        true => say!("{check}"),
        false => print_matrix(&check, args.delay),
    }
    Ok(exit_code(items(&check["pairs"]).iter().all(|pair| pair["state"] == "well")))
}

fn exit_code(is_well: bool) -> ExitCode {
    if is_well { ExitCode::SUCCESS } else { ExitCode::from(NOT_ALL_WELL) }
}

fn is_healthy(host: &Value) -> bool {
    host["failure"].is_null() && items(&host["findings"]).iter().all(|finding| finding["level"] != "problem")
}

/// Begins a check, and waits until all hosts have told.
fn follow(client: &Client, body: &Value, json: bool) -> Result<Value, Box<dyn std::error::Error>> {
    let begun = post(client, "/api/checks", body)?;
    let bar = output::waiting_bar(json, "waiting for the hosts");
    loop {
        let check = get(client, &format!("/api/checks/{}", begun["id"]))?;
        if check["is_over"] == true {
            bar.finish_and_clear();
            return Ok(check);
        }
        thread::sleep(LOOK);
    }
}

/// Prints a row for each host that hears, and a column for each that sends.
fn print_matrix(check: &Value, is_delay: bool) {
    let pairs = items(&check["pairs"]);
    let mut names: Vec<&str> = items(&check["hosts"]).iter().map(|host| text(host, "host")).collect();
    let more = names.len().saturating_sub(MOST);
    names.truncate(MOST);
    let number = |at: usize| (at + 1).to_string();
    let headings = ["".to_owned(), "HEARS".to_owned()].into_iter().chain((0..names.len()).map(number));
    let mut rows = Vec::new();
    for (row, to) in names.iter().enumerate() {
        let mut cells = vec![number(row), (*to).to_owned()];
        for from in &names {
            let pair = pairs.iter().find(|pair| pair["from"] == **from && pair["to"] == **to);
            cells.push(pair.map_or_else(|| "-".to_owned(), |pair| cell(pair, is_delay)));
        }
        rows.push(cells);
    }
    print_table(headings, rows);
    if more > 0 {
        say!("and {} more: --json has all", counted(more, "host"));
    }
    for host in items(&check["hosts"]) {
        if let Some(failure) = host["failure"].as_str() {
            say!("{}: told nothing: {failure}", text(host, "host"));
        }
    }
    let well = pairs.iter().filter(|pair| pair["state"] == "well").count();
    say!("{} of {} well; rows hear, columns send; {}", well, counted(pairs.len(), "pair"), legend(is_delay));
}

fn legend(is_delay: bool) -> &'static str {
    match is_delay {
        true => "milliseconds, corrected by the clocks of both; x: nothing is heard, ?: not known",
        false => "the share of packets that were lost; x: nothing is heard, ?: not told",
    }
}

fn cell(pair: &Value, is_delay: bool) -> String {
    let value = |key: &str| pair[key].as_f64();
    match (text(pair, "state"), is_delay) {
        ("silent", _) => "x".to_owned(),
        ("unknown", _) => "?".to_owned(),
        (_, true) => {
            value("delay_ms").map_or_else(|| "?".to_owned(), |delay| format!("{:.1}", tenths(delay)))
        }
        (_, false) => value("loss").map_or_else(|| "?".to_owned(), |loss| format!("{:.0}%", loss * 100.0)),
    }
}

/// Rounds to tenths, without a negative zero.
fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0 + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_says_what_is_heard() {
        let pair = json!({ "state": "lossy", "loss": 0.124, "delay_ms": 2.68 });
        assert_eq!((cell(&pair, false), cell(&pair, true)), ("12%".to_owned(), "2.7".to_owned()));
        let none = json!({ "state": "well", "loss": 0.0, "delay_ms": -0.04 });
        assert_eq!(cell(&none, true), "0.0");
        let silent = json!({ "state": "silent", "loss": 1.0, "delay_ms": null });
        assert_eq!((cell(&silent, false), cell(&silent, true)), ("x".to_owned(), "x".to_owned()));
        let unclear = json!({ "state": "well", "loss": 0.0, "delay_ms": null });
        assert_eq!(cell(&unclear, true), "?");
    }
}
