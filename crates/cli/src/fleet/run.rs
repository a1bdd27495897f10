//! Experiments over a fleet: `treecast lab run --site fleet:SELECTION`, and the list of runs.

use std::{fs, path::Path, thread, time::Duration};

use serde_json::{Value, json};
use treecast_experiment::{Preview, Results};
use treecast_host::stop::Stop;

use super::{Way, get, items, post, print_table, text};

/// The time between two looks how a run goes.
const LOOK: Duration = Duration::from_millis(250);

/// An experiment for a fleet.
pub struct AtFleet<'a> {
    pub file: &'a Path,
    pub settings: &'a [String],
    /// The name of the results.
    pub name: &'a str,
    /// The hosts.
    pub select: &'a str,
    /// The way to the manager.
    pub way: &'a Way,
}

impl AtFleet<'_> {
    fn order(&self) -> Result<Value, Box<dyn std::error::Error>> {
        let file = fs::read_to_string(self.file)
            .map_err(|error| format!("cannot read experiment {}: {error}", self.file.display()))?;
        let base = self.file.canonicalize()?.parent().map(Path::to_path_buf).unwrap_or_default();
        let (name, settings, select) = (self.name, self.settings, self.select);
        Ok(json!({ "name": name, "file": file, "base": base, "settings": settings, "select": select }))
    }

    /// Returns what the experiment would do.
    pub fn plan(&self) -> Result<Preview, Box<dyn std::error::Error>> {
        let client = self.way.client()?;
        Ok(serde_json::from_value(post(&client, "/api/runs/plan", &self.order()?)?)?)
    }

    /// Runs the experiment, and writes its database. Ctrl-C ends the run at the manager.
    pub fn run(&self, database: &Path, json: bool) -> Result<Results, Box<dyn std::error::Error>> {
        let client = self.way.client()?;
        let stop = Stop::on_signals()?;
        let ordered = post(&client, "/api/runs", &self.order()?)?;
        let path = format!("/api/runs/{}", ordered["id"]);
        let (mut shown, mut is_aborted) = (0, false);
        let run = loop {
            let run = get(&client, &path)?;
            let events = items(&run["events"]);
            events.iter().skip(shown).for_each(|event| show(event, json));
            shown = events.len();
            if matches!(text(&run, "state"), "done" | "aborted" | "failed") {
                break run;
            }
            if stop.is_requested() && !is_aborted {
                is_aborted = true;
                post(&client, &format!("{path}/abort"), &json!({}))?;
            }
            thread::sleep(LOOK);
        };
        let Some(results) = run.get("results").filter(|results| results.is_object()) else {
            return Err(
                format!("run {}: {}", run["id"], run["reason"].as_str().unwrap_or("it was aborted")).into()
            );
        };
        let bytes = super::wait(client.bytes_of(&format!("{path}/results")))?;
        fs::write(database, bytes)
            .map_err(|error| format!("cannot write {}: {error}", database.display()))?;
        Ok(serde_json::from_value(results.clone())?)
    }
}

fn show(event: &Value, json: bool) {
    if json {
        return say!("{event}");
    }
    let run = text(event, "run");
    match text(event, "event") {
        "planned" => items(&event["left_out"])
            .iter()
            .for_each(|line| remark!("left out: {}", line.as_str().unwrap_or_default())),
        "started" => remark!("{run}: run {} of {}", event["number"], event["of"]),
        "finished" => match event["refused"].as_str() {
            Some(reason) => remark!("{run}: refused: {reason}"),
            None => remark!("{run}: {}", text(event, "says")),
        },
        _ => {}
    }
}

/// Prints a list of runs.
pub fn print_runs(runs: &Value) {
    let mut rows = Vec::new();
    for run in items(runs) {
        let how = run["reason"].as_str().unwrap_or("-");
        let of = |key: &str| text(run, key).to_owned();
        rows.push([run["id"].to_string(), of("name"), of("select"), of("state"), how.to_owned()]);
    }
    print_table(["RUN", "NAME", "HOSTS", "STATE", "HOW"], rows);
}
