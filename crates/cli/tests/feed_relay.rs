//! `contrib/feed/relay.sh`: a site whose firewall drops UDP from the sender gets a feed by one TCP connection, and by its own multicast.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use crate::{
    session::{Guarded, Scratch, TREECAST, finish, path, start, wait_until},
    site::Site,
};

/// A LAN of a sender and three receivers, client0 to client2. The firewalls of the first two drop UDP from the sender.
fn site() -> Site {
    let site = Site::up("lan:clients=3,rate=100M,loss=0%");
    let server = site.address("server0");
    let rules = format!(
        "table inet site {{ chain input {{ type filter hook input priority 0; ip6 saddr {server} meta l4proto udp counter drop; }}; }}"
    );
    site.filter(&["client0", "client1"], &rules);
    site
}

fn feed(site: &Site) -> Guarded {
    let args = "feed --remove --keep 100 --rate 40M --ticket-file ticket source";
    let feed = start(site.command("server0", args).stderr(Stdio::null()));
    site.scratch.wait_for_ticket();
    feed
}

/// The process of a node whose command line has all these words.
fn process(site: &Site, node: &str, words: &[&str]) -> Option<String> {
    let namespace = &site.lab().node(node).unwrap().namespace;
    let pids = Command::new("ip").args(["netns", "pids", namespace]).output().unwrap();
    let pids = String::from_utf8(pids.stdout).unwrap();
    let is_it = |pid: &&str| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.iter().all(|word| line.split('\0').any(|argument| argument == *word))
    };
    pids.lines().find(is_it).map(str::to_owned)
}

/// Puts files of these numbers into the sender's folder.
fn put(scratch: &Scratch, numbers: std::ops::Range<usize>) {
    fs::create_dir_all(scratch.path("source/maps")).unwrap();
    for number in numbers {
        let hidden = scratch.file("source/.new", 1000 + 700 * number);
        fs::rename(hidden, scratch.path(&format!("source/maps/{number}"))).unwrap();
    }
}

fn wait_for(scratch: &Scratch, folders: &[&str], numbers: std::ops::Range<usize>) {
    for (folder, number) in
        folders.iter().flat_map(|folder| numbers.clone().map(move |number| (folder, number)))
    {
        let name = format!("{folder}/maps/{number}");
        wait_until(&name, || scratch.path(&name).exists());
        scratch.assert_file(&name, 1000 + 700 * number);
    }
}

fn script() -> String {
    path(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/feed/relay.sh")).to_owned()
}

/// Where the script finds the command.
fn search() -> String {
    let program = Path::new(TREECAST).parent().unwrap();
    format!("{}:{}", path(program), std::env::var("PATH").unwrap())
}

#[test]
fn a_relay_ends_whatever_its_ticket_command_does_and_tells_by_its_exit_code_how() {
    for shell in ["sh", "bash"] {
        let scratch = Scratch::new();
        let relay = |ask: &str, options: &[&str]| {
            let mut relay = Command::new(shell);
            relay.env("PATH", search()).env("TMPDIR", scratch.path("")).arg(script());
            relay.arg(scratch.path("a spool")).arg(ask);
            start(relay.args(["--interface", "lo"]).args(options))
        };
        let hangs = format!("touch '{}'; sleep 1000; true", scratch.arg("asked"));
        let hanging = relay(&hangs, &[]);
        wait_until("the ticket is asked for", || scratch.path("asked").exists());
        hanging.signal(15);
        let (code, told) = finish(hanging);
        assert_eq!(code, Some(0), "{shell}: {told}");
        assert_eq!(finish(relay("echo", &["--nonsense"])).0, Some(1), "{shell}");
        assert_eq!(finish(start(Command::new(shell).args([&script(), "a spool"]))).0, Some(2), "{shell}");
        assert_eq!(scratch.names(""), ["a spool", "asked"], "nothing stays of tickets");
    }
}

#[test]
fn a_relay_hands_a_feed_on_to_a_site_that_udp_does_not_reach() {
    let site = site();
    let scratch = &site.scratch;
    fs::create_dir(scratch.path("source")).unwrap();
    let sender = feed(&site);
    let mut relay = Command::new(script());
    relay
        .args(["a spool", "cat ticket", "--keep", "100", "--ticket-file", "the ticket"])
        .env("PATH", search());
    relay.current_dir(scratch.path("")).stdout(Stdio::null()).stderr(Stdio::null());
    let relay = start(&mut site.on("client0", relay));
    wait_until("the relay's ticket is written", || scratch.path("the ticket").exists());
    let receive = |node: &str, ticket: &str, into: &str| {
        start(site.command(node, ["receive", ticket, "--into", into]).stderr(Stdio::null()))
    };
    let far = receive("client1", "@the ticket", "site");
    let open = receive("client2", "@ticket", "open");
    put(scratch, 0..30);
    wait_for(scratch, &["open", "site"], 0..30);

    let receiver = || process(&site, "client0", &["receive", "a spool"]);
    let killed = receiver().expect("the relay receives");
    assert!(Command::new("kill").args(["-KILL", &killed]).status().unwrap().success());
    wait_until("the relay receives again", || receiver().is_some_and(|pid| pid != killed));
    put(scratch, 30..35);
    wait_for(scratch, &["open", "site"], 30..35);

    sender.signal(15);
    finish(sender);
    fs::remove_file(scratch.path("ticket")).unwrap();
    put(scratch, 35..40);
    let sender = feed(&site);
    wait_for(scratch, &["site"], 35..40);
    assert!(receiver().is_some());

    relay.signal(15);
    finish(relay);
    assert!(receiver().is_none(), "a relay that is stopped leaves no process behind");
    assert_eq!(scratch.names("a spool/maps"), [""; 0], "and no file");
    let (code, told) = finish(far);
    assert!(code == Some(0) && told.contains("40 files") && told.contains("nothing was lost"), "{told}");
    drop((open, sender));
}
