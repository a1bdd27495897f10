//! `treecast sim run`: experiments in virtual time. Needs no root.

use std::{fs, process::Output};

use crate::session::{Scratch, assert_says, only_refused};
use serde_json::Value;
use treecast_measure::Db;

/// Every fanout with every repair, to six receivers behind two levels of routers that lose 2 % each.
const EXPERIMENT: &str = r#"
title = "every cell, in virtual time"
rate = "8M"
sample = "100ms"

[workload]
kind = "files"
sizes = ["300K"]

[[network]]
name = "lossy"
topology = "tree:levels=2,clients=3,rate=50M,delay=1ms"
loss = [{ rate = "2%" }]

[[delivery]]
fanout = ["multicast", "mead", "xcast", "unicast", "auto"]
repair = ["nack", "after", "carousel", "none"]
fec = "none"

[[delivery]]
fanout = "multicast"
repair = "nack"
fec = "auto"

[[claim]]
says = "every copy is whole but for those that nothing mends"
holds = 'max(missing{repair != "none"}) <= 0'

[[claim]]
says = "where nothing is mended, what is lost lacks"
holds = 'mean(missing{repair = "none"}) >= 0.5%'

[[claim]]
says = "lists take fewer bytes on all links than a copy for each, and multicast the fewest"
holds = 'median(network_bytes{delivery = "multicast nack"}) / median(network_bytes{delivery = "unicast nack"}) <= 0.6'
"#;

/// A folder with an experiment in it.
struct Folder(Scratch);

impl Folder {
    fn new(experiment: &str) -> Self {
        let scratch = Scratch::new();
        fs::write(scratch.path("test.toml"), experiment).unwrap();
        Self(scratch)
    }

    fn run(&self, options: &str) -> Output {
        self.0.command(format!("sim run test.toml --json {options}")).output().unwrap()
    }

    fn refuses(&self, settings: &[&str], expected: &str) {
        let mut command = self.0.command("sim run test.toml --json");
        settings.iter().for_each(|setting| _ = command.args(["--set", setting]));
        only_refused(&mut command, &[expected]);
    }

    /// All rows and parameters of a results database, as text.
    fn kept(&self, out: &str) -> String {
        let db = Db::open(&self.0.path(out).join("results.sqlite")).unwrap();
        let runs = db.runs().unwrap();
        let of = |run: &treecast_measure::db::Run| {
            format!("{:?} {} {:?}\n{:?}", run.parameters, run.seed, run.duration, db.rows(run.id).unwrap())
        };
        runs.iter().map(of).collect::<Vec<_>>().join("\n")
    }
}

fn events(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Runs an experiment twice, and checks that its claims hold and that both give the same. Returns what was told.
fn holds_and_repeats(experiment: &str, runs: u64) -> (Folder, Vec<Value>) {
    let folder = Folder::new(experiment);
    let output = folder.run("--out one");
    let mut told = events(&output);
    let done = told.pop().unwrap();
    assert_eq!((output.status.code(), &done["whole_runs"]), (Some(0), &runs.into()), "{done}");
    let mut again = events(&folder.run("--out two"));
    again.pop();
    assert_eq!((&told, folder.kept("one")), (&again, folder.kept("two")));
    (folder, told)
}

#[test]
fn every_cell_is_whole_and_the_same_seed_gives_the_same_results() {
    let (folder, told) = holds_and_repeats(EXPERIMENT, 21);
    let one = folder.kept("one");
    assert_says(&one, &[r#""site": "sim""#]);
    // Added to the same results, as another column of the same tables.
    let other = folder.run("--out two --append --seed 7");
    assert_eq!(other.status.code(), Some(0));
    assert!(folder.kept("two").starts_with(&one));
    assert_ne!(told[..], events(&other)[..told.len()]);
}

/// A shared link that loses everything for three seconds holds up all receivers behind it.
#[test]
fn a_link_loses_what_a_trace_file_says() {
    let trace = r#"{ name = "trace", repair = "nack", events = [{ at = "0s", fault = "lose", node = "router0", trace = "loss.tsv" }] }"#;
    let folder = Folder::new(EXPERIMENT);
    fs::write(folder.0.path("loss.tsv"), "# all, and then nothing\n0.1 100%\n3.1 0%\n30 end\n").unwrap();
    let delivery = format!("delivery=[{{ name = \"clean\", repair = \"nack\" }}, {trace}]");
    let later = r#"claim=[{ says = "later", holds = 'min(time{delivery = trace}) - max(time{delivery = clean}) >= 1' }, { says = "whole", holds = 'max(missing) <= 0' }]"#;
    let settings =
        [delivery.as_str(), later, "network=[{name=\"n\",topology=\"tree:levels=1,clients=3,rate=50M\"}]"];
    let mut command = folder.0.command("sim run test.toml --json");
    settings.iter().for_each(|setting| _ = command.args(["--set", setting]));
    let output = command.output().unwrap();
    let told = events(&output);
    assert_eq!((output.status.code(), &told.last().unwrap()["whole_runs"]), (Some(0), &2.into()), "{told:?}");
}

/// Settings, and what is said of them.
const REFUSED: &str = r#"
network=[{name="n",topology="apart.toml"}] ; deliveries=nack => no link leads from client0 to server0: add one
network=[{name="n",topology="lan:clients=2,loss=140%"}] ; deliveries=nack => a percentage like 5%
network=[{name="n",topology="star:clients=2"}] ; deliveries=nack => star
deliveries=scp => the simulator has no program scp: leave the delivery out (--set deliveries=...)
rate=auto ; deliveries=nack => no rate auto: name one rate, such as 5M
delivery=[{name="t",events=[{at="0s",fault="lose",node="client0",trace="cut.tsv"}]}] ; deliveries=t => trace cut.tsv: it is cut short: the last line must be `SECONDS end`
workload={kind="feed",objects=3} ; deliveries=carousel => a feed needs a session of treecast with repair nack or after
workload={kind="conference",rates=["1M"],seconds=1} ; delivery=[{fanout="multicast"}] => in a conference all members send, and multicast's group is for one sender: take unicast, mead or xcast
workload={kind="stream",rates=["1M"],seconds=1,payload=1400} ; delivery=[{fanout="mead"}] => no room for a payload of 1400 bytes beside a whole list
"#;

#[test]
fn what_the_simulator_has_not_is_refused_by_name() {
    let folder = Folder::new(EXPERIMENT);
    fs::write(
        folder.0.path("apart.toml"),
        "[nodes]\nserver0 = { role = \"server\" }\nclient0 = { role = \"client\" }\nr = { role = \"router\", count = 2 }\n\
         [links.a]\nnodes = [\"server0\", \"r0\"]\n[links.b]\nnodes = [\"client0\", \"r1\"]\n",
    )
    .unwrap();
    fs::write(folder.0.path("cut.tsv"), "0 5%\n1 0%\n").unwrap();
    for row in REFUSED.trim().lines() {
        let (settings, expected) = row.split_once(" => ").unwrap();
        // Claims and plots about files say nothing of other workloads.
        let settings: Vec<_> = settings.split(" ; ").chain(["claim=[]", "plot=[]"]).collect();
        folder.refuses(&settings, expected);
    }
}

/// Every mode of repair `local`, groups by hand and groups that form, controllers that die, and a crowd.
const LOCAL: &str = r#"
title = "local groups, in virtual time"
rate = "2M"
plain = true
sample = "1s"
timeout = "2m"

[workload]
kind = "files"
sizes = ["100K"]

[[network]]
name = "lossy"
topology = "tree:levels=2,clients=3,rate=50M,delay=1ms,loss=5%"
deliveries = ["sender", "hierarchical", "local", "formed", "dying"]

[[network]]
name = "crowd"
topology = "lan:clients=1,rate=50M,delay=10ms,loss=5%"
crowd = 100
deliveries = ["formed"]

[[delivery]]
name = "sender"
repair = "local"
local = { mode = "sender" }

[[delivery]]
name = "hierarchical"
repair = "local"
local = { mode = "hierarchical", groups = [["client0", "client1", "client2"], ["client3", "client4", "client5"]] }

[[delivery]]
name = "local"
repair = "local"
local = { groups = [["client0", "client1", "client2"], ["client3", "client4", "client5"]] }

[[delivery]]
name = "formed"
repair = "local"

[[delivery]]
name = "dying"
repair = "local"
local = { deaths = 1, within = "300ms", groups = [["client0", "client1", "client2"], ["client3", "client4", "client5"]] }

[[claim]]
says = "every receiver that lives gets everything"
holds = 'max(missing) <= 0'

[[claim]]
says = "one receiver dies"
holds = 'sum(died{delivery = dying}) >= 1'

[[claim]]
says = "only members of local groups repair"
holds = 'sum(repairs{delivery = sender}) <= 0'

[[claim]]
says = "members of a local group repair"
holds = 'sum(repairs{delivery = local}) >= 1'

[[claim]]
says = "no controller serves more than 32"
holds = 'max(served) <= 32'
"#;

#[test]
fn local_groups_and_crowds_run_and_say_what_they_cost() {
    let (folder, _) = holds_and_repeats(LOCAL, 6);
    let only = "deliveries=local";
    let cases = [
        ("groups=[[\"client0\", \"nobody\"]]", "groups name nobody, which is no receiver"),
        ("groups=[[\"client0\"], [\"client0\"]]", "client0 is in groups twice"),
        ("groups=[[\"client0\", \"client1\"]]", "groups do not name client2"),
        ("mode=\"sender\",groups=[[\"client0\"]]", "mode sender has no local groups"),
    ];
    for (keys, expected) in cases {
        let delivery = format!("delivery=[{{name=\"local\",repair=\"local\",local={{{keys}}}}}]");
        let network = "network=[{name=\"n\",topology=\"lan:clients=3\"}]";
        folder.refuses(&[&delivery, network, only], expected);
    }
    let crowd = "network=[{name=\"n\",topology=\"lan:clients=3\",crowd=10}]";
    let words = "the topology of a crowd has one client, which stands for all, and not 3";
    folder.refuses(&[crowd, only, "deliveries=formed"], words);
}

/// Objects that come one by one, to receivers of which some lose much and have little time for repairs.
const FEED: &str = r#"
title = "a feed, in virtual time"
deliveries = ["nack", "after"]
sample = "1s"

[workload]
kind = "feed"
objects = 60
per_second = 20
loads = [0.4]
factors = [0, 50]
priorities = ["fair", "multicast"]

[[network]]
name = "lossy"
topology = "lan:clients=4,rate=20M,delay=5ms"
loss = [{ rate = "10%", every = 2 }]

[[claim]]
says = "with time for repairs, every receiver gets every object"
holds = 'min(have{factor = "50"}) >= 1'

[[claim]]
says = "without it, receivers that lose packets lack objects, and others lack none"
holds = 'max(robustness{factor = "0"}) <= 0.5 and max(have{factor = "0"}) >= 1'

[[claim]]
says = "objects take the time that their bytes need, and not that of those that are still to come"
holds = 'max(object_time{factor = "0"}) <= 1 s'
"#;

/// Numbered datagrams to six receivers behind two levels of routers.
const STREAM: &str = r#"
title = "a stream, in virtual time"
sample = "500ms"

[workload]
kind = "stream"
rates = ["500k"]
seconds = 5

[[network]]
name = "tree"
topology = "tree:levels=2,clients=3,rate=20M,delay=2ms"

[[delivery]]
fanout = ["unicast", "multicast", "mead", "xcast"]

[[delivery]]
name = "lossy"
fanout = "multicast"
events = [{ at = "1s", until = "3s", fault = "lose", node = "client0", loss = "50%" }]

[[claim]]
says = "every datagram comes, where nothing is lost"
holds = 'max(lost{delivery != "lossy"}) <= 0'

[[claim]]
says = "half of two of five seconds is lost at one receiver"
holds = '15% <= max(lost{delivery = "lossy"}) and max(lost{delivery = "lossy"}) <= 25%'

[[claim]]
says = "lists and multicast take fewer bytes than a copy for each"
holds = 'max(network_bytes{delivery = "mead"}) < min(network_bytes{delivery = "unicast"}) and max(network_bytes{delivery = "multicast"}) < min(network_bytes{delivery = "mead"}) and max(network_bytes{delivery = "xcast"}) < min(network_bytes{delivery = "unicast"})'

[[claim]]
says = "links carry what the tree says, within 3 %"
holds = '97% <= median(network_bytes{delivery = "unicast" | "multicast" | "mead"}) / median(computed_network_bytes{delivery = "unicast" | "multicast" | "mead"}) <= 103%'
each = ["delivery"]

[[claim]]
says = "a datagram takes the delay of its links"
holds = '4 ms <= min(latency_min) and max(latency_max{delivery = "multicast"}) <= 30 ms'
"#;

#[test]
fn a_feeds_objects_come_in_time_or_are_given_up() {
    holds_and_repeats(FEED, 8);
}

#[test]
fn streams_come_by_every_fanout() {
    holds_and_repeats(STREAM, 5);
}

/// Each of four members sends to all others.
#[test]
fn a_conference_has_several_senders_in_one_network() {
    let conference = STREAM
        .replace("\"stream\"", "\"conference\"")
        .replace("[\"unicast\", \"multicast\", \"mead\", \"xcast\"]", "[\"unicast\", \"mead\", \"xcast\"]");
    let (kept, _) = conference.split_once("[[delivery]]\nname = \"lossy\"").unwrap();
    let claims = "[[claim]]\nsays = \"all come\"\nholds = 'max(lost) <= 0 and min(expected) >= 1000'\n";
    holds_and_repeats(&format!("{kept}{claims}"), 3);
}

#[test]
fn a_delivery_is_forecast_before_anything_is_sent() {
    let scratch = Scratch::with_files(&[("set/a", 1_500_000), ("set/b", 500_000)]);
    let said = scratch.run("send --forecast 10,50M,1% set");
    assert_says(&said, &["to 10 receivers on one link of 50", "that lose 1.00 %", "multicast", "unicast"]);
    let said = scratch.run("send --json --forecast 10 set");
    let bytes: Vec<f64> =
        crate::session::events(&said).iter().map(|event| event["sender_bytes"].as_f64().unwrap()).collect();
    assert!(bytes.len() == 2 && bytes[0] < 2.7e6 && bytes[1] > 20e6, "{said}");
    scratch.refuses("send --forecast many set", &["--forecast"]);
}
