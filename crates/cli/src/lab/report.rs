//! The report of an experiment, written after its runs or again later.
//!
//! The results database does not contain everything that a report needs. The title, the claims and the shapes
//! of the networks are kept in a file beside it.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use treecast_experiment::{Experiment, Network, Results, svg};
use treecast_lab::Role;
use treecast_measure::{
    Db,
    plot::Plot,
    report::{self, Named, Picture, ReportInput},
};

use crate::arguments::counted;

pub const DATABASE: &str = "results.sqlite";
const KEPT: &str = "experiment.json";
const REPORT: &str = "report.html";

/// The parts of a report that are kept in a file beside the database.
pub fn input(experiment: &Experiment, command: &str, results: &Results) -> ReportInput {
    ReportInput {
        title: experiment.title.clone(),
        command: command.into(),
        findings: results.findings.clone(),
        notes: results.left_out.iter().map(|line| format!("Left out: {line}.")).collect(),
        pictures: pictures(experiment),
        names: names(experiment),
        impairments: impairments(experiment),
        plots: experiment.shows.plots.clone(),
        papers: experiment.shows.papers.clone(),
        ..ReportInput::default()
    }
}

/// Writes it to a file in `folder`, beside the database.
pub fn save(input: &ReportInput, folder: &Path) -> Result<(), Box<dyn Error>> {
    let path = folder.join(KEPT);
    let text = serde_json::to_string_pretty(input)?;
    fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}

/// Reads the file in `folder`. If there is none, the report only has the folder's name.
pub fn load(folder: &Path) -> Result<ReportInput, Box<dyn Error>> {
    let path = folder.join(KEPT);
    if !path.exists() {
        let title = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        return Ok(ReportInput { title, ..ReportInput::default() });
    }
    let text = fs::read_to_string(&path)?;
    serde_json::from_str(&text).map_err(|error| format!("{} is damaged: {error}", path.display()).into())
}

fn pictures(experiment: &Experiment) -> Vec<Picture> {
    let networks = experiment.networks.iter();
    // A network that could be built can be drawn.
    let drawn = networks.filter_map(|network| Some((&network.name, network.build().ok()?)));
    drawn.map(|(name, topology)| Picture { network: name.clone(), svg: svg(&topology, name) }).collect()
}

/// The words of schedules and deliveries, and what they mean.
const WORDS: [(&str, &str, &str); 19] = [
    ("schedule", "immediate", "all receivers start at once"),
    (
        "schedule",
        "random",
        "each receiver starts at a random time, within the duration of the run in which all start at once",
    ),
    (
        "schedule",
        "random2",
        "each receiver starts at a random time, within twice the duration of the run in which all start at once",
    ),
    ("delivery", "multicast", "fanout: one packet to a group; routers copy it where ways part"),
    ("delivery", "mead", "fanout: packets with a list of receivers, which MEADcast routers divide"),
    ("delivery", "xcast", "fanout: packets with a list of receivers, which Xcast routers divide"),
    ("delivery", "unicast", "fanout: a copy of each packet to each receiver"),
    ("delivery", "auto", "fanout: the cheapest one that reaches each receiver"),
    ("delivery", "nack", "repair: receivers ask for lost packets, which are sent again meanwhile (VCMTP 2)"),
    ("delivery", "after", "repair: lost packets are sent again when the file has been sent (VCMTP 1)"),
    ("delivery", "local", "repair: receivers mend losses among themselves, in groups (LGMP)"),
    ("delivery", "carousel", "repair: the file is sent again and again until nobody listens"),
    ("delivery", "none", "repair: nothing is sent again"),
    ("delivery", "FEC", "symbols are sent, each of which replaces any lost packet of a stretch of the file"),
    ("delivery", "tcp", "a TCP connection to each receiver"),
    ("delivery", "udp", "whole files over UDP, to each receiver"),
    ("delivery", "scp", "scp to each receiver"),
    ("delivery", "uftp", "the program UFTP"),
    ("delivery", "udpcast", "the program udpcast"),
];

/// What the names of networks, schedules and deliveries mean.
fn names(experiment: &Experiment) -> Vec<Named> {
    let named = |(parameter, name, meaning): (&str, &str, &str)| Named {
        parameter: parameter.into(),
        name: name.into(),
        meaning: meaning.into(),
    };
    let networks = experiment.networks.iter().filter_map(|network| {
        let topology = network.build().ok()?;
        let count = |role| topology.nodes.iter().filter(|node| node.role == role).count();
        let shape = match count(Role::Router) {
            0 => "on one LAN".to_owned(),
            routers => format!("behind {}", counted(routers, "router")),
        };
        let meaning = format!("{} {shape} ({})", counted(count(Role::Client), "receiver"), network.topology);
        Some(named(("network", network.name.as_str(), meaning.as_str())))
    });
    networks.chain(WORDS.into_iter().map(named)).collect()
}

/// Describes each network that has loss or delay.
fn impairments(experiment: &Experiment) -> Vec<String> {
    let told = |network: &Network| {
        let impairments = network.impairments().ok().filter(|list| !list.is_empty())?;
        Some(format!("{}: {}", network.name, impairments.join(", ")))
    };
    experiment.networks.iter().filter_map(told).collect()
}

/// Writes the report of the results in `folder`. Returns the report's path, and a short form for a terminal.
pub fn write(folder: &Path, input: &ReportInput) -> Result<(PathBuf, String), Box<dyn Error>> {
    let path = folder.join(REPORT);
    let db = Db::open(&folder.join(DATABASE))?;
    let report = report::render(&db, input)?;
    fs::write(&path, report.html).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    write_plots(&folder.join("plots"), &report.plots)?;
    Ok((path, report::to_text(&db, input)?))
}

/// Writes each plot to a file of its own, for a talk or a paper, and its values to another, for a spreadsheet.
fn write_plots(folder: &Path, plots: &[Plot]) -> Result<(), Box<dyn Error>> {
    let failed = |error| format!("cannot write the plots into {}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(failed)?;
    for plot in plots {
        fs::write(folder.join(format!("{}.svg", plot.name)), &plot.svg).map_err(failed)?;
        if !plot.csv.is_empty() {
            fs::write(folder.join(format!("{}.csv", plot.name)), &plot.csv).map_err(failed)?;
        }
    }
    Ok(())
}
