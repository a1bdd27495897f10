//! A new paper's experiment is a file and a data file, and no Rust: one is made up here. What is wrong in them is one line.

use std::{fs, path::PathBuf};

use treecast_experiment::{Experiment, Lab, preview};

const EXPERIMENT: &str = r#"
title = "How many listeners a whisper reaches: table 7 of a paper that nobody wrote"
settle = "0ms"
papers = [{ file = "whisper.tsv", figures = ["table 7"] }]

[workload]
kind = "files"
sizes = ["1M"]

[[network]]
name = "room"
topology = "lan:clients=4,rate=10M"

[[delivery]]
name = "whisper"
fanout = "multicast"
repair = "after"

[[delivery]]
name = "shout"
fanout = "unicast"
repair = "nack"

[[claim]]
says = "a whisper takes no longer than in the paper"
holds = 'median(time{delivery = "whisper"}) <= paper(time{delivery = "whisper"})'
where = { size = "1Mi" }

[[plot]]
title = "How long listeners wait"
kind = "bars"
x = "receivers"
y = "time"
paper = { file = "whisper.tsv", figure = "table 7" }
"#;

const FIGURES: &str = "# source: nobody-2031\nfigure\tmeasure\tvalue\tunit\tdelivery\treceivers\n\
                       table 7\ttime\t0.9\ts\twhisper\t4\ntable 7\ttime\t3.6\ts\tshout\t4\n";

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

/// The runs of the made-up experiment, with `changes` made to its files; or why it is refused.
fn planned(test: &str, changes: &[(&str, &str)]) -> Result<Vec<String>, String> {
    let folder = Folder(std::env::temp_dir().join(format!("treecast-made-up-{test}-{}", std::process::id())));
    fs::create_dir_all(&folder.0).unwrap();
    let (mut experiment, mut figures) = (EXPERIMENT.to_owned(), FIGURES.to_owned());
    for (from, to) in changes {
        assert!(experiment.contains(from) || figures.contains(from), "{from}");
        (experiment, figures) = (experiment.replace(from, to), figures.replace(from, to));
    }
    fs::write(folder.0.join("whisper.toml"), experiment).unwrap();
    fs::write(folder.0.join("whisper.tsv"), figures).unwrap();
    let mut experiment =
        Experiment::load(&folder.0.join("whisper.toml"), &[]).map_err(|error| error.to_string())?;
    experiment.habits.store = Some("/".into());
    preview(&Lab, &experiment).map(|preview| preview.runs).map_err(|error| error.to_string())
}

#[test]
fn a_paper_that_nobody_wrote_can_be_planned() {
    let runs = planned("whole", &[]).unwrap();
    assert_eq!(runs, ["room whisper immediate 1M #1", "room shout immediate 1M #1"]);
}

#[test]
fn a_carousel_may_have_several_rates() {
    let carousel = "repair = \"carousel\"\nfec = \"auto\"\nrate = \"8M,1M\"";
    let runs = planned("rates", &[("repair = \"after\"", carousel)]).unwrap();
    assert_eq!(runs[0], "room whisper immediate 1M #1");
}

#[test]
fn what_is_wrong_in_a_claim_or_a_data_file_is_one_line() {
    let refused = |test: &str, from: &str, to: &str| {
        let line = planned(test, &[(from, to)]).unwrap_err();
        assert_eq!(line.lines().count(), 1, "{line}");
        line
    };
    let unknown = refused("measure", "'median(time{", "'median(patience{");
    assert!(unknown.contains("`patience`") && unknown.contains("network_bytes"), "{unknown}");
    let figure = refused("figure", "\t4\n", "\t400\n");
    assert!(figure.contains("whisper.tsv"), "{figure}");
    let measure = refused("paper", "7\ttime\t0.9\ts", "7\tpatience\t0.9\ts");
    assert!(measure.starts_with("whisper.tsv: line 3: no run measures `patience`, and"), "{measure}");
    let unit = refused("unit", "7\ttime\t0.9\ts", "7\ttime\t0.9\tMB");
    assert!(unit.contains("whisper.tsv: line 3: `time` cannot be in `MB`"), "{unit}");
    for key in ["timeout", "sample"] {
        let time = refused(key, "settle = \"0ms\"\n", &format!("settle = \"0ms\"\n{key} = \"0s\"\n"));
        assert!(time.contains(&format!("whisper.toml: {key} is 0s: expected more")), "{time}");
    }
    let file = refused("file", "papers = [{ file = \"whisper.tsv\"", "papers = [{ file = \"no.tsv\"");
    assert!(file.contains("whisper.toml: papers: cannot read no.tsv (looked for beside "), "{file}");
    let missing = refused("missing", "figures = [\"table 7\"]", "figures = [\"table 8\"]");
    assert!(missing.contains("table 8"), "{missing}");
}

/// The units of every data file are known, and no line of one is cut.
#[test]
fn every_data_file_of_labs_can_be_read() {
    let labs = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs"));
    let folders = ["librecast", "meadcast", "vcmtp"].map(|folder| fs::read_dir(labs.join(folder)).unwrap());
    let files = folders.into_iter().flatten().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|end| end == "toml"));
    let has_papers = |path: &PathBuf| fs::read_to_string(path).unwrap().contains("\npapers = ");
    let files: Vec<PathBuf> = files.filter(has_papers).collect();
    assert!(files.len() > 10, "{files:?}");
    for file in files {
        let experiment = Experiment::load(&file, &[]).unwrap_or_else(|error| panic!("{error}"));
        assert!(!experiment.shows.papers.papers.is_empty());
    }
}

#[test]
fn a_delivery_that_cannot_be_is_refused_with_its_cell() {
    let refused = |test: &str, from: &str, to: &str| {
        let line = planned(test, &[(from, to)]).unwrap_err();
        assert_eq!(line.lines().count(), 1, "{line}");
        line.split_once("whisper.toml: ").map(|(_, what)| what.to_owned()).unwrap_or(line)
    };
    assert_eq!(
        refused("plus", "fanout = \"unicast\"\n", "fanout = \"xcast-plus\"\n"),
        "shout in room cannot be: xcast-plus delivers streams alone: take xcast or auto"
    );
    assert_eq!(
        refused(
            "stream",
            "kind = \"files\"\nsizes = [\"1M\"]",
            "kind = \"stream\"\nrates = [\"1M\"]\nseconds = 1"
        ),
        "whisper in room cannot be: nothing mends a stream: leave out repair and fec"
    );
    let rising = refused("rising", "repair = \"after\"\n", "repair = \"after\"\nrate = \"1M,8M\"\n");
    let end = ": name one rate";
    let expected = "whisper in room cannot be: several rates are fixed, 2 to 8 of them, and each is lower";
    assert!(rising.starts_with(expected));
    assert_eq!(
        refused("copies", "repair = \"nack\"\n", "repair = \"carousel\"\nrate = \"8M,1M\"\n"),
        format!("shout in room cannot be: several rates need multicast groups{end}")
    );
    assert_eq!(
        refused("answers", "repair = \"nack\"\n", "repair = \"carousel\"\nrate = \"auto\"\n"),
        "shout in room cannot be: nobody answers it, and the rate needs answers: name a rate"
    );
    let unknown = refused("unknown", "fanout = \"unicast\"\n", "fanout = [\"multi\"]\n");
    assert!(unknown.contains("`multi`, expected one of `multicast`, `mead`"), "{unknown}");
}

#[test]
fn a_file_in_the_format_of_before_is_told_what_to_change() {
    let refused = |test: &str, changes: &[(&str, &str)]| planned(test, changes).unwrap_err();
    let sizes = refused("old-sizes", &[("[workload]\nkind = \"files\"\nsizes", "sizes")]);
    assert!(sizes.contains("put sizes under [workload] with kind = \"files\""), "{sizes}");
    let claim = (
        "holds = 'median(time{delivery = \"whisper\"}) <= paper(time{delivery = \"whisper\"})'",
        "of = { network = \"room\" }",
    );
    let claim = refused("old-claim", &[claim]);
    assert!(claim.contains("`claim.of` belongs to the old format: say what holds"), "{claim}");
}

#[test]
fn a_claim_about_a_size_that_the_command_line_took_away_is_no_mistake() {
    let folder = Folder(std::env::temp_dir().join(format!("treecast-made-up-set-{}", std::process::id())));
    fs::create_dir_all(&folder.0).unwrap();
    fs::write(folder.0.join("whisper.toml"), EXPERIMENT).unwrap();
    fs::write(folder.0.join("whisper.tsv"), FIGURES).unwrap();
    let settings = ["sizes=2M".to_owned(), "store=/".to_owned()];
    let experiment = Experiment::load(&folder.0.join("whisper.toml"), &settings).unwrap();
    assert_eq!(preview(&Lab, &experiment).unwrap().runs.len(), 2);
}
