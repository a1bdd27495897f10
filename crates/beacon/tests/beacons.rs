//! Beacons in network namespaces: a link between two switches fails and is mended, and every beacon sees both within
//! three seconds.
//!
//! The long run: TREECAST_BEACONS=30 TREECAST_SECONDS=600 cargo test -p treecast-beacon --test beacon beacons -- --nocapture

use std::{
    io::Write,
    net::SocketAddr,
    process::{Command, Stdio},
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::{Duration, Instant},
};

use treecast_beacon::{Change, Key, Matrix, News, Options, State};
use treecast_host::{namespace::Namespace, stop::Stop};

/// The limit for a change of a link to show in every matrix.
const LIMIT: Duration = Duration::from_secs(3);

/// The time that a busy machine may take for anything else.
const PATIENCE: Duration = Duration::from_secs(60);

/// Hosts at two switches with a link between them. Even hosts are at switch 0. All of it is gone when this is dropped.
struct Network {
    prefix: String,
    hosts: usize,
}

impl Network {
    fn new(hosts: usize) -> Self {
        let network = Self { prefix: format!("bc{}", std::process::id()), hosts };
        ip(&["netns", "add", &network.switches()], "");
        let mut commands = "link add link0 type veth peer name link1\n".to_owned();
        for switch in 0..2 {
            commands += &format!(
                "link add sw{switch} type bridge mcast_snooping 0\nlink set sw{switch} up\n\
                 link set link{switch} master sw{switch} up\n"
            );
        }
        for host in 0..hosts {
            let namespace = network.host(host);
            ip(&["netns", "add", &namespace], "");
            commands += &format!(
                "link add h{host} type veth peer name eth0 netns {namespace}\nlink set h{host} master sw{} up\n",
                host % 2
            );
        }
        ip(&["-n", &network.switches(), "-batch", "-"], &commands);
        for host in 0..hosts {
            let address = format!("addr add 10.77.0.{}/24 dev eth0\n", host + 1);
            let commands = format!("link set lo up\n{address}link set eth0 up\n");
            ip(&["-n", &network.host(host), "-batch", "-"], &commands);
        }
        network
    }

    fn switches(&self) -> String {
        format!("{}-sw", self.prefix)
    }

    fn host(&self, host: usize) -> String {
        format!("{}-{host}", self.prefix)
    }

    fn set_link(&self, state: &str) {
        ip(&["-n", &self.switches(), "link", "set", "link0", state], "");
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for namespace in (0..self.hosts).map(|host| self.host(host)).chain([self.switches()]) {
            // One that could not be made cannot be removed.
            let _ = Command::new("ip").args(["netns", "del", &namespace]).output();
        }
    }
}

fn ip(arguments: &[&str], input: &str) {
    let mut command = Command::new("ip");
    command.args(arguments).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("iproute2 is installed");
    child.stdin.take().expect("it is piped").write_all(input.as_bytes()).expect("ip reads");
    let output = child.wait_with_output().expect("it is our child");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A change that a beacon has seen: which beacon, when, and what.
type Told = (usize, Instant, Change);

struct Beacons {
    stop: Stop,
    threads: Vec<thread::JoinHandle<Matrix>>,
    told: Receiver<Told>,
}

impl Beacons {
    fn start(network: &Network) -> Self {
        let stop = Stop::new().expect("a descriptor");
        let (tell, told) = mpsc::channel();
        let threads = (0..network.hosts).map(|host| {
            let (stop, tell, namespace) = (stop.clone(), tell.clone(), network.host(host));
            thread::spawn(move || run(host, &namespace, &stop, &tell))
        });
        Self { threads: threads.collect(), stop, told }
    }

    /// Waits until beacons have told of so many `pairs` that are in this state now, and says how long that took. `is_one`
    /// gets the beacon that tells, the one that is heard, and the one that hears it.
    fn wait_for(
        &self,
        since: Instant,
        state: State,
        is_one: impl Fn(usize, usize, usize) -> bool,
        pairs: usize,
    ) -> Duration {
        let (mut missing, mut last) = (pairs, since);
        let number = |name: &str| name[1..].parse::<usize>().expect("h and a number");
        while missing > 0 {
            let left = (since + PATIENCE).saturating_duration_since(Instant::now());
            let (host, at, change) = self.told.recv_timeout(left).unwrap_or_else(|_| {
                panic!("{missing} of {pairs} pairs are not {state:?} after {PATIENCE:?}")
            });
            if change.state == state && is_one(host, number(&change.from), number(&change.to)) {
                missing -= 1;
                last = last.max(at);
            }
        }
        last - since
    }

    fn end(self) -> Vec<Matrix> {
        self.stop.request();
        self.threads.into_iter().map(|thread| thread.join().expect("no beacon fails")).collect()
    }
}

fn run(host: usize, namespace: &str, stop: &Stop, tell: &Sender<Told>) -> Matrix {
    Namespace::open(namespace).and_then(|namespace| namespace.enter()).expect("root may");
    let group: SocketAddr = "239.77.7.7:7777".parse().expect("an address");
    let options = Options {
        group,
        interface: Some("eth0".into()),
        name: format!("h{host}"),
        interval: Duration::from_millis(200),
        hop_limit: 32,
        key: Some(Key::from_hex(&"5a".repeat(32)).expect("64 digits")),
    };
    let mut notify = |news: News<'_>| {
        if let News::Change(change) = news {
            // Nobody listens any more once the test has failed.
            let _ = tell.send((host, Instant::now(), change.clone()));
        }
    };
    treecast_beacon::run(&options, stop, &mut notify).expect("the beacon runs")
}

fn number(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).map_or(otherwise, |value| value.parse().expect("a number"))
}

#[test]
fn a_link_that_fails_and_is_mended_shows_in_every_matrix_within_three_seconds() {
    assert!(treecast_host::user::is_root(), "this test makes network namespaces: run it as root");
    let (hosts, seconds) = (number("TREECAST_BEACONS", 6), number("TREECAST_SECONDS", 10));
    let (start, network) = (Instant::now(), Network::new(hosts));
    let beacons = Beacons::start(&network);
    let all = hosts * hosts * (hosts - 1);
    let took = beacons.wait_for(Instant::now(), State::Well, |_, _, _| true, all);
    eprintln!("{hosts} beacons know each other after {took:.1?}");
    // A beacon sees what those on its own side hear of the other side.
    let (even, odd) = (hosts.div_ceil(2), hosts / 2);
    let across = |host: usize, from: usize, to: usize| from % 2 != to % 2 && to % 2 == host % 2;
    let pairs = even * odd * hosts;
    let (mut rounds, mut slowest) = (0, [Duration::ZERO; 2]);
    while rounds == 0 || start.elapsed() < Duration::from_secs(seconds as u64) {
        thread::sleep(Duration::from_secs(if seconds > 60 { 20 } else { 1 }));
        network.set_link("down");
        let failed = beacons.wait_for(Instant::now(), State::Silent, across, pairs);
        thread::sleep(Duration::from_secs(1));
        network.set_link("up");
        let mended = beacons.wait_for(Instant::now(), State::Well, across, pairs);
        slowest = [slowest[0].max(failed), slowest[1].max(mended)];
        rounds += 1;
        eprintln!("round {rounds}: failed after {failed:.2?}, mended after {mended:.2?}");
    }
    thread::sleep(LIMIT);
    for matrix in beacons.end() {
        let bad: Vec<_> = matrix.seen.iter().filter(|seen| seen.state != State::Well).collect();
        assert!(bad.is_empty(), "at the end: {bad:?}");
        assert_eq!(matrix.beacons.len(), hosts);
    }
    let [failed, mended] = slowest;
    eprintln!("{rounds} rounds in {:.0?}: slowest {failed:.2?} failed, {mended:.2?} mended", start.elapsed());
    assert!(failed <= LIMIT && mended <= LIMIT, "{slowest:?}");
}
