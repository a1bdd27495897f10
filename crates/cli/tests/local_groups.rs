//! `treecast send --repair local` on a network: receivers that lose packets mend each other's losses in groups that they form.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket},
    time::{Duration, Instant},
};

use crate::{
    child::Guarded,
    session::{assert_says, events, last_event, wait_until},
    site::Site,
};
use serde_json::Value;
use treecast_driver::seal::{Sealer, Secret};
use treecast_wire::{
    header::{FileId, Header, PacketType},
    ticket::local_group,
};

const RECEIVERS: usize = 6;
const LEN: usize = 2_000_000;

/// A sender and six receivers on one link, each of which loses 3 % of what comes. One more host is there for who likes.
fn site() -> Site {
    let site = Site::up(&format!("lan:clients={},loss=3%,rate=100M", RECEIVERS + 1));
    site.scratch.file("file", LEN);
    site
}

fn send(site: &Site, args: &str) -> Guarded {
    let usual = [["--rate", "6M"], ["--wait", "6"]];
    let usual = usual.iter().filter(|[option, _]| !args.contains(option)).flatten().copied();
    let usual: Vec<&str> = usual.collect();
    site.send(format!("--json --repair local {} {args} file", usual.join(" ")))
}

fn receive(site: &Site, args: &str) -> Vec<Guarded> {
    let receive = |number: usize| {
        let command = format!("receive --json --into copies{number} @ticket {args}");
        site.start(&format!("client{number}"), command, &format!("receiver{number}"))
    };
    (0..RECEIVERS).map(receive).collect()
}

/// Waits for the ends of all receivers, with this exit code. Returns what each has told of its group last.
fn all_end(site: &Site, receivers: Vec<Guarded>, code: i32) -> Vec<Value> {
    let end = |(number, receiver)| {
        let said = site.ends(receiver, &format!("receiver{number}"), code);
        if code == 0 {
            site.scratch.assert_file(&format!("copies{number}/file"), LEN);
        }
        last_event(&said, "done")["local"].clone()
    };
    receivers.into_iter().enumerate().map(end).collect()
}

/// What a receiver has told last of its group, and how many bytes it has.
fn state(site: &Site, receiver: usize) -> Option<(Value, u64)> {
    let said = site.said(&format!("receiver{receiver}"));
    let told = events(&said).into_iter().rfind(|event| !event["local"].is_null())?;
    Some((told["local"].clone(), told["bytes"].as_u64()?))
}

/// Listens to the session's group at the host that is no receiver. What is returned says whose packets have come.
fn heard_in_group(site: &Site) -> impl Fn() -> Vec<String> {
    let (ticket, node) = (site.scratch.ticket(), format!("client{RECEIVERS}"));
    let interface = site.lab().node(&node).unwrap().interfaces[0].index;
    let join = || {
        let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, ticket.group.port())).unwrap();
        // All is read at the end.
        treecast_host::option::grow_receive_buffer(&socket, 32 << 20).unwrap();
        let IpAddr::V6(group) = ticket.group.ip() else { panic!("{}", ticket.group) };
        socket.join_multicast_v6(&group, interface).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    };
    let socket = site.lab().enter(&node, join).unwrap();
    move || {
        let heard = std::iter::from_fn(|| socket.recv_from(&mut [0; 2_048]).ok());
        heard.map(|(_, from)| from.ip().to_string()).collect()
    }
}

fn count(local: &Value, key: &str) -> u64 {
    local[key].as_u64().unwrap_or_else(|| panic!("no {key} in {local}"))
}

fn sum(receivers: &[Value], key: &str) -> u64 {
    receivers.iter().map(|local| count(local, key)).sum()
}

#[test]
fn members_mend_each_others_losses() {
    let site = site();
    let sender = send(&site, "--plain");
    let other = "receive --into nothing @ticket --only *.iso";
    let other = site.start(&format!("client{RECEIVERS}"), other, "other");
    let done = all_end(&site, receive(&site, ""), 0);
    let told = last_event(&site.ends(sender, "sender", 0), "done");
    // It has asked for nothing, and nobody has waited for it.
    site.ends(other, "other", 1);
    let (lost, sent) = (sum(&done, "lost_blocks"), sum(&done, "sent_blocks"));
    let by_sender = ["session_repair_bytes", "group_repair_bytes"].map(|key| count(&told["local"], key));
    let by_sender = by_sender.iter().sum::<u64>() / 1_400;
    // How much the members mend is shown where time is simulated (crates/sim/tests/local.rs). On a busy machine they are late, and the
    // sender mends more.
    assert!(
        lost > 100 && sent > 0 && by_sender < lost,
        "{lost} lost, {sent} sent again, {by_sender} by the sender"
    );
    assert_eq!(told["complete"], true);
    // A member whose message that it leaves a group is lost counts in two groups for a while. Any of them may.
    let receivers = count(&told["local"], "receivers") as usize;
    assert!((RECEIVERS..=2 * RECEIVERS).contains(&receivers), "{told}");
}

#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn without_multicast_copies_go_to_each_receiver_and_repairs_to_who_lacks_them() {
    // All copies by unicast share the rate.
    for (name, arguments) in [
        ("unicast", "--plain --fanout unicast --rate 36M"),
        ("xcast", "--fanout xcast"),
        // More are waited for than come.
        ("source", "--wait 7 --wait-at-least 5 --wait-timeout 4 --source"),
    ] {
        let site = site();
        let own = if name == "source" { site.address("server0") } else { String::new() };
        let sender = send(&site, &format!("{arguments} {own}"));
        let done = all_end(&site, receive(&site, ""), 0);
        let told = last_event(&site.ends(sender, "sender", 0), "done");
        let [lost, sent, came] = ["lost_blocks", "sent_blocks", "repair_blocks"].map(|key| sum(&done, key));
        let by_sender = count(&told["local"], "group_repair_bytes") / 1_400;
        println!("{name}: {lost} lost, {sent} sent again by members, {by_sender} by the sender, {came} came");
        assert!(lost > 100 && sent > lost / 2, "{name}: {lost} lost, {sent} sent again");
        // On a busy machine members send again what comes late by itself: 1.27 times was seen.
        assert!(came < lost * 3 / 2, "{name}: {came} came for {lost}");
        assert!(by_sender * 2 < lost, "{name}: the sender alone sent {by_sender} of {lost} again");
    }
}

#[test]
fn receivers_of_a_sender_that_is_stopped_end_soon_and_say_why() {
    let site = site();
    let sender = send(&site, "");
    let receivers = receive(&site, "");
    wait_until("a quarter of the file has come", || {
        (0..RECEIVERS).all(|number| state(&site, number).is_some_and(|(_, bytes)| bytes > LEN as u64 / 4))
    });
    sender.signal(libc::SIGINT);
    let stopped = Instant::now();
    site.ends(sender, "sender", 1);
    for (number, receiver) in receivers.into_iter().enumerate() {
        assert_says(&site.ends(receiver, &format!("receiver{number}"), 1), &["the sender has stopped"]);
    }
    assert!(stopped.elapsed() < Duration::from_secs(25), "{:?}", stopped.elapsed());
}

/// A member has the ticket, so it can seal packets. It sends wrong blocks to the local group all the time.
#[test]
fn what_a_member_forges_is_in_no_copy() {
    let site = site();
    let sender = send(&site, "");
    let ticket = site.scratch.ticket();
    let secret = ticket.security.as_ref().and_then(|security| security.secret).expect("it is sealed");
    let mut receivers = receive(&site, "");
    let group = |number: usize| state(&site, number).and_then(|(local, _)| local["group"].as_u64());
    wait_until("all have a group", || (0..RECEIVERS).all(|number| group(number).is_some()));
    // A receiver may go to another group later.
    let mut groups = BTreeSet::new();
    let forger = format!("client{RECEIVERS}");
    let own: IpAddr = site.lab().node(&forger).unwrap().v6().unwrap().into();
    let socket = site.lab().enter(&forger, || UdpSocket::bind(SocketAddr::new(own, 0)).unwrap()).unwrap();
    let mut sealer = Sealer::from_secret(Secret::from(secret)).unwrap();
    let block_len = usize::from(ticket.block_len);
    let mut at = 0;
    while receivers.iter_mut().any(|receiver| receiver.try_wait().unwrap().is_none()) && at < 3_000 {
        if at % 50 == 0 {
            groups.extend((0..RECEIVERS).filter_map(group).map(|number| number as u32));
        }
        for number in &groups {
            let sequence = (at % (LEN / block_len) * block_len) as u64;
            let header =
                Header::new(PacketType::RetransmittedData, FileId::new(ticket.session, 0), sequence, 0);
            let mut sealed = Vec::new();
            sealer.seal_blocks(header, block_len, &vec![66; block_len], &mut sealed).unwrap();
            // Where nobody listens any more, that is its business.
            _ = socket.send_to(&sealed, local_group(ticket.group, *number));
        }
        at += 1;
        std::thread::sleep(Duration::from_millis(4));
    }
    for local in all_end(&site, receivers, 0) {
        assert!(count(&local, "refused_blocks") > 0, "it has seen the forger: {local}");
    }
    site.ends(sender, "sender", 0);
}

#[test]
fn groups_made_by_hand_are_as_the_file_says() {
    let site = site();
    let address = |number: usize| site.address(&format!("client{number}"));
    let line = |numbers: [usize; 3]| numbers.map(address).join(" ");
    let text = format!("first: {}\nsecond < first: {}\n", line([1, 0, 2]), line([4, 3, 5]));
    std::fs::write(site.scratch.path("groups"), text).unwrap();
    let sender = send(&site, "--plain --local-groups groups --deadline 30s");
    let heard = heard_in_group(&site);
    let receivers = receive(&site, "--local-groups groups --must-send");
    for (number, local) in all_end(&site, receivers, 0).into_iter().enumerate() {
        let (group, controller) = if number < 3 { (1, address(1)) } else { (2, address(4)) };
        assert_eq!(count(&local, "group"), group, "{local}");
        assert!(local["controller"].as_str().unwrap().contains(&controller), "{local}");
        assert_eq!(local["is_controller"] == true, [1, 4].contains(&number), "{local}");
    }
    site.ends(sender, "sender", 0);
    let senders = heard();
    let addresses: Vec<String> = (0..RECEIVERS).map(address).collect();
    // Its packets are lost, too.
    let lacking = addresses.iter().filter(|address| !senders.contains(address)).count();
    assert!(lacking <= 2, "members must send: {addresses:?} in {senders:?}");
}

/// How many objects the sender counts as late. One that is between two groups counts in both, or in none.
fn assert_late(told: &Value) {
    assert!((4..=8).contains(&count(&told["local"], "late_objects")), "{told}");
}

#[test]
fn what_is_late_is_given_up_and_counted() {
    let site = site();
    let sender = send(&site, "--plain --deadline 300ms");
    for (number, local) in all_end(&site, receive(&site, ""), 3).into_iter().enumerate() {
        assert_eq!(count(&local, "late_objects"), 1);
        assert_says(&site.said(&format!("receiver{number}")), &["it was late: not whole 300 ms"]);
    }
    let told = last_event(&site.ends(sender, "sender", 3), "done");
    assert_late(&told);
    assert_eq!(told["complete"], false);
}

/// The semi-reliable mode for streams: units come one by one, and none waits for a late one.
#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn a_feed_goes_to_local_groups() {
    const UNITS: usize = 30;
    let site = site();
    let units = (0..UNITS).map(|number| (format!("unit{number}"), 20_000 + number));
    let units: Vec<_> = units.inspect(|(name, len)| drop(site.scratch.file(name, *len))).collect();
    let list: String = units.iter().map(|(name, _)| format!("{name}\n")).collect();
    std::fs::write(site.scratch.path("list"), list).unwrap();
    // The file of twelve million bytes takes sixteen seconds, and is late. All units take one, and a few on a busy machine.
    site.scratch.file("file", 6 * LEN);
    let sender = send(&site, "--feed list --deadline 10s");
    for (number, local) in all_end(&site, receive(&site, ""), 3).into_iter().enumerate() {
        assert_eq!(count(&local, "late_objects"), 1, "{number}");
        units
            .iter()
            .for_each(|(name, len)| site.scratch.assert_file(&format!("copies{number}/{name}"), *len));
    }
    let told = last_event(&site.ends(sender, "sender", 3), "done");
    assert_late(&told);
    assert_eq!(told["objects"], UNITS + 1, "{told}");
}
