//! `treecast doctor` and `treecast doctor HOST...`: looks at this host and at what arrives between hosts, and prints what is wrong.

use std::{
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    process::ExitCode,
};

use serde::Serialize;
use treecast_doctor::{
    finding::{Advice, Finding, Level},
    host,
    network::{self, Matrix},
};
use treecast_host::interface::{Interface, InterfaceError};

use super::{Host, Outcome};
use crate::{arguments, mroute::table};

#[derive(clap::Args)]
pub struct Check {
    /// Hosts on which `treecast doctor listen` runs [default: look at this host alone]
    #[arg(value_name = "HOST")]
    hosts: Vec<String>,
    #[command(flatten)]
    host: Host,
    /// Try this group, too: up to 4 times, with HOST
    #[arg(long = "group", value_name = "GROUP", value_parser = group, requires = "hosts")]
    groups: Vec<IpAddr>,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    event: &'static str,
    /// The names of the hosts, this one first.
    hosts: Vec<String>,
    problems: usize,
    /// Whether packets were exchanged between hosts. False without other hosts.
    tested: bool,
    findings: Vec<Finding>,
    /// What arrives between the hosts.
    pairs: Vec<Matrix>,
    /// What is known of this host. Not known in a run with others.
    #[serde(skip_serializing_if = "Option::is_none")]
    facts: Option<host::Facts>,
}

pub fn run(args: &Check) -> Outcome {
    let report = match args.hosts.is_empty() {
        true => alone(args)?,
        false => together(args)?,
    };
    if args.json {
        say!("{}", serde_json::to_string(&report)?);
    } else {
        print(&report);
    }
    if report.problems == 0 && !report.tested && !args.hosts.is_empty() {
        return Err(untested(&report).into());
    }
    Ok(if report.problems > 0 { ExitCode::from(3) } else { ExitCode::SUCCESS })
}

fn alone(args: &Check) -> Result<Report, Box<dyn std::error::Error>> {
    // An interface that is down is a finding. One that does not exist is a mistake of the user.
    if let Some(Err(error @ InterfaceError::Missing { .. })) =
        args.host.interface.as_deref().map(Interface::named)
    {
        return Err(error.into());
    }
    let facts = host::gather(&args.host.name(), args.host.interface.as_deref(), args.host.listen)?;
    Ok(Report {
        facts: Some(facts.clone()),
        ..report(vec![facts.name.clone()], host::findings(&facts), Vec::new())
    })
}

fn together(args: &Check) -> Result<Report, Box<dyn std::error::Error>> {
    let addresses =
        args.hosts.iter().map(|host| resolve(host, args.host.port)).collect::<Result<Vec<_>, _>>()?;
    let agent = args.host.agent(addresses.first().copied())?;
    let mut tell = |what: &str| {
        if !args.json {
            remark!("{what} ...");
        }
    };
    if args.groups.len() > network::MAX_NAMED {
        return Err(format!(
            "--group names {} groups: name at most {}",
            args.groups.len(),
            network::MAX_NAMED
        )
        .into());
    }
    let seen = network::observe(agent, &addresses, &args.groups, &mut tell)?;
    let names = seen.hosts.iter().map(|host| host.name.clone()).collect();
    let tested = seen.has_tested();
    Ok(Report { tested, ..report(names, network::findings(&seen), Matrix::of(&seen)) })
}

/// The line for a run in which no host could send anything to another one.
fn untested(report: &Report) -> String {
    format!(
        "nothing was tested: no two of {} have addresses of one family on the interfaces that they use; give them some, or name interfaces \
         with --interface there and here",
        report.hosts.join(", ")
    )
}

/// Parses a group whose packets may leave their host.
fn group(text: &str) -> Result<IpAddr, &'static str> {
    let group = arguments::address(text).ok().filter(|group| network::is_beyond_host(*group));
    group.ok_or("expected a multicast group like 239.255.1.2 or ff15::1:2")
}

fn report(hosts: Vec<String>, findings: Vec<Finding>, pairs: Vec<Matrix>) -> Report {
    let problems = findings.iter().filter(|finding| finding.level == Level::Problem).count();
    Report { event: "doctor", hosts, problems, tested: false, findings, pairs, facts: None }
}

/// The address of a host that is given as an address or a name, with or without a port.
fn resolve(host: &str, port: u16) -> Result<SocketAddr, String> {
    let with_port = host.to_socket_addrs().or_else(|_| (host, port).to_socket_addrs());
    let found =
        with_port.map_err(|error| format!("{host}: {error}; name hosts by their address, like 192.0.2.1"))?;
    found
        .into_iter()
        .next()
        .ok_or_else(|| format!("{host} has no address; name hosts by their address, like 192.0.2.1"))
}

fn print(report: &Report) {
    let share = |arrived: Option<(usize, usize)>| {
        arrived.map_or_else(|| "-".to_owned(), |(arrived, tried)| format!("{arrived} of {tried}"))
    };
    let rows = report.pairs.iter().map(|pair| {
        let hops = pair.hops.map_or_else(|| "-".to_owned(), |hops| hops.to_string());
        let join =
            pair.join_ms_ipv4.max(pair.join_ms_ipv6).map_or_else(|| "-".to_owned(), |ms| format!("{ms} ms"));
        let leave = pair.leave_ms_ipv4.max(pair.leave_ms_ipv6);
        let leave = leave.map_or_else(|| "-".to_owned(), |ms| format!("{:.1} s", f64::from(ms) / 1000.0));
        [pair.from.clone(), pair.to.clone(), share(pair.ipv4), share(pair.ipv6), hops, join, leave]
    });
    if let Some(facts) = &report.facts {
        print_host(facts);
    }
    table(["FROM", "TO", "IPv4 GROUPS", "IPv6 GROUPS", "ROUTERS", "AFTER JOIN", "AFTER LEAVE"], rows);
    for finding in &report.findings {
        let kind = serde_json::to_value(finding.kind).ok();
        let kind = kind.as_ref().and_then(|kind| kind.as_str()).unwrap_or_default();
        let level = if finding.level == Level::Problem { "problem" } else { "remark" };
        say!("\n{level}: {kind} ({})", finding.blame);
        say!("  seen: {}", finding.seen);
        say!("  treecast send: {}", in_words(finding.advice));
        say!("  what to do: {}", finding.todo);
    }
    match report.problems {
        0 if report.facts.is_none() && !report.tested => {}
        0 => say!("\nNothing is wrong with multicast at: {}.", report.hosts.join(", ")),
        1 => say!("\n1 problem."),
        problems => say!("\n{problems} problems."),
    }
}

/// What was looked at on this host.
fn print_host(facts: &host::Facts) {
    let words = |words: Vec<String>| if words.is_empty() { "-".to_owned() } else { words.join(", ") };
    let rows = facts.interfaces.iter().map(|it| {
        let igmp = it.igmp_version.map_or_else(|| "-".to_owned(), |version| format!("v{version}"));
        let addresses = it.addresses.iter().map(ToString::to_string).collect();
        [
            it.name.clone(),
            state(it).to_owned(),
            it.mtu.to_string(),
            igmp,
            queriers(facts, it),
            words(addresses),
        ]
    });
    table(["INTERFACE", "STATE", "MTU", "IGMP", "QUERIERS", "ADDRESSES"], rows);
    let by = |route: &Option<String>| {
        route.as_ref().map_or_else(|| "no route".to_owned(), |name| format!("by {name}"))
    };
    say!("groups without a named interface: IPv4 {}, IPv6 {}", by(&facts.route_ipv4), by(&facts.route_ipv6));
}

fn state(interface: &host::InterfaceFacts) -> &'static str {
    match interface {
        it if !it.is_up => "down",
        it if it.is_port => "port",
        it if !it.has_carrier => "no carrier",
        it if !it.can_multicast => "no multicast",
        _ => "up",
    }
}

/// The queriers that were heard on an interface. `-`: nobody listened there.
fn queriers(facts: &host::Facts, interface: &host::InterfaceFacts) -> String {
    if !facts.queriers.listened_on.contains(&interface.name) {
        return "-".to_owned();
    }
    let name = |querier: &host::Querier| {
        let protocol = if querier.address.is_ipv4() { "IGMP" } else { "MLD" };
        format!("{} ({protocol}v{})", querier.address, querier.version)
    };
    let heard: Vec<_> =
        facts.queriers.heard.iter().filter(|it| it.interface == interface.name).map(name).collect();
    if heard.is_empty() { "none".to_owned() } else { heard.join(", ") }
}

/// What follows for `treecast send`.
fn in_words(advice: Advice) -> &'static str {
    match advice {
        Advice::Any => "every fanout works",
        Advice::AnySource => "every fanout works, but leave out --source",
        Advice::OneLan => {
            "--fanout multicast works on one LAN only; take --fanout auto, or unicast, beyond it"
        }
        Advice::LowerRate => "set --rate below the rate that passes, or leave it at auto",
        Advice::ShorterPackets => "set --block so that packets fit",
        Advice::NotMead => "do not take --fanout mead; multicast, xcast, unicast and auto work",
        Advice::NotMulticast => {
            "take --fanout auto, which finds out whom multicast reaches, or --fanout unicast"
        }
        Advice::OtherGroup => {
            "name a group that arrives with --group, and try it before with `treecast doctor --group`"
        }
        Advice::Unknown => {
            "this host took no part in the tests, so nothing is known; --fanout auto finds out what works"
        }
        Advice::Nothing => "no fanout works before this is mended",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_named_with_and_without_a_port() {
        assert_eq!(resolve("192.0.2.1", 7).unwrap(), SocketAddr::from(([192, 0, 2, 1], 7)));
        assert_eq!(resolve("192.0.2.1:9", 7).unwrap(), SocketAddr::from(([192, 0, 2, 1], 9)));
        assert_eq!(resolve("[fd00::1]:9", 7).unwrap().port(), 9);
        assert_eq!(resolve("fd00::1", 7).unwrap(), "[fd00::1]:7".parse().unwrap());
        assert!(resolve("no such host", 7).unwrap_err().contains("192.0.2.1"));
    }
}
