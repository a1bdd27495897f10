//! One host's part in a run.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    thread,
    time::Duration,
};

use thiserror::Error;
use treecast_host::{
    clock,
    interface::{self, Interface, InterfaceError},
    netlink::Netlink,
    stop::Stop,
};

use crate::{
    account::Rules,
    clock_watch::ClockWatch,
    config::{MAX_WINDOW, Receiving, RunConfig, Sending},
    packet::Format,
    receiver::Receiver,
    report::{HostReport, InterfaceDrops, ReceiverReport, SenderReport, VERSION},
    sender::{Crew, Sender, random},
    socket::{open_receiver, open_sender},
    wire_count::WireCount,
};

/// The largest UDP payload, in bytes.
const MAX_BYTES: usize = 65_507;

/// The longest time before a deadline that is spun away.
const MAX_SPIN: Duration = Duration::from_millis(10);

/// The largest number of senders on a host.
pub const MAX_SENDERS: u32 = 10_000;

/// The time after the last packet until what has left is counted.
const SETTLE: Duration = Duration::from_millis(100);

/// The reason why a host cannot take part in a run.
#[derive(Debug, Error)]
pub enum RunError {
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    #[error("cannot {doing}: {source}")]
    System { doing: String, source: io::Error },
    #[error("{0}")]
    Config(String),
}

fn failed(doing: impl Into<String>) -> impl FnOnce(io::Error) -> RunError {
    let doing = doing.into();
    move |source| RunError::System { doing, source }
}

/// Takes part in a run: sends, receives, or both, and returns what happened. A stop ends the run early, and the results until then
/// count. Calls `tell` with `ready` once the group is joined, and then with lines about invalid packets if the packets are the
/// paper's.
///
/// # Errors
/// If the configuration cannot work, or the interface or a socket is not to be had.
pub fn run(config: &RunConfig, stop: &Stop, tell: &mut dyn FnMut(&str)) -> Result<HostReport, RunError> {
    check(config)?;
    let interface = Interface::named(&config.interface)?;
    interface.check_family(config.group.ip())?;
    let mut warnings = Vec::new();
    let began = clock::since_1970();
    let drops_before = interface_drops(interface.index);
    let mut receiver = match &config.receiving {
        Some(receiving) => Some(receive(config, receiving, &interface, &mut warnings)?),
        None => None,
    };
    let on_wire = begin_count(config, &interface, &mut warnings);
    let crews = match &config.sending {
        Some(sending) => crews(config, sending, &interface)?,
        None => Vec::new(),
    };
    tell("ready");
    let mut watch = ClockWatch::begin();
    let sent = send_and_listen(config, crews, receiver.as_mut(), &mut watch, stop, tell)?;
    warnings.extend(sent.refusal.map(|refusal| format!("the kernel refused packets: {refusal}")));
    let mut report = HostReport {
        version: VERSION,
        host: config.host.clone(),
        group: config.group,
        interface: config.interface.clone(),
        packet: config.packet,
        size_bytes: config.size_bytes,
        began_unix_seconds: began.as_secs_f64(),
        loops_back: config.loops_back,
        senders: sent.reports,
        on_wire: None,
        receiver: receiver.as_ref().map(Receiver::report),
        interface_drops: since(drops_before, interface_drops(interface.index)),
        clock_jumps: watch.jumps,
        warnings,
    };
    // The kernel counts with 32 bits.
    let sent: u64 = report.senders.iter().map(|sender| sender.sent).sum();
    report.on_wire = on_wire.filter(|_| sent <= u32::MAX.into()).and_then(|count| count.end().ok());
    if stop.is_requested() && config.sending.is_some() {
        report.warnings.push("the run was stopped before its end".into());
    }
    report.add_warnings(interface.index);
    Ok(report)
}

fn check(config: &RunConfig) -> Result<(), RunError> {
    let wrong = |what: String| Err(RunError::Config(what));
    let (size, least) = (config.size_bytes, config.packet.min_bytes());
    if size < least {
        let own = config.packet == Format::Own;
        let hint = if own { ", or the paper's packet for sizes from 8" } else { "" };
        return wrong(format!("a payload of {size} bytes is too small: take at least {least}{hint}"));
    }
    if size > MAX_BYTES {
        return wrong(format!("a payload of {size} bytes is too large: take at most {MAX_BYTES}"));
    }
    if !config.group.ip().is_multicast() {
        return wrong(format!(
            "{} is no multicast group: take one like 239.255.1.1 or ff15::1",
            config.group.ip()
        ));
    }
    if let Some(source) = config.sources.iter().find(|source| source.is_ipv4() != config.group.is_ipv4()) {
        return wrong(format!("source {source} and group {} are of different families", config.group.ip()));
    }
    if config.sending.as_ref().is_some_and(|sending| !(1..=MAX_SENDERS).contains(&sending.senders)) {
        return wrong(format!("a host has 1 to {MAX_SENDERS} senders"));
    }
    if config.receiving.as_ref().is_some_and(|receiving| receiving.window > MAX_WINDOW) {
        return wrong(format!("the window has at most {MAX_WINDOW} packets"));
    }
    if config.sending.as_ref().is_some_and(|sending| sending.spin > MAX_SPIN) {
        return wrong(format!("to spin for more than {} ms is a waste: take less", MAX_SPIN.as_millis()));
    }
    match (&config.sending, &config.receiving) {
        (None, None) => wrong("a host that neither sends nor receives has no part in a run".into()),
        _ => Ok(()),
    }
}

fn receive(
    config: &RunConfig,
    receiving: &Receiving,
    interface: &Interface,
    warnings: &mut Vec<String>,
) -> Result<Receiver, RunError> {
    let doing = format!("join group {} on {}", config.group, config.interface);
    let (socket, warning) = open_receiver(config, interface).map_err(failed(doing))?;
    warnings.extend(warning);
    let rules = Rules {
        format: config.packet,
        window: receiving.window,
        max_streams: receiving.max_streams.max(1),
        schedule: receiving.schedule.clone(),
        listens_since: Some(clock::monotonic()),
        tells_invalid: config.packet == Format::Paper,
    };
    Ok(Receiver::new(socket, rules))
}

/// Begins to count what leaves, where that is possible.
fn begin_count(config: &RunConfig, interface: &Interface, warnings: &mut Vec<String>) -> Option<WireCount> {
    let sending = config.sending.as_ref()?;
    if sending.super_packets {
        warnings.push("what left was not counted: a packet socket counts a super-packet once".into());
        return None;
    }
    if config.group.is_ipv6() && config.size_bytes + 48 > interface.mtu as usize {
        warnings.push("what left was not counted: packets are longer than the MTU".into());
        return None;
    }
    match WireCount::begin(interface.index, config.group, config.packet) {
        Ok(count) => Some(count),
        Err(error) => {
            warnings.push(format!("what left was not counted, which needs CAP_NET_RAW: {error}"));
            None
        }
    }
}

/// The senders of each thread.
fn crews(config: &RunConfig, sending: &Sending, interface: &Interface) -> Result<Vec<Crew>, RunError> {
    let own_address = interface.addresses.iter().find_map(|address| match address {
        IpAddr::V4(v4) => Some(*v4),
        IpAddr::V6(_) => None,
    });
    // RFC 1112, section 4: no host has an address of class E.
    let drawn = || Ipv4Addr::from(0xf000_0000 | random() >> 4);
    let first = sending.first_identity.or(own_address).unwrap_or_else(drawn);
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = if sending.threads == 0 { processors } else { sending.threads };
    let mut all: Vec<Vec<Sender>> = (0..threads.min(sending.senders as usize)).map(|_| Vec::new()).collect();
    let count = all.len();
    for index in 0..sending.senders {
        let doing = format!("send to group {} by {}", config.group, config.interface);
        all[index as usize % count].push(Sender {
            socket: open_sender(config, interface).map_err(failed(doing))?,
            identity: Ipv4Addr::from(u32::from(first).wrapping_add(index)),
            session: config.packet.new_session(),
            phase: f64::from(index) / f64::from(sending.senders),
        });
    }
    let crew = |senders| Crew::new(config, sending, senders).map_err(failed("open sockets to send"));
    all.into_iter().map(crew).collect()
}

/// The reports of all senders of a host.
#[derive(Default)]
struct Sent {
    reports: Vec<SenderReport>,
    refusal: Option<String>,
}

/// Sends in threads of its own, and listens in this one.
fn send_and_listen(
    config: &RunConfig,
    crews: Vec<Crew>,
    receiver: Option<&mut Receiver>,
    watch: &mut ClockWatch,
    stop: &Stop,
    tell: &mut dyn FnMut(&str),
) -> Result<Sent, RunError> {
    let begin = clock::monotonic() + config.lead;
    let steps = config.sending.as_ref().map(|sending| &sending.schedule.steps[..]).unwrap_or_default();
    let threads: Vec<_> = crews
        .into_iter()
        .map(|mut crew| {
            let (steps, stop) = (steps.to_vec(), stop.clone());
            let work = move || {
                crew.run(&steps, begin, &stop);
                crew
            };
            thread::Builder::new().name("load sender".into()).spawn(work).map_err(failed("start a thread"))
        })
        .collect::<Result<_, _>>()?;
    if let (Some(receiver), Some(receiving)) = (receiver, &config.receiving) {
        let end = receiving.time.map(|time| begin + time + receiving.linger);
        receiver.listen(|| end, watch, stop, tell).map_err(failed("receive"))?;
    }
    while threads.iter().any(|thread| !thread.is_finished()) {
        thread::sleep(SETTLE);
        watch.look();
    }
    if !threads.is_empty() {
        thread::sleep(SETTLE);
    }
    let mut sent = Sent::default();
    for thread in threads {
        let panicked =
            |_| RunError::Config("a sending thread has failed: this is a fault of treecast".into());
        let mut crew = thread.join().map_err(panicked)?;
        sent.refusal = sent.refusal.or(crew.refusal.take());
        sent.reports.extend(crew.reports());
    }
    sent.reports.sort_by_key(|report| report.sender);
    Ok(sent)
}

/// Whether an interface is on and has a carrier. True where the kernel does not tell.
fn is_running(index: u32) -> bool {
    let all = interface::list().unwrap_or_default();
    all.iter().find(|it| it.index == index).is_none_or(|it| it.is_running)
}

/// The drop counters of an interface. They are left out where the kernel does not tell them.
fn interface_drops(index: u32) -> Option<InterfaceDrops> {
    let mut all = Vec::new();
    Netlink::open().ok()?.counters(&mut all).ok()?;
    let counters = all.iter().find(|counters| counters.index == index)?;
    Some(InterfaceDrops { received: counters.values[2], sent: counters.values[5] })
}

fn since(before: Option<InterfaceDrops>, after: Option<InterfaceDrops>) -> InterfaceDrops {
    let (Some(before), Some(after)) = (before, after) else { return InterfaceDrops::default() };
    InterfaceDrops {
        received: after.received.saturating_sub(before.received),
        sent: after.sent.saturating_sub(before.sent),
    }
}

impl HostReport {
    /// Adds what a person should know of the results.
    fn add_warnings(&mut self, interface: u32) {
        let (asked, sent) = self.senders.iter().fold((0, 0), |sum, it| (sum.0 + it.asked, sum.1 + it.sent));
        if sent < asked {
            self.warnings.push(format!("this host could not send what was asked: {sent} of {asked} packets"));
        }
        if let Some(left) = self.on_wire.filter(|left| *left != sent) {
            let where_to = match left < sent {
                true if !is_running(interface) => {
                    "the interface has no carrier: check the cable, or what is at its other end"
                }
                true => "the others were dropped in this host's queue, or by its firewall",
                false => "another program sends to the same group and port",
            };
            self.warnings
                .push(format!("{sent} packets were sent, but {left} left by the interface: {where_to}"));
        }
        if self.clock_jumps > 0 {
            self.warnings
                .push(format!("this host's clock jumped {} times: latencies are wrong", self.clock_jumps));
        }
        if let Some(receiver) = &self.receiver {
            self.warnings.extend(receiver.warnings());
        }
    }
}

impl ReceiverReport {
    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.kernel_dropped > 0 {
            warnings.push(format!(
                "the kernel dropped {} packets because this program was too slow to read them: they are lost, but not by the network",
                self.kernel_dropped
            ));
        }
        if self.pairs.iter().any(|pair| pair.shares_identity) {
            warnings.push("two senders have one identity: give each its own".into());
        }
        if self.unaccounted + self.forgotten_streams > 0 {
            warnings.push(format!(
                "more senders were heard than there is room for: {} packets were not counted, {} senders of one packet were forgotten",
                self.unaccounted, self.forgotten_streams
            ));
        }
        warnings
    }
}
