//! The experiments that the repository ships.

use std::path::{Path, PathBuf};

use treecast_experiment::{
    Experiment, preview,
    usecase::{self, UseCases},
};

fn librecast() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/librecast")
}

fn load(file: &Path, settings: &[&str]) -> Experiment {
    let settings: Vec<String> = settings.iter().map(|setting| setting.to_string()).collect();
    Experiment::load(file, &settings).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_experiment_can_be_planned() {
    let files = std::fs::read_dir(librecast()).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    assert!(files.len() >= 9, "{files:?}");
    for file in files {
        let mut experiment = load(&file, &["store=memory", "oversize=skip"]);
        // Planning must not depend on how much memory this machine happens to have.
        experiment.store = Some("/".into());
        let preview = preview(&experiment).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(!preview.runs.is_empty() || !preview.left_out.is_empty(), "{}", file.display());
    }
}

#[test]
fn a_shared_link_is_contested_in_five_ways() {
    let file = librecast().join("../fairness/link.toml");
    let mut experiment = load(&file, &["settle=0ms"]);
    experiment.store = Some("/".into());
    let runs = preview(&experiment).unwrap_or_else(|error| panic!("{error}")).runs;
    let expected = [
        "against-tcp nack",
        "against-auto nack",
        "tcp-against-tcp tcp",
        "alone nack",
        "alone tcp",
        "slower nack",
        "slower tcp",
    ];
    assert_eq!(runs, expected.map(|run| format!("{run} immediate 400M #1")));
}

#[test]
fn the_papers_networks_have_the_papers_clients() {
    for (name, clients) in
        [("S1L20", 20), ("S1L40", 40), ("S1L50", 50), ("S1R1L20", 20), ("S1R3L5", 20), ("S1R3L10", 40)]
    {
        let file = librecast().join(format!("{name}.toml"));
        // One byte over what any machine holds, so that the refusal says how many clients there are.
        let experiment = load(&file, &["sizes=1024G", "oversize=refuse"]);
        let refused = preview(&experiment).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("{name}: {clients} copies of 1024G do not fit")), "{refused}");
    }
}

#[test]
fn the_demo_is_every_delivery_with_every_schedule_on_both_networks() {
    let demo = load(&librecast().join("demo.toml"), &["sizes=1M"]);
    let runs = preview(&demo).unwrap().runs;
    for network in ["S1L20", "S1R3L5"] {
        for delivery in ["tcp", "udp", "scp", "carousel", "after", "nack"] {
            for schedule in ["immediate", "random", "random2"] {
                let run = format!("{network} {delivery} {schedule} 1M #1");
                assert!(runs.contains(&run), "{run} is not in {runs:?}");
            }
        }
    }
    assert_eq!(runs.len(), 2 * 6 * 3);
}

#[test]
fn the_use_cases_of_the_meadcast_thesis_can_be_planned() {
    let folder = librecast().join("../meadcast");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<PathBuf> = files.filter(|file| UseCases::is_one(file)).collect();
    assert!(!files.is_empty());
    for file in files {
        let experiment = UseCases::load(&file, &[]).unwrap_or_else(|error| panic!("{error}"));
        let preview = usecase::preview(&experiment).unwrap_or_else(|error| panic!("{error}"));
        assert!(!preview.runs.is_empty(), "{}", file.display());
    }
}
