//! A host that sends to itself, in a network namespace of its own. Needs root.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    process::Command,
    thread,
    time::Duration,
};

use treecast_host::{namespace::Namespace, stop::Stop};
use treecast_load::{
    config::{Receiving, RunConfig, Sending},
    packet::{Format, PAPER_GROUP_V4, PAPER_GROUP_V6, PAPER_PORT},
    report::{Ending, HostReport},
    run::{self, RunError},
    schedule::Schedule,
};

const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 18, 0, 1);

/// Runs `work` in a new namespace, which has a cable from v0 to v1.
fn alone<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let inside = || {
        Namespace::enter_new().expect("this test makes a network namespace: run it as root");
        for line in [
            "link set lo up",
            "link add v0 type veth peer name v1",
            "addr add 10.18.0.1/24 dev v0",
            "addr add fd18::1/64 dev v0 nodad",
            "link set v0 up",
            "link set v1 up",
        ] {
            let status = Command::new("ip").args(line.split(' ')).status().expect("ip is installed");
            assert!(status.success(), "ip {line}");
        }
        work()
    };
    thread::scope(|scope| scope.spawn(inside).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

fn config(group: SocketAddr, packet: Format, rates: &str) -> RunConfig {
    let schedule = Schedule::parse(rates, 0.2).unwrap();
    let receiving = Receiving {
        linger: Duration::from_millis(150),
        schedule: Some(schedule.clone()),
        ..Receiving::new(Duration::from_millis(200))
    };
    RunConfig {
        host: "alone".into(),
        group,
        interface: "v0".into(),
        sources: Vec::new(),
        packet,
        size_bytes: packet.min_bytes(),
        hops: 1,
        loops_back: true,
        lead: Duration::from_millis(50),
        sending: Some(Sending { senders: 3, threads: 2, ..Sending::new(schedule) }),
        receiving: Some(receiving),
    }
}

fn own_group() -> SocketAddr {
    ([239, 18, 0, 1], 4000).into()
}

fn run(config: &RunConfig) -> HostReport {
    run::run(config, &Stop::new().unwrap(), &mut |_| {}).unwrap()
}

/// The number of packets that were heard of each sender, and the number that were not.
fn heard(report: &HostReport) -> Vec<(u64, u64)> {
    report
        .receiver
        .as_ref()
        .unwrap()
        .pairs
        .iter()
        .map(|pair| (pair.counts.received, pair.counts.lost))
        .collect()
}

#[test]
fn all_that_is_sent_leaves_and_arrives_with_both_packets_and_families() {
    let groups: [(SocketAddr, Format); 4] = [
        (own_group(), Format::Own),
        ("[ff15::18]:4000".parse().unwrap(), Format::Own),
        ((PAPER_GROUP_V4, PAPER_PORT).into(), Format::Paper),
        ((PAPER_GROUP_V6, PAPER_PORT).into(), Format::Paper),
    ];
    alone(|| {
        for (group, format) in groups {
            let report = run(&config(group, format, "200,600"));
            assert!(report.is_met(), "{report:?}");
            assert_eq!((report.on_wire, report.senders.len()), (Some(240), 3), "{group}");
            assert_eq!(heard(&report), [(80, 0); 3], "{group}");
            let pairs = &report.receiver.unwrap().pairs;
            let rates = pairs[0].rates.iter().map(|rate| (rate.rate_pps, rate.expected));
            assert_eq!(rates.collect::<Vec<_>>(), [(200.0, 20), (600.0, 60)], "{group}");
            let identities = pairs.iter().map(|pair| pair.sender).collect::<Vec<_>>();
            assert_eq!(identities, [1, 2, 3].map(|last| Ipv4Addr::new(10, 18, 0, last)), "{group}");
            let announced = pairs.iter().all(|pair| pair.ending == Ending::Announced);
            assert_eq!(
                (announced, pairs[0].delay.latency.is_some()),
                (format == Format::Own, format == Format::Own)
            );
        }
    });
}

#[test]
fn only_the_joined_source_is_heard() {
    alone(|| {
        let group = ([232, 18, 0, 1], 4000).into();
        let from = |source: Ipv4Addr| {
            run(&RunConfig { sources: vec![IpAddr::from(source)], ..config(group, Format::Own, "100") })
        };
        assert_eq!(heard(&from(ADDRESS)), [(20, 0); 3]);
        assert_eq!(heard(&from(Ipv4Addr::new(10, 18, 0, 9))), []);
    });
}

#[test]
fn a_host_that_cannot_send_what_was_asked_says_so() {
    alone(|| {
        let mut asked = config(own_group(), Format::Own, "500000000");
        asked.receiving = None;
        asked.sending.as_mut().unwrap().senders = 1;
        let report = run(&asked);
        assert!(!report.is_met() && report.senders[0].sent < report.senders[0].asked);
        assert_eq!(report.on_wire, Some(report.senders[0].sent), "what has a number has left");
        assert!(report.warnings.iter().any(|line| line.contains("could not send what was asked")));

        // What a link without a carrier drops has not left, although the kernel took it.
        let status = Command::new("ip").args("link set v1 down".split(' ')).status().unwrap();
        assert!(status.success());
        let report = run(&config(own_group(), Format::Own, "100"));
        assert!(!report.is_met(), "{report:?}");
        assert!(report.warnings.iter().any(|line| line.contains("no carrier")), "{:?}", report.warnings);
    });
}

#[test]
fn what_cannot_work_is_refused_in_words() {
    let refused = |change: &dyn Fn(&mut RunConfig)| {
        let mut config = config(own_group(), Format::Own, "1");
        change(&mut config);
        let error: RunError = run::run(&config, &Stop::new().unwrap(), &mut |_| {}).unwrap_err();
        error.to_string()
    };
    assert!(refused(&|config| config.size_bytes = 31).contains("too small"));
    assert!(refused(&|config| config.size_bytes = 70_000).contains("too large"));
    assert!(refused(&|config| config.group = ([10, 0, 0, 1], 1).into()).contains("no multicast group"));
    assert!(refused(&|config| config.sources = vec!["::1".parse().unwrap()]).contains("different families"));
    assert!(refused(&|config| config.interface = "no-such-if".into()).contains("does not exist"));
    assert!(refused(&|config| (config.sending, config.receiving) = (None, None)).contains("no part"));
}
