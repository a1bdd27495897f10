//! The experiments that the repository ships.

use std::path::{Path, PathBuf};

use treecast_experiment::{Experiment, Lab, Place, Preview, Simulator, preview};

fn labs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs")
}

fn load(file: &Path, settings: &[&str]) -> Experiment {
    let settings: Vec<String> = settings.iter().map(|setting| setting.to_string()).collect();
    Experiment::load(file, &settings).unwrap_or_else(|error| panic!("{error}"))
}

/// Files in labs/ that experiments refer to, beside networks.
const NO_EXPERIMENTS: [&str; 3] = ["participants.toml", "mbone-tunnels.toml", "faults.toml"];

/// The runs of an experiment. Planning must not depend on how much memory this machine happens to have.
fn planned(file: &Path, settings: &[&str]) -> Preview {
    let mut experiment = load(file, settings);
    experiment.habits.store = Some("/".into());
    // It has more receivers than a lab.
    let is_simulated = file.ends_with("scale.toml");
    let place: &dyn Place = if is_simulated { &Simulator } else { &Lab };
    preview(place, &experiment).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

#[test]
fn every_experiment_can_be_planned() {
    let mut count = 0;
    let mut folders = vec![labs()];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "toml")
                && !NO_EXPERIMENTS.iter().any(|name| path.ends_with(name))
                && !path.to_string_lossy().ends_with("-network.toml")
            {
                // The tree of 200 groups with 199 members each takes minutes to work out in a debug build.
                let is_large = path.ends_with("uc3-200.toml");
                let settings: &[&str] = if is_large { &["receivers=1"] } else { &["oversize=skip"] };
                let preview = planned(&path, settings);
                assert!(!preview.runs.is_empty() || !preview.left_out.is_empty(), "{}", path.display());
                count += 1;
            }
        }
    }
    assert!(count >= 30, "{count}");
}

#[test]
fn the_matrix_is_every_fanout_with_every_repair_twice() {
    let runs = planned(&labs().join("matrix.toml"), &[]).runs;
    assert_eq!(runs.len(), 30 * 2);
    for fanout in ["multicast", "mead", "xcast", "unicast", "auto"] {
        for repair in ["nack", "after", "local", "carousel", "none", "nack with FEC"] {
            for network in ["clean", "lossy"] {
                let run = format!("{network} {fanout} {repair} immediate 2M #1");
                assert!(runs.contains(&run), "{run} is not in {runs:?}");
            }
        }
    }
}

#[test]
fn a_shared_link_is_contested_in_five_ways() {
    let runs = planned(&labs().join("fairness/link.toml"), &["settle=0ms"]).runs;
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
        let file = labs().join(format!("librecast/{name}.toml"));
        // One byte over what any machine holds, so that the refusal says how many clients there are.
        let experiment = load(&file, &["sizes=1024G", "oversize=refuse"]);
        let refused = preview(&Lab, &experiment).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("{name}: {clients} copies of 1024G do not fit")), "{refused}");
    }
}

#[test]
fn the_demo_is_every_delivery_with_every_schedule_on_both_networks() {
    let demo = load(&labs().join("librecast/demo.toml"), &["sizes=1M"]);
    let runs = preview(&Lab, &demo).unwrap().runs;
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
