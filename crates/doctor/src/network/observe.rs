//! Makes a run: asks every host in turn, and keeps all that they say.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    thread,
    time::{Duration, Instant},
};

use super::{
    agent::Agent,
    control::{ControlError, Remote, random},
    groups::{self, Groups},
    judge,
    message::{Answer, Ear, Header, Heard, Host, Request, Target},
    plan::{self, What},
    seen::{Observation, STILL, Trace, USUAL_LEAVE},
    visit,
};
use crate::finding::{Blame, Finding};

/// The time in which switches and routers must have noticed a membership.
const JOIN_TIME: Duration = Duration::from_millis(800);
/// The time in which the last packet must have arrived.
const LAST_TIME: Duration = Duration::from_millis(400);
/// The time after which a switch no longer sends groups everywhere because of a new querier: the longest response time that
/// queriers usually allow (RFC 9776, section 8.3), and a little more.
const LEARNING_TIME: Duration = Duration::from_secs(11);
/// The time in which switches and routers have noticed a membership, even if they are very busy.
const SETTLING_TIME: Duration = Duration::from_secs(2);
/// The number of rounds that a host is asked for at a time. They take a few seconds.
const ROUNDS_AT_ONCE: usize = 40;

/// A host that can be asked.
enum Peer {
    Own(Box<Agent>),
    Remote(Remote),
    /// The host went away, or refused to listen. The run goes on without it.
    Gone,
}

impl Peer {
    fn ask(&mut self, request: &Request) -> Result<Answer, String> {
        let answer = match self {
            Self::Own(agent) => agent.answer(request, 0),
            Self::Remote(remote) => remote.ask(request).map_err(|error| error.to_string())?,
            Self::Gone => return Err("it is gone".into()),
        };
        match answer {
            Answer::Refused { why } => Err(why),
            answer => Ok(answer),
        }
    }
}

/// Makes a run between the doctor's own host and those at these addresses. Calls `tell` with what is done at the moment. A host
/// that cannot be reached, or that goes away in mid-run, is marked, and the others count.
///
/// # Errors
/// If the own host cannot take part, for example because another program has the port.
pub fn observe(
    own: Agent,
    others: &[SocketAddr],
    named: &[IpAddr],
    tell: &mut dyn FnMut(&str),
) -> Result<Observation, ControlError> {
    let mut peers = vec![Peer::Own(Box::new(own))];
    let mut seen = Observation::default();
    if let Ok(Answer::Host(host)) = peers[0].ask(&Request::Hello { version: super::message::VERSION }) {
        seen.hosts.push(host);
    }
    for address in others {
        if seen.hosts.first().is_some_and(|own| own.addresses.contains(&address.ip().to_canonical())) {
            let why = "this is an address of this host".to_owned();
            seen.unreachable.push((address.ip().to_string(), why, Some(NAME_OTHERS)));
            continue;
        }
        // A host that is named by two of its addresses takes part once.
        let ip = address.ip().to_canonical();
        if seen.hosts.iter().any(|host| host.addresses.contains(&ip)) {
            continue;
        }
        match Remote::open(*address) {
            Ok((remote, host)) => {
                prove(&remote, &host, &mut seen);
                seen.hosts.push(host);
                peers.push(Peer::Remote(remote));
            }
            Err(error) => {
                let todo = error.what_to_do();
                seen.unreachable.push((address.ip().to_string(), error.to_string(), todo));
            }
        }
    }
    let own_names = set_apart(&mut seen.hosts);
    let number = random().unwrap_or(u64::from(std::process::id()));
    seen.groups = Groups::of_run(number, named);
    seen.tests = plan::tests(&seen.hosts, &seen.groups);
    let mut run = Run { number, named: named.to_vec(), own_names, peers, seen, looks: 0 };
    if run.peers.len() > 1 {
        run.listen(tell, Some(USUAL_LEAVE))?;
    }
    let listening = Instant::now();
    tell("looking at each host, and listening for queriers");
    run.examine();
    if run.peers.len() > 1 {
        run.exchange(listening, tell);
    }
    Ok(run.seen)
}

/// The remedy where a person named the doctor's own host.
const NAME_OTHERS: &str = "name other hosts only: this one takes part in any case";

/// Adds the addresses to the names of hosts that call themselves the same. Returns what all hosts call themselves.
fn set_apart(hosts: &mut [Host]) -> Vec<String> {
    let own_names: Vec<_> = hosts.iter().map(|host| host.name.clone()).collect();
    for host in hosts {
        if own_names.iter().filter(|name| **name == host.name).count() > 1 {
            let address = host.addresses.first().map(ToString::to_string).unwrap_or_default();
            host.name = format!("{} ({address})", host.name);
        }
    }
    own_names
}

/// The finding of a host about itself, with the name by which the run knows it.
fn renamed(mut finding: Finding, own: &str, known: &str) -> Finding {
    if let Blame::Host { name } | Blame::LinkOf { host: name } = &mut finding.blame
        && *name == own
    {
        known.clone_into(name);
    }
    finding
}

/// Proves the own addresses of the families that the control connection does not use.
fn prove(remote: &Remote, host: &Host, seen: &mut Observation) {
    for address in &host.addresses {
        let is_ipv4 = address.is_ipv4();
        if is_ipv4 == remote.address().is_ipv4() || seen.hosts[0].address(is_ipv4).is_none() {
            continue;
        }
        if let Err(error) = remote.prove(*address, host.token) {
            seen.no_unicast.push((seen.hosts.len(), is_ipv4, error.to_string()));
        }
    }
}

/// A run that goes on.
struct Run {
    number: u64,
    /// The groups that the person has named.
    named: Vec<IpAddr>,
    /// The names that hosts give themselves.
    own_names: Vec<String>,
    peers: Vec<Peer>,
    seen: Observation,
    /// The number of visits so far.
    looks: usize,
}

impl Run {
    /// Makes all hosts join the groups, and make a visit that ends so long after its leave.
    fn listen(&mut self, tell: &mut dyn FnMut(&str), visit: Option<Duration>) -> Result<(), ControlError> {
        tell("joining groups");
        let look = self.looks.min(groups::LOOKS - 1);
        let (run, named, groups) = (self.number, self.named.clone(), self.seen.groups.clone());
        let (hosts, tests) = (self.seen.hosts.clone(), self.seen.tests.clone());
        self.ask_all(|host| Request::Listen {
            run,
            groups: named.clone(),
            senders: hosts.len() as u16,
            tests: tests.len() as u16,
            joins: plan::joins(&hosts, &groups, host),
            visit: visit.map(|after| plan::visit(&hosts, &tests, host, look, after)),
        });
        self.looks += usize::from(visit.is_some());
        if self.seen.gone.contains(&0) {
            let why = self.seen.unreachable.pop().map(|(_, why, _)| why).unwrap_or_default();
            return Err(ControlError::Own { why });
        }
        Ok(())
    }

    fn examine(&mut self) {
        let answers = self.ask_all(|_| Request::Examine);
        for (host, answer) in answers.into_iter().enumerate() {
            let name = |finding| renamed(finding, &self.own_names[host], &self.seen.hosts[host].name);
            self.seen.examined.push(match answer {
                Some(Answer::Examined { findings, queriers }) => {
                    (findings.into_iter().map(name).collect(), queriers)
                }
                _ => Default::default(),
            });
        }
    }

    /// Makes all hosts send, looks again at what seems wrong, and traces what is dropped. The hosts have been
    /// listening since this time.
    fn exchange(&mut self, listening: Instant, tell: &mut dyn FnMut(&str)) {
        thread::sleep(JOIN_TIME.saturating_sub(listening.elapsed()));
        let is_comparison: Vec<_> = self.seen.tests.iter().map(|test| test.what.is_comparison()).collect();
        self.send_all(tell, |test| !is_comparison[test]);
        wait_for_visits(listening, USUAL_LEAVE);
        let addresses: Vec<_> = self.seen.hosts.iter().flat_map(|host| host.addresses.clone()).collect();
        for answer in self.ask_all(|_| Request::Collect { senders: addresses.clone() }) {
            self.seen.ears.push(if let Some(Answer::Heard(ear)) = answer { ear } else { Ear::default() });
        }
        self.look_again(tell);
        trace(&mut self.peers, &mut self.seen, self.number, tell);
    }

    fn send_all(&mut self, tell: &mut dyn FnMut(&str), is_wanted: impl Fn(usize) -> bool) {
        for sender in 0..self.peers.len() {
            tell(&format!("{} sends", self.seen.hosts[sender].name));
            self.send(sender, &is_wanted);
        }
        thread::sleep(LAST_TIME);
    }

    /// Tests again what seems wrong. See [`judge::doubtful`].
    fn look_again(&mut self, tell: &mut dyn FnMut(&str)) {
        let doubtful = judge::doubtful(&self.seen);
        if doubtful.is_empty() {
            return;
        }
        if !self.is_about(&doubtful, What::JoinedBySome) {
            tell("something seems wrong: looking again");
            return self.look(&doubtful, STILL, tell);
        }
        let of_what = |what: What| -> BTreeSet<usize> {
            let tests = self.seen.tests.iter().enumerate();
            tests.filter(|(_, test)| test.what == what).map(|(number, _)| number).collect()
        };
        let (visits, of_some) = (of_what(What::Visit), of_what(What::JoinedBySome));
        self.learn(tell);
        self.look(&doubtful.union(&visits).copied().collect(), USUAL_LEAVE, tell);
        let still = judge::doubtful(&self.seen);
        // A querier may have begun just before the second look, too.
        if !still.is_disjoint(&of_some) {
            self.learn(tell);
        }
        let again: BTreeSet<_> =
            still.into_iter().filter(|it| visits.contains(it) || of_some.contains(it)).collect();
        if !again.is_empty() {
            tell("looking for the last time, at what hosts get that are no members");
            self.look(&again, STILL, tell);
        }
    }

    /// Gives switches the time to learn who is a member of which group.
    fn learn(&mut self, tell: &mut dyn FnMut(&str)) {
        tell("a group comes to hosts that have not joined it: looking again when switches have learned");
        if self.listen(tell, None).is_ok() {
            thread::sleep(LEARNING_TIME);
        }
    }

    fn is_about(&self, tests: &BTreeSet<usize>, what: What) -> bool {
        tests.iter().any(|number| self.seen.tests[*number].what == what)
    }

    /// Makes these tests once more. Visits end so long after the leave.
    fn look(&mut self, wanted: &BTreeSet<usize>, after: Duration, tell: &mut dyn FnMut(&str)) {
        let visit = self.is_about(wanted, What::Visit).then_some(after);
        if self.listen(tell, visit).is_err() {
            return;
        }
        let listening = Instant::now();
        thread::sleep(SETTLING_TIME);
        self.send_all(tell, |test| wanted.contains(&test));
        if let Some(after) = visit {
            wait_for_visits(listening, after);
        }
        let tests = self.seen.tests.clone();
        let answers = self.ask_all(|_| Request::Collect { senders: Vec::new() });
        let is_of_some = |heard: &Heard| {
            let number = usize::from(heard.test);
            wanted.contains(&number) && tests[number].what == What::JoinedBySome
        };
        for (known, answer) in self.seen.ears.iter_mut().zip(answers) {
            let Some(Answer::Heard(again)) = answer else { continue };
            judge::merge(&mut known.delivered, again.delivered, is_of_some);
            if let Some((known, again)) = known.captured.as_mut().zip(again.captured) {
                judge::merge(known, again, is_of_some);
            }
            judge::replace(&mut known.visits, again.visits);
        }
    }

    /// Makes a host send its part of the tests that are wanted, in requests that take some seconds each.
    fn send(&mut self, sender: usize, is_wanted: impl Fn(usize) -> bool) {
        let seen = &mut self.seen;
        let mut rounds = plan::rounds(&seen.hosts, &seen.tests, sender);
        rounds.retain(|round| is_wanted(round.test.into()));
        // Nobody sends to an address that is not proved.
        rounds.retain(|round| match round.to {
            Target::Host(to) => !seen.no_unicast.iter().any(|(host, is_ipv4, _)| {
                *is_ipv4 == to.is_ipv4()
                    && (*host == sender || seen.hosts[*host].address(*is_ipv4) == Some(to))
            }),
            Target::Group(_) => true,
        });
        for rounds in rounds.chunks(ROUNDS_AT_ONCE) {
            if seen.gone.contains(&sender) {
                return;
            }
            let request = Request::Send { run: self.number, sender: sender as u16, rounds: rounds.to_vec() };
            if let Err(why) = self.peers[sender].ask(&request) {
                seen.lose(sender, why);
                self.peers[sender] = Peer::Gone;
            }
        }
    }

    fn ask_all(&mut self, request: impl Fn(usize) -> Request + Sync) -> Vec<Option<Answer>> {
        ask_all(&mut self.peers, &mut self.seen, request)
    }
}

/// Waits until the visits that began at `start` are over.
fn wait_for_visits(start: Instant, after: Duration) {
    let whole = visit::LEAVES_AFTER + after + LAST_TIME;
    thread::sleep(whole.saturating_sub(start.elapsed()));
}

/// Finds out where packets with extension headers are dropped (RFC 7872, section 2).
fn trace(peers: &mut [Peer], seen: &mut Observation, run: u64, tell: &mut dyn FnMut(&str)) {
    let lost = seen.lost_headers();
    if lost.is_empty() {
        return;
    }
    tell("finding out where packets with extension headers are dropped");
    ask_all(peers, seen, |_| Request::Listen {
        run,
        groups: Vec::new(),
        senders: 0,
        tests: 0,
        joins: Vec::new(),
        visit: None,
    });
    for ((from, to), (header, hops)) in lost {
        let Some(address) = seen.hosts[to].address(false) else { continue };
        let mut path = |header| match peers[from].ask(&Request::Trace { to: address, header, hops }) {
            Ok(Answer::Path { routers }) => routers,
            _ => Vec::new(),
        };
        let (plain, with_header) = (path(Header::None), path(header));
        seen.traces.push(Trace { from, to, plain, with_header });
    }
    ask_all(peers, seen, |_| Request::Collect { senders: Vec::new() });
}

/// Asks all hosts at the same time. One that does not answer is left out from then on.
fn ask_all(
    peers: &mut [Peer],
    seen: &mut Observation,
    request: impl Fn(usize) -> Request + Sync,
) -> Vec<Option<Answer>> {
    let answers: Vec<_> = thread::scope(|scope| {
        let request = &request;
        let ask = |(index, peer): (usize, &mut Peer)| peer.ask(&request(index));
        let asked: Vec<_> = peers.iter_mut().enumerate().map(|one| scope.spawn(move || ask(one))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        asked.into_iter().map(join).collect()
    });
    let mut answered = Vec::new();
    for (host, answer) in answers.into_iter().enumerate() {
        answered.push(
            answer
                .map_err(|why| {
                    seen.lose(host, why);
                    peers[host] = Peer::Gone;
                })
                .ok(),
        );
    }
    answered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Kind;

    #[test]
    fn hosts_of_one_name_are_told_apart_by_their_addresses() {
        let host = |name: &str, address: &str| Host {
            name: name.to_owned(),
            addresses: vec![address.parse().unwrap()],
            ..Host::default()
        };
        let mut hosts = [host("vm", "10.0.0.1"), host("lab", "10.0.0.2"), host("vm", "10.0.0.3")];
        assert_eq!(set_apart(&mut hosts), ["vm", "lab", "vm"]);
        let names = hosts.map(|host| host.name);
        assert_eq!(names, ["vm (10.0.0.1)", "lab", "vm (10.0.0.3)"]);
        // What a host says of itself goes by the name that the run knows.
        for of_itself in [Blame::Host { name: "vm".into() }, Blame::LinkOf { host: "vm".into() }] {
            let finding = Finding::problem(Kind::NoInterface, of_itself, "it has none");
            let named = match renamed(finding, "vm", &names[2]).blame {
                Blame::Host { name } | Blame::LinkOf { host: name } => name,
                other => panic!("{other:?}"),
            };
            assert_eq!(named, names[2]);
        }
    }
}
