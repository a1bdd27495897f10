//! The commands that README.md shows, run as a reader would, in a small network of namespaces. Needs root.

use std::{
    cell::RefCell, collections::BTreeSet, fs, io::Read, net::UdpSocket, os::unix::fs::symlink, path::Path,
    process::Command, thread, time::Duration,
};

use crate::{
    session::{Guarded, Scratch, TREECAST, finish_well, start, wait_until},
    site::Site,
    sources::workspace,
};
use treecast_lab::{Daemon, Topology, Trees};

/// Commands that are not run here, each with the reason.
const NOT_RUN: &[(&str, &str)] = &[
    ("make demo", "it installs packages and builds"),
    ("make test", "it runs this test"),
    ("install target/release/treecast /usr/local/bin/", "it changes this machine"),
    ("treecast package-files /usr/local/share", "it changes this machine"),
    ("scp target/release/treecast root@HOST:/usr/local/bin/", "there is no other machine"),
];

/// A sender, and three receivers on two LANs, with the addresses that README.md names.
const NETWORK: &str = r#"
[nodes]
server = { role = "server" }
router = { role = "router" }
client = { role = "client", count = 3 }
[lans.up]
nodes = ["router", "server"]
[lans.left]
nodes = ["router", "client0", "client1"]
prefixes = ["fd00:3::/64"]
[lans.right]
nodes = ["router", "client2"]
prefixes = ["fd00:4::/64"]
"#;
const CLIENTS: [&str; 3] = ["client0", "client1", "client2"];
const SIZE: usize = 300_000;

#[test]
fn every_command_of_the_readme_does_what_it_says() {
    let reader = Reader::new();
    reader.send_by_a_code();
    reader.send_a_file();
    reader.image_machines();
    reader.update_devices();
    reader.see_many_hosts();
    reader.distribute_a_feed();
    reader.send_what_a_program_writes();
    reader.evaluate_a_delivery();
    reader.bring_a_program_to_many_hosts();
    reader.find_out_what_a_network_does();
    let not_run = NOT_RUN.iter().map(|(command, _)| (*command).to_owned()).collect();
    assert_eq!(reader.commands.take(), not_run, "each command of README.md is run here, or is in NOT_RUN");
}

/// Somebody who types the commands of README.md, on the nodes of a lab.
struct Reader {
    _routers: Vec<Daemon>,
    site: Site,
    /// Commands that were not typed yet.
    commands: RefCell<BTreeSet<String>>,
}

impl Reader {
    fn new() -> Self {
        let folder = Scratch::new();
        fs::write(folder.path("network.toml"), NETWORK).unwrap();
        symlink(workspace().join("labs"), folder.path("labs")).unwrap();
        folder.files(&[("image.iso", SIZE), ("image.raw", SIZE)]);
        let site = Site::with(folder, &Topology::from_toml(NETWORK, "network.toml").unwrap());
        let routers = site.lab().start_routers(Path::new(TREECAST), Trees::default(), |_| {}).unwrap();
        Self { site, _routers: routers, commands: RefCell::new(commands()) }
    }

    /// Codes work on one link, so both are on the same LAN.
    fn send_by_a_code(&self) {
        let mut sender = self.start("client0", &self.command("treecast send --code"));
        first_line(&mut sender);
        let offer = first_line(&mut sender);
        let receive = self.command("treecast receive --into /srv/images acorn-pony-walrus");
        let receive = replace(&receive, "acorn-pony-walrus", offer.rsplit_once(' ').expect("a code").1);
        self.finish("client1", &replace(&receive, "/srv/images", "by-code"));
        self.has("by-code", "image.iso");
        finish_well(sender);
    }

    /// Announcements come to other links by SAP: the first one at once, to those who listen already.
    fn update_devices(&self) {
        self.site.scratch.file("update.img", SIZE);
        let key = self.finish("server", "treecast keys new ./update.pem");
        let key = key.split_whitespace().next().expect("a public key");
        let stand = self.command("treecast receive --standing");
        let devices = CLIENTS.map(|client| {
            let rules = format!("name = \"{client}\"\nstate = \"{client}-state\"\n[[rule]]\nsenders = [\"{key}\"]\ninto = \"{client}\"\n");
            fs::write(self.site.scratch.path(&format!("{client}.toml")), rules).unwrap();
            let device = self.start(client, &format!("exec {}", replace(&stand, "/etc/treecast/standing.toml", &format!("{client}.toml"))));
            wait_until("the device listens", || self.site.scratch.path(&format!("{client}-state/history.jsonl")).exists());
            device
        });
        fs::write(self.site.scratch.path("devices"), "client0\nclient1\nclient2 # on another link\n")
            .unwrap();
        // Routers learn of the devices' groups from their reports.
        thread::sleep(Duration::from_secs(1));
        let send = self.command("treecast send --key default --session update.session");
        self.finish("server", &replace(&send, "--key default", "--key ./update.pem"));
        CLIENTS.iter().for_each(|client| self.has(client, "update.img"));
        let history = self.command("treecast status --history");
        wait_until("the history tells it", || {
            self.finish("client2", &format!("{history} --state client2-state"))
                .contains(" received update.img ")
        });
        drop(devices);
    }

    fn send_a_file(&self) {
        let mut sender = self.start("server", &self.command("treecast send --wait 2"));
        let ticket = first_line(&mut sender);
        let receive = self.command("treecast receive --into /srv/images treecast2");
        let receivers = ["client0", "client2"].map(|client| {
            let receive = replace(&receive, "treecast2.5wzN...", &ticket);
            (client, self.start(client, &replace(&receive, "/srv/images", client)))
        });
        for (client, receiver) in receivers {
            finish_well(receiver);
            self.has(client, "image.iso");
        }
        finish_well(sender);
    }

    fn image_machines(&self) {
        let send = self.command("treecast send --session");
        let sender = self.start("server", &replace(&send, "--wait 300", "--wait 3"));
        wait_until("the ticket is written", || self.site.scratch.path("ticket").exists());
        let receive = self.command("treecast receive --into /srv @ticket");
        let receivers = CLIENTS.map(|client| self.start(client, &replace(&receive, "/srv", client)));
        receivers.into_iter().for_each(|receiver| _ = finish_well(receiver));
        CLIENTS.iter().for_each(|client| self.has(client, "image.raw"));
        finish_well(sender);
        assert!(self.site.scratch.path("image.session").exists(), "the session is kept");
    }

    fn distribute_a_feed(&self) {
        let feed = self.command("some-program | treecast send");
        let mut sender = self.start("server", &replace(&feed, "some-program", "echo network.toml"));
        let ticket = first_line(&mut sender);
        let receivers =
            CLIENTS.map(|client| self.start(client, &format!("treecast receive --into {client} {ticket}")));
        receivers.into_iter().for_each(|receiver| _ = finish_well(receiver));
        CLIENTS
            .iter()
            .for_each(|client| assert!(self.site.scratch.path(client).join("network.toml").exists()));
        finish_well(sender);
    }

    fn send_what_a_program_writes(&self) {
        fs::create_dir(self.site.scratch.path("folder")).unwrap();
        self.site.scratch.file("folder/file", SIZE);
        let send = self.command("tar c DIR | treecast send");
        let mut sender =
            self.start("server", &replace(&replace(&send, "DIR", "folder"), "--wait 10", "--wait 3"));
        let ticket = first_line(&mut sender);
        let receive = self.command("treecast receive --stdout");
        let receivers = CLIENTS.map(|client| {
            let receive = replace(&receive, "TICKET", &ticket);
            self.start(client, &replace(&receive, "/srv", client))
        });
        receivers.into_iter().for_each(|receiver| _ = finish_well(receiver));
        CLIENTS.iter().for_each(|client| self.has(client, "folder/file"));
        finish_well(sender);
    }

    fn evaluate_a_delivery(&self) {
        let small = "--set sizes=1M --set settle=0s --set deliveries=nack";
        let scaling = self.command("treecast lab run labs/librecast/scaling.toml");
        let text = self.finish("server", &format!("{scaling} {small}"));
        assert!(text.contains("All 45 copies came whole."), "{text}");
        assert!(
            self.site.scratch.path("out/scaling/report.html").exists(),
            "the report is where labs/README.md says"
        );
        // Its 204 nodes take too long here. `use_cases.rs` runs such an experiment.
        let thesis = self.command("treecast lab run labs/meadcast/uc2.toml");
        assert!(self.finish("server", &format!("{thesis} --plan")).contains("runs"));
    }

    fn bring_a_program_to_many_hosts(&self) {
        let sockets = CLIENTS.map(|client| {
            let socket = self.within(client, || UdpSocket::bind("[::]:5000").unwrap());
            socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            socket
        });
        let mut mead = self.start("server", &format!("exec {}", self.command("treecast mead")));
        assert!(first_line(&mut mead).contains("ready"));
        let program = self.within("server", || UdpSocket::bind("[::]:0").unwrap());
        program.send_to(b"from any program", "[fd15::1]:7777").unwrap();
        for socket in sockets {
            let mut datagram = [0; 100];
            let len = socket.recv(&mut datagram).unwrap();
            assert_eq!(&datagram[..len], b"from any program");
        }
    }

    fn see_many_hosts(&self) {
        let manager = self.command("treecast manager");
        let mut manager = self.start("server", &format!("exec {manager} --state manager"));
        assert!(first_line(&mut manager).contains("Open this in a browser"));
        drop(manager);
        let mut trial = self.start("server", &format!("exec {}", self.command("treecast manager --try")));
        assert!(first_line(&mut trial).contains("Open this in a browser"));
        // It takes its lab down.
        treecast_host::process::signal(&trial, libc::SIGINT).unwrap();
        finish_well(trial);
    }

    fn find_out_what_a_network_does(&self) {
        let text = self.finish("router", &self.command("treecast mroute show"));
        assert!(text.contains("if1"), "{text}");
        self.finish("server", &self.command("treecast monitor"));
        assert!(self.site.scratch.path("sum.rec").exists(), "the recording is there");
        self.finish("server", &self.command("treecast status"));
        self.finish("server", &self.command("treecast status --receivers"));
    }

    /// The one command of README.md that begins so and was not typed yet.
    fn command(&self, start: &str) -> String {
        let mut commands = self.commands.borrow_mut();
        let found = commands.iter().find(|command| command.starts_with(start)).cloned();
        let found = found.unwrap_or_else(|| panic!("README.md shows no command that begins with {start:?}"));
        commands.remove(&found);
        found
    }

    /// Types a command on a node, in the folder with the files.
    fn start(&self, node: &str, command: &str) -> Guarded {
        let treecast = Path::new(TREECAST).parent().unwrap().display();
        let path = format!("{treecast}:{}", std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(self.site.scratch.path("")).env("PATH", path);
        start(&mut self.site.on(node, shell))
    }

    fn finish(&self, node: &str, command: &str) -> String {
        finish_well(self.start(node, command))
    }

    #[track_caller]
    fn has(&self, folder: &str, name: &str) {
        self.site.scratch.assert_file(&format!("{folder}/{name}"), SIZE);
    }

    fn within<T: Send>(&self, node: &str, act: impl FnOnce() -> T + Send) -> T {
        self.site.lab().enter(node, act).unwrap()
    }
}

/// What README.md shows as commands: in a block with prompts the lines behind one, else all lines.
fn commands() -> BTreeSet<String> {
    let text = fs::read_to_string(workspace().join("README.md")).unwrap();
    let blocks = text.split("\n\n").filter(|block| block.starts_with("    "));
    let commands = blocks.flat_map(|block| {
        let lines: Vec<&str> = block.lines().map(str::trim).collect();
        let typed: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("$ ")).collect();
        if typed.is_empty() { lines } else { typed }
    });
    commands.map(|line| line.split("  #").next().unwrap().trim().to_owned()).collect()
}

/// A command with other words in place of some of it.
fn replace(command: &str, words: &str, others: &str) -> String {
    assert!(command.contains(words), "README.md no longer has {words:?} in: {command}");
    command.replace(words, others)
}

fn first_line(program: &mut Guarded) -> String {
    let mut line = String::new();
    let stdout = program.stdout.as_mut().expect("it is piped");
    // Byte by byte, so that what follows is left for whoever reads on.
    let mut byte = [0];
    while stdout.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
        line.push(char::from(byte[0]));
    }
    line
}
