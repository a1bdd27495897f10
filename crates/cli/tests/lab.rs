//! `treecast lab` from outside: what it prints, what it returns, and that nothing it made outlives it,
//! however it ends. Needs root.

use std::{
    collections::HashSet,
    fs,
    net::{Ipv4Addr, UdpSocket},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use crate::{
    child::{SpawnGuarded, treecast_as_nobody},
    session::{Scratch, TREECAST, all_well, finish_well, only_refused, start, wait_until},
};
use treecast_host::{option, packet};
use treecast_lab::{Lab, Options, Topology};

/// A record of labs that only this test knows, and a prefix for their names.
struct Place {
    scratch: Scratch,
    state: PathBuf,
    prefix: String,
}

impl Place {
    fn new(test: &str) -> Self {
        let (scratch, prefix) = (Scratch::new(), format!("{test}{}", std::process::id()));
        Self { state: scratch.path(&format!("treecast-cli-{prefix}")), scratch, prefix }
    }

    fn options(&self) -> Options {
        Options { state_directory: self.state.clone(), program: TREECAST.into(), ..Options::default() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.scratch.command("lab");
        command.args(arguments).env("TREECAST_LAB_STATE", &self.state).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs what must succeed, and returns what it printed.
    fn print(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs what must fail with one line that says why.
    fn refuses(&self, arguments: &[&str], words: &[&str]) {
        only_refused(&mut self.command(arguments), words);
    }

    fn has_left_nothing(&self) {
        assert_eq!(self.left_behind(), Vec::<String>::new());
    }

    /// Everything of this test that the kernel or the disk still has.
    fn left_behind(&self) -> Vec<String> {
        let mut left: Vec<String> = Vec::new();
        for folder in [PathBuf::from("/run/netns"), self.state.clone()] {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            left.extend(entries.map(|entry| entry.file_name().to_string_lossy().into_owned()));
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        left.extend(mounts.lines().map(str::to_owned));
        left.retain(|entry| entry.contains(&self.prefix));
        left
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.command(&["down", "--all"]).stdout(Stdio::null()).status();
    }
}

#[test]
fn a_lab_is_built_used_shown_and_removed() {
    let place = Place::new("cli");
    let name = place.prefix.as_str();
    let described = place.print(&["up", "tree:levels=2,clients=2", "--name", name, "--json"]);
    let described: serde_json::Value = serde_json::from_str(&described).unwrap();
    assert_eq!(described["nodes"].as_array().unwrap().len(), 1 + 3 + 4);
    assert_eq!(described["nodes"][0]["interfaces"][0]["addresses"][1], "fd00:0:0:1::1/64");

    assert_eq!(place.print(&["list"]).trim(), format!("{name}  8 nodes"));
    let shown = Command::new("ip").args(["netns", "list"]).output().unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).contains(&format!("{name}-router2")));
    let address = place.print(&["exec", name, "client3", "--", "ip", "-6", "address", "show", "if1"]);
    assert!(address.contains("inet6 fd00:0:0:3::3/64 scope global"), "{address}");
    assert_eq!(place.run(&["exec", name, "client0", "--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(
        place.run(&["exec", name, "client0", "sh", "-c", "exit $#", "--", "--", "7"]).status.code(),
        Some(2)
    );
    let killed = place.run(&["exec", name, "client0", "--", "sh", "-c", "kill -9 $$"]).status;
    assert_eq!(killed.signal(), Some(libc::SIGKILL), "a shell makes 137 of it");
    ends_with_what_ends_it(&place, name);
    assert!(place.print(&["graph", name]).starts_with("<svg"));

    place.refuses(&["up", "lan:clients=1", "--name", name], &[&format!("there is a lab {name} already")]);
    place.refuses(
        &["exec", name, "client9", "--", "true"],
        &["has no node client9: its nodes are server0, router0"],
    );
    place.refuses(
        &["exec", name, "client0", "--", "no-such-program"],
        &["could not start no-such-program in client0"],
    );

    place.print(&["down", name]);
    place.has_left_nothing();
    place.refuses(&["down", name], &["there is no lab"]);
}

/// A signal to `lab exec` alone reaches the program inside.
fn ends_with_what_ends_it(place: &Place, name: &str) {
    let mut sleeper = place.command(&["exec", name, "client0", "--", "sleep", "1000"]).spawn_guarded();
    let process = sleeper.id();
    let command = || fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    while command().trim() != "sleep" {
        assert!(sleeper.try_wait().unwrap().is_none(), "it has ended before it became the program");
        std::thread::sleep(Duration::from_millis(20));
    }
    // Not SIGINT: shells start programs in the background with that one ignored, and tests inherit it.
    sleeper.signal(libc::SIGTERM);
    assert_eq!(sleeper.wait().unwrap().signal(), Some(libc::SIGTERM));
    let left = Command::new("ip").args(["netns", "pids", &format!("{name}-client0")]).output().unwrap();
    assert!(left.stdout.is_empty(), "{left:?}");
}

/// A receiver in a lab is called after its node, however it is started there.
#[test]
fn receivers_in_a_lab_have_their_nodes_names() {
    let place = Place::new("names");
    let name = place.prefix.as_str();
    place.print(&["up", "lan:clients=2", "--name", name]);
    let scratch = &place.scratch;
    scratch.file("file", 5);
    let send =
        [TREECAST, "send", "--json", "--wait", "2", "--fanout", "unicast", "--ticket-file", "ticket", "file"];
    let sender = start(&mut place.command(&[&["exec", name, "server0", "--"][..], &send].concat()));
    scratch.wait_for_ticket();
    let by_lab = ["exec", name, "client0", "--", TREECAST, "receive", "@ticket", "--into", "0"];
    let mut by_ip = Command::new("ip");
    by_ip.args(["netns", "exec", &format!("{name}-client1"), TREECAST, "receive", "@ticket", "--into", "1"]);
    all_well([start(&mut place.command(&by_lab)), start(by_ip.current_dir(scratch.path("")))]);
    let said = finish_well(sender);
    let joined = crate::session::events(&said).into_iter().filter(|event| event["event"] == "joined");
    let mut names: Vec<String> = joined.map(|event| event["receiver"].as_str().unwrap().to_owned()).collect();
    names.sort();
    assert_eq!(names[0], "client0", "{said}");
    assert!(names[1].starts_with(&format!("{name}-client1-")), "{said}");
}

/// The routers are told where the server is, without which the joins would go round for ever.
#[test]
fn in_a_triangle_a_group_is_joined_and_left() {
    let place = Place::new("tri");
    let name = place.prefix.as_str();
    let spec = place.scratch.path("triangle.toml");
    let nodes = "[nodes]\nserver0 = { role = \"server\" }\nclient0 = { role = \"client\" }\n\
                 router = { role = \"router\", count = 3 }\n";
    let links =
        [("server0", "router0"), ("router0", "router1"), ("router1", "router2"), ("router2", "router0")];
    let links = links.into_iter().chain([("router2", "client0")]).enumerate();
    let links = links.map(|(n, (a, b))| format!("[links.link{n}]\nnodes = [\"{a}\", \"{b}\"]\n"));
    fs::write(&spec, nodes.to_owned() + &links.collect::<String>()).unwrap();
    place.print(&["up", spec.to_str().unwrap(), "--name", name, "--mroute"]);

    let lab = Lab::open(name, &place.options()).unwrap();
    let group = Ipv4Addr::new(239, 9, 9, 9);
    let bind = || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 9999)).unwrap();
    let (sender, listener) = (lab.enter("server0", bind).unwrap(), lab.enter("client0", bind).unwrap());
    sender.set_multicast_ttl_v4(8).unwrap();
    listener.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    listener.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED).unwrap();
    wait_until("something arrives", || {
        sender.send_to(b"hello", (group, 9999)).unwrap();
        listener.recv(&mut [0; 10]).is_ok()
    });
    let listening = || {
        let of_router = |router| place.print(&["exec", name, router, TREECAST, "mroute", "show", "--json"]);
        let status = ["router0", "router1", "router2"].map(of_router);
        status.iter().filter(|status| status.contains("239.9.9.9")).count()
    };
    assert!(listening() >= 2, "the routers on the way");
    drop(listener);
    wait_until("no router listens or forwards", || listening() == 0);
    place.print(&["down", name]);
    place.has_left_nothing();
}

#[test]
fn faults_come_and_go() {
    let place = Place::new("fail");
    let name = place.prefix.as_str();
    place.print(&["up", "lan:clients=1", "--name", name]);
    let carrier = || place.print(&["exec", name, "client0", "--", "ip", "link", "show", "if1"]);
    assert!(carrier().contains("LOWER_UP"));
    place.print(&["fault", name, "client0", "unplug"]);
    assert!(carrier().contains("NO-CARRIER"));
    place.refuses(&["fault", name, "client0", "up"], &["client0 is a node", "`plug`", ": none\n"]);
    place.refuses(&["fault", name, "client9", "up"], &["no link client9 between two nodes: it has none"]);
    place.print(&["fault", name, "client0", "plug"]);
    assert!(carrier().contains("LOWER_UP"));

    let show = ["fault", name, "client0", "show"];
    assert_eq!(place.print(&show), "if1: 0 passed, 0 lost on purpose\n");
    place.print(&["fault", name, "client0", "lose", "100%"]);
    // A neighbour that nobody hears is asked for several times.
    let ask = "exec 3<>/dev/udp/10.0.1.2/9; echo >&3; echo >&3";
    place.print(&["exec", name, "server0", "--", "bash", "-c", ask]);
    wait_until("some are lost", || !place.print(&show).contains(", 0 lost"));
    let shown = place.print(&show);
    assert!(shown.starts_with("if1: 0 passed") && !shown.contains(", 0 lost"), "{shown}");
    place.refuses(
        &["fault", name, "client0", "unplug", "--interface", "if9"],
        &["node client0 has no interface if9: it has if1"],
    );

    let mut sleeper = place.command(&["exec", name, "client0", "--", "sleep", "600"]).spawn_guarded();
    std::thread::sleep(Duration::from_millis(300));
    while sleeper.try_wait().unwrap().is_none() {
        place.print(&["fault", name, "client0", "kill"]);
    }
    assert_eq!(sleeper.wait().unwrap().signal(), Some(libc::SIGKILL));
}

/// Either netem or a relay does it, whichever this machine has.
#[test]
fn a_cable_with_a_delay_holds_every_packet_back() {
    const COUNT: usize = 400;
    let place = Place::new("late");
    let topology = Topology::parse("lan:clients=1,delay=40ms,jitter=5ms,rate=100M").unwrap();
    let lab = Lab::up(&topology, &place.prefix, &place.options()).unwrap();
    let socket = |node: &str| {
        let address = (lab.node(node).unwrap().v6().unwrap(), 4000);
        let socket = lab.enter(node, || UdpSocket::bind(address)).unwrap().unwrap();
        // For all packets, on a busy machine that reads them late.
        option::grow_receive_buffer(&socket, 4 << 20).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket
    };
    let (server, client) = (socket("server0"), socket("client0"));
    for (from, to) in [(&server, &client), (&client, &server)] {
        let address = to.local_addr().unwrap();
        // The first one waits for the neighbour's address, there and back.
        from.send_to(&[0], address).unwrap();
        to.recv(&mut [0; 64]).unwrap();
        let delays = delays(from, to, COUNT);
        // A busy machine holds packets back, too, but not every one.
        let (fastest, median) = (delays[0], delays[COUNT / 2]);
        assert!((Duration::from_millis(34)..Duration::from_millis(120)).contains(&fastest), "{fastest:?}");
        assert!(median >= Duration::from_millis(36), "{median:?}");
    }
    lab.down().unwrap();
    place.has_left_nothing();
}

/// One end of the link sends at 1 Mbit/s, the other at 100 kbit/s, and the queues of both get 400 kbit/s of others' packets.
#[test]
fn packets_of_others_fill_the_rate_of_a_slow_link() {
    let place = Place::new("others");
    let text = "[nodes]\nserver0 = { role = \"server\" }\nclient0 = { role = \"client\" }\n\
                [links.one]\nnodes = [\"server0\", \"client0\"]\nrate = \"1M\"\nqueue = \"4k\"\n\
                background = \"400k\"\ndelay = \"5ms\"\n[links.one.ends.client0]\nrate = \"100k\"\n";
    let topology = Topology::from_toml(text, "others.toml").unwrap();
    let lab = Lab::up(&topology, &place.prefix, &place.options()).unwrap();
    let sockets = ["client0", "server0"].map(|node| {
        let index = lab.interface(node, "if1").unwrap().index;
        lab.enter(node, || packet::open(index, 0x88b5)).unwrap().unwrap()
    });
    let start = Instant::now();
    std::thread::sleep(Duration::from_secs(3));
    let [to_client, to_server] = sockets.map(|socket| {
        let mut frame = [0; 2000];
        let arrived = || packet::receive(&socket, &mut frame).ok().map(|(len, _)| len);
        let lengths: Vec<usize> = std::iter::from_fn(arrived).collect();
        assert!(lengths.iter().all(|len| *len == 576), "{lengths:?}");
        lengths.len() as f64 * 576.0 * 8.0 / start.elapsed().as_secs_f64()
    });
    // A busy machine sends fewer at first, and more when it gets to it.
    assert!((250_000.0..550_000.0).contains(&to_client), "{to_client} bit/s");
    // The queue and a burst of two frames come on top of the rate.
    assert!((60_000.0..130_000.0).contains(&to_server), "{to_server} bit/s");
    lab.down().unwrap();
    place.has_left_nothing();
}

/// The sorted delays of so many packets, a millisecond apart, of which none may get lost.
fn delays(from: &UdpSocket, to: &UdpSocket, count: usize) -> Vec<Duration> {
    let address = to.local_addr().unwrap();
    let start = Instant::now();
    let mut delays = std::thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            let mut buffer = [0; 1400];
            let mut receive = || {
                to.recv(&mut buffer).unwrap();
                let sent = u64::from_be_bytes(buffer[..8].try_into().unwrap());
                start.elapsed() - Duration::from_nanos(sent)
            };
            (0..count).map(|_| receive()).collect::<Vec<_>>()
        });
        for _ in 0..count {
            let mut packet = [0; 1400];
            packet[..8].copy_from_slice(&(start.elapsed().as_nanos() as u64).to_be_bytes());
            from.send_to(&packet, address).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        receiver.join().unwrap()
    });
    delays.sort();
    delays
}

/// How long it takes to build a lab, which is taken down again.
fn time_to_build(place: &Place, spec: &str) -> Duration {
    let start = Instant::now();
    place.print(&["up", spec, "--name", &format!("{}whole", place.prefix)]);
    let whole = start.elapsed();
    place.print(&["down", "--all"]);
    whole
}

/// Kills `lab up` at every stage of its work; `down --all` must find whatever there was by then.
#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn nothing_outlives_a_builder_that_was_killed() {
    let place = Place::new("die");
    let spec = "tree:levels=4,clients=3,rate=1G,loss=1%";
    let whole = time_to_build(&place, spec);

    let mut stages = HashSet::new();
    for round in 0u32..24 {
        let name = format!("{}n{round}", place.prefix);
        let mut builder = place.command(&["up", spec, "--name", &name]).stdout(Stdio::null()).spawn_guarded();
        std::thread::sleep(whole * round / 20);
        let _ = builder.kill();
        // Not even waiting for it: what it is doing in the kernel may go on for a while.
        if round % 2 == 0 {
            builder.wait().unwrap();
        }
        place.print(&["down", "--all"]);
        stages.insert(place.left_behind());
        let _ = builder.wait();
    }
    assert_eq!(stages, HashSet::from([Vec::new()]));
    wait_until("no link of a lab is here", || links_of_labs().is_empty());
}

/// `timeout`, for one, signals twice: the process and its group.
#[test]
fn a_builder_that_is_told_to_stop_takes_its_lab_down() {
    let place = Place::new("stop");
    let spec = "tree:levels=4,clients=3,rate=1G";
    let whole = time_to_build(&place, spec);

    let mut interrupted = 0;
    for round in 1u32..=10 {
        let name = format!("{}n{round}", place.prefix);
        let mut command = place.command(&["up", spec, "--name", &name, "--mroute"]);
        let builder = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn_guarded();
        std::thread::sleep(whole * round / 10);
        for _ in 0..2 {
            builder.signal(libc::SIGTERM);
        }
        let output = builder.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        match output.status.code() {
            // It was done before.
            Some(0) => drop(place.print(&["down", &name])),
            Some(code) => {
                assert_eq!(code, 1, "{said}");
                assert_eq!(said, format!("treecast: interrupted: lab {name} is taken down again\n"));
                interrupted += 1;
            }
            // Before it had begun.
            None => {}
        }
        place.has_left_nothing();
    }
    assert!(interrupted > 0, "no builder was told in time");
}

/// A lab's links are never in the host's namespace, not even for a moment or after a failure.
fn links_of_labs() -> Vec<String> {
    let links = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let names = links.map(|link| link.file_name().to_string_lossy().into_owned());
    let number = |name: &String| name.strip_prefix("port").or(name.strip_prefix("if")).map(str::to_owned);
    names.filter(|name| number(name).is_some_and(|number| number.parse::<u32>().is_ok())).collect()
}

#[test]
fn a_user_is_told_to_be_root() {
    for (arguments, what) in
        [(&["lab", "up", "lan:clients=1"][..], "lab"), (&["bench"], "bench"), (&["bench", "router"], "bench")]
    {
        let output = treecast_as_nobody(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success());
        let expected =
            format!("treecast: a {what} makes network namespaces, which needs root: run it with sudo\n");
        assert_eq!(said, expected);
    }
}
