//! `treecast router` that is killed, started again, and told to leave, while packets come.

use std::{
    net::{Ipv6Addr, UdpSocket},
    process::Stdio,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::{
    mead_sender::Sender,
    mroute_network::PATIENCE,
    router_network::{C1, C2, C3, R2, assert_heard, receivers, send, set, start, status, tree},
    session::wait_until,
};

/// Packets for all three receivers, one every 5 ms, and how many each receiver has heard.
struct Flow {
    ends: AtomicBool,
    heard: [AtomicU32; 3],
}

impl Flow {
    /// Sends and counts at `receivers` while `act` goes on. Returns how many were sent, and how many each receiver lacks.
    fn beside(receivers: &[UdpSocket; 3], send: impl Fn() + Sync, act: impl FnOnce()) -> (u32, [u32; 3]) {
        let flow = Self { ends: AtomicBool::new(false), heard: [const { AtomicU32::new(0) }; 3] };
        let sent = thread::scope(|scope| {
            let sending = scope.spawn(|| flow.send(&send));
            for (receiver, heard) in receivers.iter().zip(&flow.heard) {
                scope.spawn(|| flow.count(receiver, heard));
            }
            act();
            flow.ends.store(true, Ordering::Relaxed);
            sending.join().expect("it sends")
        });
        (sent, flow.heard.map(|heard| sent - heard.into_inner()))
    }

    fn send(&self, send: impl Fn()) -> u32 {
        let mut sent = 0;
        while !self.ends.load(Ordering::Relaxed) {
            send();
            sent += 1;
            thread::sleep(Duration::from_millis(5));
        }
        sent
    }

    fn count(&self, receiver: &UdpSocket, heard: &AtomicU32) {
        receiver.set_read_timeout(Some(Duration::from_millis(300))).expect("a good time");
        let mut buffer = [0; 16];
        loop {
            match receiver.recv(&mut buffer) {
                Ok(_) => _ = heard.fetch_add(1, Ordering::Relaxed),
                Err(_) if self.ends.load(Ordering::Relaxed) => return,
                Err(_) => {}
            }
        }
    }
}

/// What receivers hear of "one" while only r1 acts.
const SERVED: [&[&str]; 3] = [&["one"], &[], &["one"]];

#[test]
fn a_killed_router_that_is_started_again_loses_nothing() {
    let network = tree();
    let _r2 = start(&network, "r2", &[]);
    let receivers = receivers(&network);
    for arguments in [&[][..], &["--as-filter"]] {
        let first = start(&network, "r1", arguments);
        send(&network, "first");
        assert_heard(&receivers, [&["first"]; 3], "first");
        let mut second = None;
        let (sent, lost) = Flow::beside(
            &receivers,
            || send(&network, "x"),
            || {
                thread::sleep(Duration::from_millis(300));
                drop(first);
                network.refuses(
                    "r1",
                    &["router", "set", "disable"],
                    &["was killed about", "its program at c3, r2, s acts for", "`treecast router run`"],
                );
                thread::sleep(Duration::from_secs(1));
                second = Some(start(&network, "r1", arguments));
                thread::sleep(Duration::from_millis(300));
            },
        );
        assert_eq!(lost, [0; 3], "{arguments:?}, of {sent}");
        assert!(sent > 100, "{sent}");
    }
}

#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn a_killed_routers_program_ends_to_act_and_can_be_taken_away() {
    let network = tree();
    let receivers = receivers(&network);
    let kill = |arguments: &[&str]| drop(start(&network, "r1", arguments));
    kill(&[]);
    let killed = Instant::now();
    send(&network, "one");
    assert_heard(&receivers, SERVED, "a restart would lose nothing");
    let status = || network.treecast("r1", &["router", "status"]).stderr;
    wait_until("its program acts no more", || String::from_utf8_lossy(&status()).contains("acts no more"));
    // 10 s after the last sign of life, which a busy machine may have delayed.
    assert!(killed.elapsed() > Duration::from_secs(4), "{:?}", killed.elapsed());
    send(&network, "plain");
    assert_heard(&receivers, [&[], &[], &["plain"]], "by the kernel");

    let clean = || network.prints("r1", &["router", "clean"]);
    for arguments in [&[][..], &["--as-filter"]] {
        kill(arguments);
        network.refuses("r1", &["router", "status"], &["its program at c3, r2, s acts for"]);
        assert_eq!(clean(), "taken away from c3, r2, s\n", "{arguments:?}");
        network.refuses("r1", &["router", "status"], &["start one with `treecast router run`"]);
        send(&network, "plain");
        assert_heard(&receivers, [&[], &[], &["plain"]], "by the kernel");
    }
    let router = start(&network, "r1", &[]);
    assert_eq!(clean(), "no router that was killed has left anything here\n", "a living one's stays");
    assert_eq!(router.terminate(), Some(0));
}

/// One by `set disable` and in user space, the other one by SIGTERM. The sender would look for routers every 12 s.
#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn a_router_that_leaves_loses_nothing() {
    let network = tree();
    let receivers = receivers(&network);
    let run = ["router", "run", "--all"];
    let r1 = network.daemon("r1", &run, Stdio::inherit());
    let _r2 = network.daemon("r2", &[&run[..], &["--user-space"]].concat(), Stdio::inherit());
    let [c1, c2, c3] = [C1, C2, C3].map(|receiver| receiver.to_string());
    let mut sender = Sender::start(&network, &["-T", "1", "-I", "12", &c1, &c2, &c3, "5000"]);
    sender.group_with_unicast(0);
    let programs = network.within("s", || UdpSocket::bind("[::]:0").expect("a free port"));
    let send = || _ = programs.send_to(b"x", "[fd15::1]:7777").expect("the device is there");
    let (sent, lost) = Flow::beside(&receivers, send, || {
        thread::sleep(Duration::from_millis(300));
        set(&network, "r2", &["disable"]);
        let shown = network.prints("r2", &["router", "status"]);
        assert!(shown.starts_with("leaving for 0 s: answers no discovery, is disabled when"), "{shown}");
        let leaving = status(&network, "r2").leaving.expect("it leaves");
        assert!(!leaving.ends && leaving.at_most_seconds > 60.0, "{leaving:?}");
        let group = sender.next("group");
        assert!(!group["lists"].to_string().contains(&R2.to_string()), "{group}");
        assert_eq!(r1.terminate(), Some(0));
        wait_until("it is disabled", || !status(&network, "r2").is_enabled);
        thread::sleep(Duration::from_millis(300));
    });
    assert_eq!(lost, [0; 3], "of {sent}");
    let farewells = sender.end()["farewells"].as_u64();
    assert!(farewells >= Some(2), "{farewells:?}");
}

#[test]
fn a_router_that_leaves_may_stay_or_end_at_once_after_all() {
    let network = tree();
    let router = network.daemon("r1", &["router", "run", "--all"], Stdio::inherit());
    let receivers = receivers(&network);
    send(&network, "one");
    assert_heard(&receivers, SERVED, "it acts");
    set(&network, "r1", &["disable"]);
    send(&network, "one");
    assert_heard(&receivers, SERVED, "it acts on");
    set(&network, "r1", &["enable"]);
    assert_eq!(status(&network, "r1").leaving, None);
    router.signal(libc::SIGTERM);
    wait_until("it leaves", || status(&network, "r1").leaving.is_some_and(|leaving| leaving.ends));
    network.refuses("r1", &["router", "set", "enable"], &["it is about to end"]);
    // It is in use: by itself it would leave after 75 s.
    let begin = Instant::now();
    let end = || assert_eq!(router.terminate(), Some(0));
    Flow::beside(&receivers, || send(&network, "x"), end);
    assert!(begin.elapsed() < PATIENCE, "it does not wait any longer");
}

/// Hosts say anew what they listen to only when the new daemon's first query has reached them, up to 10 s later.
#[test]
fn a_designated_router_that_is_started_again_knows_who_listens() {
    let network = tree();
    let group: Ipv6Addr = "ff15::4242".parse().expect("an address");
    let known = || status(&network, "r1").groups.into_iter().map(|one| one.group).collect::<Vec<_>>();
    let first = start(&network, "r1", &["--designated"]);
    let listener = network.listen("c3", "r1", &group.to_string(), None);
    wait_until("it knows who listens", || known() == [group]);
    drop(first);
    // Nobody is there to hear that.
    drop(listener);
    let _second = start(&network, "r1", &["--designated"]);
    assert_eq!(known(), [group]);
}
