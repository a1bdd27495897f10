use super::*;

const START: Instant = Instant::from_nanos(1_000_000_000_000);

fn at(seconds: u64) -> Instant {
    START + Duration::from_secs(seconds)
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// The router is fe80::5 on this link; what it wants at its start has been taken.
fn link() -> Link {
    let mut link = Link::new(START, address("fe80::5"), Timers::default(), Limits::default());
    outputs(&mut link, 0);
    link
}

fn outputs(link: &mut Link, seconds: u64) -> Vec<Output> {
    std::iter::from_fn(|| link.poll(at(seconds))).collect()
}

/// The queries among what the link wants in this time, in seconds: when, and what of.
fn queries(link: &mut Link, from: u64, until: u64) -> Vec<(u64, Option<IpAddr>)> {
    let mut queries = Vec::new();
    let mut now = at(from);
    while now <= at(until) {
        while let Some(output) = link.poll(now) {
            if let Output::Send(Message::Query(query)) = output {
                queries.push(((now - START).as_secs(), query.group));
            }
        }
        now = link.deadline();
    }
    queries
}

fn general_query(robustness: u8, seconds: u64) -> Message {
    let general = Query::general(Duration::from_secs(10), Duration::from_secs(seconds));
    Message::Query(Query { robustness, ..general })
}

fn report(kind: RecordKind, group: &str, sources: &[&str]) -> Message {
    let sources = sources.iter().map(|source| address(source)).collect();
    Message::Report(vec![Record { kind, group: address(group), sources }])
}

#[test]
fn asks_and_advertises_at_once_and_then_regularly() {
    let mut link = Link::new(START, address("fe80::5"), Timers::default(), Limits::default());
    let first = outputs(&mut link, 0);
    let Output::Send(Message::Query(query)) = &first[0] else { panic!("{first:?}") };
    assert_eq!((query.group, query.max_response), (None, Duration::from_secs(1)));
    assert!(matches!(first[1], Output::Send(Message::RouterAdvertisement(_))), "{first:?}");
    assert_eq!(first.len(), 2);
    assert_eq!(queries(&mut link, 0, 300), [(31, None), (156, None), (281, None)]);
}

#[test]
fn the_lower_address_asks_until_it_falls_silent() {
    let mut link = link();
    link.handle(at(1), address("fe80::6"), general_query(2, 125));
    assert!(matches!(link.querier(), Querier::Own { .. }), "a higher address");
    link.handle(at(1), address("fe80::5"), general_query(2, 125));
    assert!(matches!(link.querier(), Querier::Own { .. }), "its own query, heard again");
    link.handle(at(1), address("fe80::4"), general_query(2, 125));
    let until = at(1) + Duration::from_secs(255);
    assert_eq!(link.querier(), Querier::Other { address: address("fe80::4"), until });
    link.handle(at(2), address("fe80::3"), general_query(2, 125));
    link.handle(at(3), address("fe80::4"), general_query(2, 125));
    let until = at(2) + Duration::from_secs(255);
    assert_eq!(link.querier(), Querier::Other { address: address("fe80::3"), until });
    assert_eq!(queries(&mut link, 3, 300), [(257, None)]);
    assert!(matches!(link.querier(), Querier::Own { .. }));
}

#[test]
fn a_bridge_without_an_address_is_no_querier() {
    let mut link = Link::new(START, address("192.0.2.5"), Timers::default(), Limits::default());
    link.handle(at(1), address("0.0.0.0"), general_query(2, 125));
    assert!(matches!(link.querier(), Querier::Own { .. }));
}

#[test]
fn the_queriers_timers_are_everyones() {
    let mut link = link();
    link.handle(at(1), address("fe80::4"), general_query(3, 10));
    link.handle(at(1), address("fe80::9"), report(RecordKind::IsExclude, "ff15::1", &[]));
    let (_, group) = link.groups().next().expect("a group");
    assert_eq!(group.exclude_until(), Some(at(1 + 3 * 10 + 10)));
}

/// Found with --query-interval 30 and 2 on one link: the second took over 4 s after each query.
#[test]
fn a_querier_that_asks_less_often_is_waited_for_that_long() {
    let quick = Timers::with_query_interval(Duration::from_secs(2));
    let mut link = Link::new(START, address("fe80::5"), quick, Limits::default());
    outputs(&mut link, 0);
    let response = quick.query_response_interval / 2;
    let other = |at, robustness: u32, interval: u64| {
        let until = at + Duration::from_secs(interval) * robustness + response;
        Querier::Other { address: address("fe80::4"), until }
    };
    for heard in [1, 31, 61] {
        link.handle(at(heard), address("fe80::4"), general_query(2, 30));
        assert_eq!(link.querier(), other(at(heard), 2, 30));
        assert_eq!(queries(&mut link, heard, heard + 30), []);
    }
    link.handle(at(91), address("fe80::4"), general_query(3, 40));
    assert_eq!(link.querier(), other(at(91), 3, 40), "as the last query says");
    link.handle(at(92), address("fe80::4"), general_query(0, 0));
    assert_eq!(link.querier(), other(at(92), 2, 2), "it does not say");
    link.handle(at(93), address("fe80::4"), general_query(2, 30));
    assert_eq!(queries(&mut link, 93, 160), [(153, None), (155, None), (157, None), (159, None)]);
    link.handle(at(160), address("fe80::4"), general_query(2, 30));
    assert_eq!(link.querier(), other(at(160), 2, 30), "it is back");
}

#[test]
fn who_knows_no_leaving_is_not_left() {
    let group = address("239.1.2.3");
    let mut link = Link::new(START, address("192.0.2.5"), Timers::default(), Limits::default());
    let host = address("192.0.2.9");
    let leave = |link: &mut Link, seconds| {
        outputs(link, seconds);
        link.handle(at(seconds), host, Message::OldLeave(group));
        outputs(link, seconds);
        let (_, group) = link.groups().next().expect("a group");
        group.exclude_until().expect("any source") - at(seconds)
    };
    link.handle(at(1), host, Message::IgmpV1Report(group));
    assert_eq!(leave(&mut link, 2), Duration::from_secs(259));
    let max_response = Duration::from_secs(1);
    link.handle(at(2), address("192.0.2.4"), Message::OldQuery { group: Some(group), max_response });
    assert_eq!(leave(&mut link, 2), Duration::from_secs(259), "nor would it answer this");
    link.handle(at(200), host, Message::OldReport(group));
    assert_eq!(leave(&mut link, 260), Duration::from_secs(200));
    assert_eq!(leave(&mut link, 261), Duration::from_secs(2), "the version 1 host is long gone");
}

#[test]
fn only_the_querier_asks_when_somebody_leaves() {
    let group = Some(address("ff15::1"));
    let mut querier = link();
    querier.handle(at(40), address("fe80::9"), report(RecordKind::ToExclude, "ff15::1", &[]));
    assert_eq!(outputs(&mut querier, 40).len(), 3, "a change, a late startup query, an advertisement");
    querier.handle(at(50), address("fe80::9"), report(RecordKind::ToInclude, "ff15::1", &[]));
    assert_eq!(queries(&mut querier, 50, 60), [(50, group), (51, group)]);
    assert_eq!(querier.groups().count(), 0);

    let mut other = link();
    other.handle(at(40), address("fe80::4"), general_query(2, 125));
    other.handle(at(40), address("fe80::9"), report(RecordKind::ToExclude, "ff15::1", &[]));
    other.handle(at(50), address("fe80::9"), report(RecordKind::ToInclude, "ff15::1", &[]));
    assert_eq!(queries(&mut other, 50, 60), []);
    assert_eq!(other.groups().count(), 1, "until it hears the querier ask");
    let Message::Query(query) = general_query(2, 125) else { panic!("it is a query") };
    let specific = Query { group, max_response: Duration::from_secs(1), ..query };
    other.handle(at(60), address("fe80::4"), Message::Query(specific));
    assert_eq!(queries(&mut other, 60, 63), []);
    assert_eq!(other.groups().count(), 0);
}

/// Between two routers, a source that one of them excludes is forwarded no longer. Where somebody else was heard, the querier asks.
#[test]
fn a_router_that_is_alone_on_a_link_is_not_asked_what_others_want() {
    let (router, group) = (address("fe80::9"), address("ff15::1"));
    for (others, asked) in [(None, 0), (Some(address("fe80::7")), 2), (Some(address("::")), 2)] {
        let mut link = link();
        let advertisement =
            RouterAdvertisement { advertisement_interval_s: 20, query_interval_s: 125, robustness: 2 };
        link.handle(at(1), router, Message::RouterAdvertisement(advertisement));
        others.into_iter().for_each(|other| link.handle(at(1), other, general_query(2, 125)));
        link.handle(at(40), router, report(RecordKind::IsExclude, "ff15::1", &[]));
        outputs(&mut link, 40);
        link.handle(at(50), router, report(RecordKind::Block, "ff15::1", &["2001:db8::1"]));
        let source = address("2001:db8::1");
        assert_eq!(link.filter(group).passes(source), asked > 0);
        assert!(link.filter(group).passes(address("2001:db8::2")));
        let queries = queries(&mut link, 50, 60).len();
        assert_eq!(queries, asked, "{others:?}");
        assert!(!link.filter(group).passes(source));
        link.handle(at(61), router, report(RecordKind::Allow, "ff15::1", &["2001:db8::1"]));
        assert!(link.filter(group).passes(source), "wanted again");
    }
}

/// A switch that is the querier asks only at the port of the listener that has left.
#[test]
fn who_doubts_does_not_wait_for_the_queriers_question() {
    for (own, querier, host, group) in
        [("fe80::5", "fe80::4", "fe80::9", "ff15::1"), ("192.0.2.5", "192.0.2.4", "192.0.2.9", "239.1.2.3")]
    {
        let mut link = Link::new(START, address(own), Timers::default(), Limits::default());
        link.handle(at(1), address(querier), general_query(2, 125));
        for (stays, left) in [(true, 1), (false, 0)] {
            link.handle(at(2), address(host), report(RecordKind::IsExclude, group, &[]));
            outputs(&mut link, 2);
            link.doubt(at(3), address(group));
            let asked = outputs(&mut link, 3);
            let suppresses = |output: &Output| {
                matches!(output, Output::Send(Message::Query(query))
                    if query.group == Some(address(group)) && query.suppress_router_processing)
            };
            assert!(asked.len() == 1 && asked.iter().all(suppresses), "{asked:?}");
            if stays {
                link.handle(at(4), address(host), report(RecordKind::IsExclude, group, &[]));
            }
            outputs(&mut link, 5);
            assert_eq!(link.groups().count(), left);
        }
        link.doubt(at(6), address(group));
        assert_eq!(outputs(&mut link, 6), [], "nobody listens");
        link.handle(at(7), address(host), Message::IgmpV1Report(address(group)));
        outputs(&mut link, 7);
        link.doubt(at(8), address(group));
        assert_eq!(outputs(&mut link, 10), [], "such a host would not answer");
    }
}

/// Found with two hosts that left within a second: the group was sent for 45 s after that.
#[test]
fn a_leave_of_an_older_version_that_is_lost_is_noticed_soon() {
    let (group, [one, other]) = (address("239.1.2.3"), ["192.0.2.9", "192.0.2.10"].map(address));
    for (is_querier, stays) in [(true, false), (false, false), (true, true), (false, true)] {
        let mut link = Link::new(START, address("192.0.2.5"), Timers::default(), Limits::default());
        outputs(&mut link, 0);
        if !is_querier {
            let max_response = Duration::from_secs(10);
            link.handle(at(1), address("192.0.2.4"), Message::OldQuery { group: None, max_response });
        }
        for host in [one, other] {
            link.handle(at(2), host, Message::OldReport(group));
        }
        outputs(&mut link, 2);
        link.handle(at(3), one, Message::OldLeave(group));
        if !is_querier {
            link.doubt(at(3), group);
        }
        // It answers, then leaves, and its word is lost.
        outputs(&mut link, 3);
        link.handle(at(4), other, Message::OldReport(group));
        let (mut now, mut asked) = (at(4), 0);
        while now < at(60) {
            let outputs: Vec<_> = std::iter::from_fn(|| link.poll(now)).collect();
            let asks = |output: &&Output| matches!(output, Output::Send(Message::Query(query)) if query.group == Some(group));
            let count = outputs.iter().filter(asks).count();
            if stays && count > 0 {
                link.handle(now, other, Message::OldReport(group));
            }
            asked += count;
            if link.groups().count() == 0 {
                break;
            }
            now = link.deadline();
        }
        assert_eq!(link.groups().count(), usize::from(stays));
        assert!(stays && asked <= 9 || !stays && now <= at(12), "asked {asked} times until {now}");
    }
}

/// Both routers of a link forget a group at the same time: the one that asks, and the one that hears it ask.
#[test]
fn who_hears_the_querier_ask_forgets_a_group_when_it_does() {
    let host = address("fe80::9");
    let mut routers = ["fe80::4", "fe80::5"]
        .map(|own| (address(own), Link::new(START, address(own), Timers::default(), Limits::default())));
    let mut forgotten = BTreeMap::new();
    for milliseconds in (0..20_000).step_by(50) {
        let now = START + Duration::from_millis(milliseconds);
        let said = match milliseconds {
            5_000 => Some(report(RecordKind::ToExclude, "ff15::1", &[])),
            10_000 => Some(report(RecordKind::ToInclude, "ff15::1", &[])),
            _ => None,
        };
        let mut heard: Vec<_> = said.into_iter().map(|said| (host, said)).collect();
        for (own, link) in &mut routers {
            while let Some(output) = link.poll(now) {
                match output {
                    Output::Send(message) => heard.push((*own, message)),
                    Output::Changed(changed) if link.filter(changed).is_nothing() => {
                        forgotten.insert(*own, milliseconds);
                    }
                    _ => {}
                }
            }
        }
        for (_, link) in &mut routers {
            heard.iter().for_each(|(from, message)| link.handle(now, *from, message.clone()));
        }
    }
    let [querier, other] = routers.map(|(_, link)| link.is_querier());
    assert!(querier && !other);
    let times: Vec<_> = forgotten.into_values().collect();
    assert!(times.len() == 2 && times.iter().all(|at| (12_000..=12_100).contains(at)), "{times:?}");
}

/// RFC 2710, 6, and RFC 2236, 7: a querier of the older version says how long listeners take to answer.
#[test]
fn an_old_queriers_question_lowers_timers_too() {
    for (own, querier, host, group) in
        [("fe80::5", "fe80::4", "fe80::9", "ff15::1"), ("192.0.2.5", "192.0.2.4", "192.0.2.9", "239.1.2.3")]
    {
        let mut link = Link::new(START, address(own), Timers::default(), Limits::default());
        let ask = |link: &mut Link, seconds, group: Option<&str>| {
            let max_response = Duration::from_secs(3);
            let query = Message::OldQuery { group: group.map(address), max_response };
            link.handle(at(seconds), address(querier), query);
        };
        let left = |link: &Link, seconds| {
            link.groups().next().map(|(_, group)| group.exclude_until().expect("any source") - at(seconds))
        };
        outputs(&mut link, 0);
        ask(&mut link, 1, None);
        link.handle(at(1), address(host), Message::OldReport(address(group)));
        ask(&mut link, 2, None);
        assert_eq!(left(&link, 2), Some(Duration::from_secs(259)), "asked about all groups");
        ask(&mut link, 3, Some(group));
        assert_eq!(left(&link, 3), Some(Duration::from_secs(6)), "two questions, 3 s each");
        outputs(&mut link, 9);
        assert_eq!(left(&link, 9), None);
    }
}

#[test]
fn a_change_is_told_once() {
    let mut link = link();
    for _ in 0..3 {
        link.handle(at(1), address("fe80::9"), report(RecordKind::IsExclude, "ff15::1", &[]));
    }
    assert_eq!(outputs(&mut link, 1), [Output::Changed(address("ff15::1"))]);
    assert_eq!(link.filter(address("ff15::1")), Filter::EVERYTHING);
    let mut changes = Vec::new();
    while link.deadline() <= at(261) {
        let now = link.deadline();
        let polled = std::iter::from_fn(|| link.poll(now));
        changes.extend(polled.filter(|output| !matches!(output, Output::Send(_))));
    }
    assert_eq!(changes, [Output::Changed(address("ff15::1"))], "it ran off");
    assert_eq!(link.filter(address("ff15::1")), Filter::NOTHING);
}

#[test]
fn groups_that_stay_on_the_link_and_wrong_modes_are_ignored() {
    let mut link = link();
    let from = address("fe80::9");
    link.handle(at(1), from, report(RecordKind::IsExclude, "ff02::1:ff00:9", &[]));
    link.handle(at(1), from, report(RecordKind::ToExclude, "ff3e::8000:1", &[]));
    link.handle(at(1), from, Message::OldReport(address("ff3e::8000:1")));
    link.handle(at(1), from, Message::IgmpV1Report(address("232.0.0.1")));
    link.handle(at(1), from, report(RecordKind::IsInclude, "ff15::1", &["fe80::1", "ff15::1"]));
    link.handle(at(1), from, report(RecordKind::IsInclude, "2001:db8::1", &["2001:db8::2"]));
    assert_eq!(link.groups().count(), 0);
    link.handle(at(1), from, report(RecordKind::Allow, "ff3e::8000:1", &["2001:db8::1"]));
    assert_eq!(link.groups().count(), 1);
}

#[test]
fn state_is_bounded_and_what_finds_no_room_is_counted() {
    let limits =
        Limits { groups_per_link: 2, sources_per_group: 2, sources_per_link: 3, ..Limits::default() };
    let mut link = Link::new(START, address("fe80::5"), Timers::default(), limits);
    let sources = ["2001:db8::1", "2001:db8::2", "2001:db8::3"];
    for group in ["ff15::1", "ff15::2", "ff15::3"] {
        link.handle(at(1), address("fe80::9"), report(RecordKind::IsInclude, group, &sources));
    }
    let held: Vec<_> = link.groups().map(|(_, group)| group.requested().count()).collect();
    assert_eq!((held, link.room().refused), (vec![2, 1], 1 + 2 + 3));
    outputs(&mut link, 300);
    link.handle(at(300), address("fe80::9"), report(RecordKind::IsInclude, "ff15::3", &sources));
    assert_eq!(link.groups().count(), 1, "there is room again");
}

/// Found with 42 reports of one host: for 260 s nobody else of its link was let in.
#[test]
fn one_hosts_flood_of_groups_keeps_nobody_else_out() {
    let join = |first: usize, count: usize| {
        let group = |number| IpAddr::from([239, 1, (number / 256) as u8, (number % 256) as u8]);
        let record =
            |number| Record { kind: RecordKind::ToExclude, group: group(number), sources: Vec::new() };
        Message::Report((first..first + count).map(record).collect())
    };
    let mut link = Link::new(START, address("192.0.2.5"), Timers::default(), Limits::default());
    link.handle(at(1), address("192.0.2.10"), join(0, 3));
    // What the flooder wants, too, is not lost with what is its alone.
    link.handle(at(1), address("192.0.2.66"), join(0, 3));
    for report in 0..42 {
        link.handle(at(1), address("192.0.2.66"), join(1000 + 50 * report, 50));
    }
    link.handle(at(1), address("192.0.2.10"), join(0, 3));
    let full = |link: &mut Link| outputs(link, 1).iter().filter(|out| **out == Output::Full).count();
    assert_eq!((full(&mut link), link.groups().count()), (1, 1024));
    let wanted = |link: &Link, numbers: std::ops::Range<usize>| {
        let Message::Report(records) = join(numbers.start, numbers.len()) else { panic!("it is a report") };
        records.iter().filter(|record| !link.filter(record.group).is_nothing()).count()
    };
    link.handle(at(2), address("192.0.2.11"), join(5000, 20));
    assert_eq!((wanted(&link, 0..3), wanted(&link, 5000..5020), full(&mut link)), (3, 20, 0));
    let room = link.room();
    assert_eq!((room.is_full, room.refused, room.replaced), (true, 3 + 42 * 50 - 1024, 20));
    assert_eq!(room.largest, Some((address("192.0.2.66"), 1024 - 3 - 20)));

    // With as many addresses as there is room for, newcomers find none, but nobody loses the last that is theirs.
    for number in 0..2000_usize {
        let flooder = IpAddr::from([192, 0, 3 + (number / 256) as u8, (number % 256) as u8]);
        link.handle(at(3), flooder, join(6000 + number, 1));
    }
    link.handle(at(4), address("192.0.2.12"), join(9000, 1));
    assert_eq!((wanted(&link, 0..3), wanted(&link, 5000..5020), wanted(&link, 9000..9001)), (1, 1, 0));
    outputs(&mut link, 300);
    link.handle(at(300), address("192.0.2.12"), join(9000, 1));
    assert_eq!(wanted(&link, 9000..9001), 1);
}

#[test]
fn one_hosts_flood_of_sources_keeps_nobody_elses_out() {
    let limits = Limits { sources_per_group: 8, sources_per_link: 32, ..Limits::default() };
    let mut link = Link::new(START, address("fe80::5"), Timers::default(), limits);
    let sources = |from: u16| (from..from + 8).map(|last| format!("2001:db8::{last:x}")).collect::<Vec<_>>();
    let request = |link: &mut Link, host: &str, group: &str, names: &[String]| {
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        link.handle(at(1), address(host), report(RecordKind::Allow, group, &names));
    };
    for group in 0..8 {
        request(&mut link, "fe80::66", &format!("ff3e::8000:{group}"), &sources(1));
    }
    assert_eq!((link.room().sources, link.room().refused), (32, 32));
    let (first, last) = (sources(0x100), sources(0x200));
    request(&mut link, "fe80::9", "ff3e::8000:0", &first[..2]);
    request(&mut link, "fe80::9", "ff3e::8000:7", &last[..2]);
    for (group, source) in [("ff3e::8000:0", &first[1]), ("ff3e::8000:7", &last[1])] {
        assert!(link.filter(address(group)).passes(address(source)), "{group}");
    }
    assert_eq!((link.room().sources, link.room().replaced), (32, 4));
}

#[test]
fn solicitations_are_answered_once_a_second() {
    let mut link = link();
    outputs(&mut link, 15);
    let mut advertisements = 0;
    for milliseconds in (0..2000).step_by(10) {
        let now = at(100) + Duration::from_millis(milliseconds);
        link.handle(now, address("fe80::9"), Message::RouterSolicitation);
        let polled = std::iter::from_fn(|| link.poll(now));
        let is_one = |output: &Output| matches!(output, Output::Send(Message::RouterAdvertisement(_)));
        advertisements += polled.filter(is_one).count();
    }
    assert_eq!(advertisements, 2);
}
