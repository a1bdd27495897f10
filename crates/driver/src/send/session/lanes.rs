//! The lanes by which packets leave for the groups of a session: sockets, keys, numbers and rates.

mod congestion;
mod keys;
mod placing;
mod ways;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use treecast_host::poller::Poller;
use treecast_proto::{
    Instant,
    fanout::Heard,
    object::ReceiverId,
    policy::{Pacer, RepairShare, spread_bps},
};
use treecast_wire::{
    header::{self, FileId, Header, PacketNumbers, PacketType, SessionId},
    message::{GroupKey, Message, Zeros},
    ticket::Fanout,
};

pub(super) use self::ways::{Ways, WaysTurn};
use self::{congestion::Congestion, keys::GroupKeys, placing::Placing};
use super::{
    super::{
        Plan, SendError,
        gather::Gather,
        lane::{CopiesLane, GroupLane, Target, Way},
        peer::Peer,
    },
    config,
    core::Core,
    peers::Peers,
};
use crate::{
    carousel::FrameSender,
    fanout::too_narrow,
    remedies::{Advised, Remedy},
    zeros::{Stretch, first_stretch},
};

/// The lanes of a session's groups. They share sockets and one key; each has its own rate and packet numbers. With copies, a slower
/// group is the receivers whose copies leave at its rate.
pub(super) struct Lanes {
    pub group: GroupLane,
    gather: Gather,
    /// The number of runs of blocks that have left for the first group.
    runs: usize,
    /// The keys that connections tell. `None` in a plain session, and in a carousel, whose ticket holds a secret.
    keys: Option<GroupKeys>,
    /// One lane for each group, fastest first. There is at least one.
    lanes: Vec<Lane>,
    /// The assignment of receivers to groups. `None` where receivers decide that, or there is one group.
    placing: Option<Placing>,
    repairs: RepairShare,
    /// The rate of each copy where the user gives one, in bits a second.
    copies_bps: Option<u64>,
    /// The ways by which receivers are served. `None` where all are by one.
    pub ways: Option<Ways>,
    /// Receivers of which the user knows that less fits on the way to them than was to be sent.
    told_narrow: BTreeSet<IpAddr>,
    /// The line for a user whose first group nobody hears. `None` once it is told.
    unheard_line: Option<Advised>,
    sizes: Sizes,
}

/// The pacer of one group, and the numbers of its packets. Unicast copies of one packet have one number.
#[derive(Debug)]
struct Lane {
    pacer: Pacer,
    /// Bytes of IP packets that leave at once.
    run_bytes: u64,
    /// The congestion control. `None` at a rate that was given.
    congestion: Option<Congestion>,
    numbers: PacketNumbers,
}

/// The sizes that all packets of a session have in common.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    session: SessionId,
    block_len: u16,
    /// Length of an IP packet with a whole block, in bytes.
    packet_bytes: u64,
    /// Length of a UDP datagram with a whole block, in bytes.
    datagram_len: usize,
}

impl Lanes {
    /// Opens the sockets of a session, and draws its key if connections tell it.
    pub fn open(plan: &Plan, now: Instant) -> Result<Self, SendError> {
        let keys = plan.identity.as_ref().filter(|_| plan.options.kind.has_connections());
        let keys = keys.map(|_| GroupKeys::draw(now)).transpose()?;
        let lane = |(group, rate_bps): (u8, Option<u64>)| -> io::Result<Lane> {
            Ok(Lane {
                pacer: Pacer::new(if group == 0 { first_rate(plan) } else { rate_bps }, now),
                run_bytes: config::packets_per_run(plan, rate_bps) as u64 * plan.packet_bytes(),
                congestion: Congestion::new(plan)?,
                numbers: plan.numbers(group),
            })
        };
        let priority = plan.options.connected().map(|connected| connected.priority).unwrap_or_default();
        Ok(Self {
            group: GroupLane::open(plan, keys.as_ref().map(GroupKeys::used))?,
            keys,
            gather: Gather::new(plan.block_len),
            runs: 0,
            lanes: (0..).zip(plan.rates()).map(lane).collect::<io::Result<_>>()?,
            placing: Placing::new(plan),
            repairs: RepairShare::new(priority, plan.options.rate().is_auto()),
            copies_bps: copies_rate(plan),
            ways: None,
            told_narrow: BTreeSet::new(),
            unheard_line: Some(unheard_line(plan)),
            sizes: Sizes {
                session: plan.session,
                block_len: plan.block_len,
                packet_bytes: plan.packet_bytes(),
                datagram_len: plan.datagram_len(),
            },
        })
    }

    /// Begins to look for routers where ways are chosen.
    pub fn open_ways(&mut self, plan: &mut Plan, now: Instant, poller: &Poller) -> io::Result<()> {
        let source_port = self.group.way.copies().first().map_or(0, CopiesLane::source_port);
        self.ways = Ways::open(plan, source_port, now, poller)?;
        Ok(())
    }

    /// The number of groups.
    pub fn groups(&self) -> u8 {
        self.lanes.len() as u8
    }

    /// The number of runs of blocks that have left for the first group.
    pub fn runs(&self) -> usize {
        self.runs
    }

    fn lane(&mut self, group: u8) -> &mut Lane {
        let last = self.lanes.len() - 1;
        &mut self.lanes[usize::from(group).min(last)]
    }

    /// The time until which a group has to wait for its rate. `None`: a run may leave now.
    pub fn paced_until(&mut self, now: Instant, group: u8) -> Option<Instant> {
        let packet_bytes = self.sizes.packet_bytes;
        let lane = self.lane(group);
        let delay = lane.pacer.delay(now, lane.next_run_bytes(packet_bytes));
        (!delay.is_zero()).then(|| now + delay)
    }

    /// The time until which the group's lane has to wait for the rate, or its socket to rest.
    pub fn waits_until(&mut self, now: Instant, core: &mut Core<'_>) -> Option<Instant> {
        if let Way::Multicast(lane) = &mut self.group.way
            && let Some(line) = lane.take_warning()
        {
            core.warn(line);
        }
        self.rests_until(now).or_else(|| self.paced_until(now, 0))
    }

    /// The time until which nothing is sent, because the kernel has just refused packets. `None`: packets may be
    /// sent.
    pub fn rests_until(&self, now: Instant) -> Option<Instant> {
        if let Way::Multicast(lane) = &self.group.way { lane.rests_until(now) } else { None }
    }

    /// The rate of a group, in bits a second. `None`: everything may leave at once.
    pub fn rate_bps(&self, group: u8) -> Option<u64> {
        self.lanes.get(usize::from(group))?.pacer.rate_bps()
    }

    /// Drops packets to the first group from now on, or no more.
    pub fn set_drops(&mut self, drops: bool) {
        self.group.set_drops(drops);
    }

    /// Tells a group what it should know, and sends the copies of its packets that are due. Returns when there will be more to tell, and
    /// until when copies have to wait for the group's rate.
    pub fn tell_and_copy(
        &mut self,
        now: Instant,
        group: u8,
        core: &mut Core<'_>,
    ) -> Result<(Option<Instant>, Option<Instant>), SendError> {
        // Blocks that leave bring the next message nearer, and a message may be copies itself.
        loop {
            let pace = self.tell_pace(now, group, core)?;
            if !self.has_copies(group) {
                return Ok((pace, None));
            }
            if let Some(until) = self.send_copies_due(now, group, core) {
                return Ok((pace, Some(until)));
            }
        }
    }

    /// Sends the copies of a group's packets that are due. Returns until when the others have to wait for the group's rate.
    fn send_copies_due(&mut self, now: Instant, group: u8, core: &mut Core<'_>) -> Option<Instant> {
        while let Some(copies) = self.group.way.copies_mut().get_mut(usize::from(group))
            && copies.is_busy()
        {
            let are_blocks = copies.are_blocks();
            let (sent, delay) = copies.send_due(&mut self.lanes.get_mut(usize::from(group))?.pacer, now);
            // Messages do not count, as without copies. If they did, the congestion control would take its own
            // messages for all that arrives while nothing but retransmissions leaves.
            if are_blocks {
                if group == 0 {
                    self.repairs.multicast_sent(sent);
                }
                self.note_sent(now, group, (sent, 0), core);
            }
            if let Some(delay) = delay {
                return Some(now + delay);
            }
        }
        None
    }

    /// Sends a message to a group. Short ones to the first group may wait for others.
    pub fn send_message(
        &mut self,
        now: Instant,
        group: u8,
        file: FileId,
        message: &Message,
        core: &mut Core<'_>,
    ) -> Result<(), SendError> {
        for packet in message.to_packets(file, self.sizes.block_len.into()) {
            if group > 0 || !self.gather_message(now, &packet, core)? {
                self.send_packet(now, group, packet, core)?;
            }
        }
        Ok(())
    }

    /// Sends a message's packet to a group at once.
    pub fn send_packet(
        &mut self,
        now: Instant,
        group: u8,
        packet: Vec<u8>,
        core: &mut Core<'_>,
    ) -> Result<(), SendError> {
        let sent = self.number_and_send(now, group, packet, core)?;
        self.lane(group).pacer.sent(now, sent);
        Ok(())
    }

    /// Returns the bytes of IP packets that have left.
    fn number_and_send(
        &mut self,
        now: Instant,
        group: u8,
        mut packet: Vec<u8>,
        core: &mut Core<'_>,
    ) -> Result<u64, SendError> {
        header::set_number(&mut packet, self.number_packets(now, group, 1, core)?);
        self.group.send_message(now, group, &packet)
    }

    /// Sends blocks that have just been read to the first group. Returns whether they have left as a run of their own.
    pub fn multicast(
        &mut self,
        now: Instant,
        first: Header,
        run: &[u8],
        core: &mut Core<'_>,
    ) -> Result<bool, SendError> {
        if self.is_unheard() {
            self.pass_over(now, first, run, core)?;
            return Ok(false);
        }
        let is_short = run.len() < self.datagrams_a_run() * usize::from(self.sizes.block_len);
        if is_short && self.is_multicast() {
            self.gather.push_blocks(first, run);
            self.flush_full(now, core)?;
            return Ok(false);
        }
        self.note_run();
        self.send_run(now, 0, first, run, core)?;
        Ok(true)
    }

    /// Sends copies to the receivers that are named to a carousel, and hears what their hosts say of packets that did
    /// not arrive.
    pub fn address_named(&mut self, now: Instant, named: Vec<SocketAddr>) -> io::Result<()> {
        if let Some(copies) = self.group.way.copies_mut().first_mut() {
            copies.hear_errors();
        }
        let Some(ways) = &mut self.ways else {
            self.aim(0, named.into_iter().map(Target::Receiver).collect());
            return Ok(());
        };
        for (number, address) in (0..).zip(named) {
            ways.join_named(now, number, address)?;
        }
        Ok(())
    }

    /// Sends what begins now for a group to these. Does nothing if packets leave as multicast.
    pub fn aim(&mut self, group: u8, targets: Arc<[Target]>) {
        if let Some(lane) = self.group.way.copies_mut().get_mut(usize::from(group)) {
            lane.set_targets(targets);
        }
    }

    /// Whether copies of a group's last packet still wait for the rate. They go before everything else in the group.
    fn has_copies(&self, group: u8) -> bool {
        self.group.way.copies().get(usize::from(group)).is_some_and(CopiesLane::is_busy)
    }

    /// Sends a group's packets to these destinations, at a rate for so many copies.
    fn address(&mut self, now: Instant, group: u8, targets: Arc<[Target]>, core: &mut Core<'_>) {
        self.aim(group, targets);
        self.apply_rate(now, group, core);
    }

    /// Sends packets to the receivers that are there now. Receivers have come or gone.
    pub fn serve(&mut self, now: Instant, peers: &Peers, core: &mut Core<'_>) {
        let Some(ways) = &mut self.ways else {
            for group in 0..self.groups() {
                let of_group = peers.values().filter(|peer| peer.group == group);
                let targets = of_group.filter_map(Peer::listens_at).map(Target::Receiver).collect();
                self.address(now, group, targets, core);
            }
            return;
        };
        let there = peers.iter().filter_map(|(id, peer)| Some((*id, (peer.group, peer.listens_at()?))));
        let there: BTreeMap<_, _> = there.collect();
        for receiver in ways.serve(now, &there) {
            if let (Some(peer), Some((_, address))) = (peers.get(&receiver), there.get(&receiver)) {
                self.warn_of_unreachable(&peer.name, address.ip(), core);
            }
        }
        self.follow_plan(now, peers, core);
    }

    /// Says that a receiver cannot be served as the user wants it.
    pub fn warn_of_unreachable(&self, name: &str, address: IpAddr, core: &mut Core<'_>) {
        let Some(way) = self.ways.as_ref().and_then(Ways::lists) else { return };
        core.warn(format!(
            "{name} has come from {address}, and {way} reaches only global and unique local IPv6 addresses: it gets unicast; give \
             it one, and the sender as well"
        ));
    }

    /// Asks the [`Ways`] what is to be done. `None` where all are served by one way.
    pub fn turn_ways(&mut self, now: Instant) -> Option<WaysTurn> {
        self.ways.as_mut().map(|ways| ways.turn(now))
    }

    /// Whether to begin only when it is known where routers are.
    pub fn awaits_routers(&self) -> bool {
        self.ways.as_ref().is_some_and(Ways::awaits_routers)
    }

    /// Takes the report of a receiver of this group.
    pub fn heard(&mut self, now: Instant, from: ReceiverId, group: u8, heard: Heard, core: &mut Core<'_>) {
        if self.ways.as_mut().is_some_and(|ways| ways.heard(now, group, from, heard)) {
            core.wake();
        }
    }

    /// Sends by the plans of the [`Ways`] from now on; what has been begun goes where it was to go.
    pub fn follow_plan(&mut self, now: Instant, peers: &Peers, core: &mut Core<'_>) {
        let address = |receiver| peers.get(&receiver)?.listens_at();
        for group in 0..self.groups() {
            let targets = self.ways.as_ref().and_then(|ways| ways.targets(group, address));
            let Some(targets) = targets else { continue };
            self.address(now, group, targets, core);
            if let Some(rate) = self.copies_bps {
                let rate = rate.saturating_mul(self.copies(group));
                let lane = self.lane(group);
                lane.pacer.set_rate(now, rate, lane.run_bytes);
            }
        }
        core.wake();
    }

    /// Counts a run of blocks to the first group.
    pub fn note_run(&mut self) {
        self.runs += 1;
    }

    /// Sends the first of the blocks that receivers get over their connections, when the group's rate has room, so that receivers report
    /// if they hear it again.
    fn pass_over(
        &mut self,
        now: Instant,
        first: Header,
        run: &[u8],
        core: &mut Core<'_>,
    ) -> Result<(), SendError> {
        if !self.group.drops() {
            let block = &run[..run.len().min(self.sizes.block_len.into())];
            self.send_blocks(now, 0, first, block, core)?;
        }
        self.note_run();
        Ok(())
    }

    /// Sends a run of blocks to a group. Where they are all zero, that is said in place of sending them.
    pub fn send_run(
        &mut self,
        now: Instant,
        group: u8,
        first: Header,
        run: &[u8],
        core: &mut Core<'_>,
    ) -> Result<(), SendError> {
        let mut at = 0;
        while at < run.len() {
            let Stretch { bytes, is_zero } = first_stretch(run, at, self.sizes.block_len.into());
            at = bytes.end;
            let first = Header { sequence: first.sequence + bytes.start as u64, ..first };
            match is_zero {
                true => self.send_zeros(now, group, first, bytes.len(), core)?,
                false => self.send_blocks(now, group, first, &run[bytes], core)?,
            }
        }
        Ok(())
    }

    /// Says that `len` bytes from the beginning of `first` on are all zero, in place of sending them.
    pub fn send_zeros(
        &mut self,
        now: Instant,
        group: u8,
        first: Header,
        len: usize,
        core: &mut Core<'_>,
    ) -> Result<(), SendError> {
        // A run is a super-packet at most, and so never too long.
        let Ok(zeros) = Zeros::new(first.sequence..first.sequence + len as u64) else { return Ok(()) };
        if group == 0 {
            core.figures.zero_bytes += len as u64;
        }
        self.send_message(now, group, first.file_id, &Message::Zeros(zeros), core)
    }

    /// Sends blocks to a group, or repair symbols, a packet each.
    pub fn send_blocks(
        &mut self,
        now: Instant,
        group: u8,
        first: Header,
        run: &[u8],
        core: &mut Core<'_>,
    ) -> Result<(), SendError> {
        let packets = run.len().div_ceil(self.sizes.block_len.into()) as u64;
        let number = self.number_packets(now, group, packets, core)?;
        let sent = self.group.send_blocks(now, group, Header { number, ..first }, run)?;
        self.note_left(now, group, sent, core);
        Ok(())
    }

    /// Sends a part of an IoT updater's file, which begins at `offset`, to a group.
    pub fn send_frames(
        &mut self,
        now: Instant,
        group: u8,
        frames: &mut FrameSender,
        (offset, run): (u64, &[u8]),
        core: &mut Core<'_>,
    ) -> Result<(), SendError> {
        let Sizes { block_len, packet_bytes, .. } = self.sizes;
        let packets = run.len().div_ceil(block_len.into()) as u64;
        self.number_packets(now, group, packets, core)?;
        if let Way::Multicast(lane) = &mut self.group.way {
            lane.send_frames(now, group, frames, (offset, block_len), run)?;
            let sent = packets * (packet_bytes - u64::from(block_len)) + run.len() as u64;
            self.note_left(now, group, sent, core);
        }
        Ok(())
    }

    /// Bytes of blocks, in IP packets, have left for a group. Those of copies leave later.
    fn note_left(&mut self, now: Instant, group: u8, bytes: u64, core: &mut Core<'_>) {
        self.lane(group).pacer.sent(now, bytes);
        if group == 0 {
            self.repairs.multicast_sent(bytes);
        }
        if bytes > 0 {
            self.note_sent(now, group, (bytes, 0), core);
        }
    }

    /// Keeps a message for the first group until a super-packet is full. Returns false when it is to leave at once.
    fn gather_message(
        &mut self,
        now: Instant,
        packet: &[u8],
        core: &mut Core<'_>,
    ) -> Result<bool, SendError> {
        let is_pace = Header::parse(packet).is_ok_and(|header| header.kind == PacketType::Pace);
        if is_pace || !self.is_multicast() || !self.gather.push(packet) {
            return Ok(false);
        }
        self.flush_full(now, core)?;
        Ok(true)
    }

    /// Sends all that is gathered: packets of small objects wait for each other, so that a super-packet carries several objects. They
    /// leave when they fill a super-packet, before anything else leaves, and when there is nothing more for now.
    pub fn flush_gathered(&mut self, now: Instant, core: &mut Core<'_>) -> Result<(), SendError> {
        while self.gather.datagrams() > 0 {
            self.send_gathered(now, core)?;
        }
        Ok(())
    }

    /// Sends what fills super-packets.
    fn flush_full(&mut self, now: Instant, core: &mut Core<'_>) -> Result<(), SendError> {
        while self.gather.datagrams() > self.datagrams_a_run() {
            self.send_gathered(now, core)?;
        }
        Ok(())
    }

    fn send_gathered(&mut self, now: Instant, core: &mut Core<'_>) -> Result<(), SendError> {
        let count = self.gather.datagrams().min(self.datagrams_a_run());
        let number = self.take_numbers(now, 0, count as u64)?;
        let (datagram_len, datagrams) = (self.gather.datagram_len(), self.gather.take(count, number));
        let sent = self.group.send_gathered(now, datagram_len, &datagrams)?;
        self.note_run();
        self.note_left(now, 0, sent, core);
        Ok(())
    }

    fn datagrams_a_run(&self) -> usize {
        (self.lanes[0].run_bytes / self.sizes.packet_bytes).max(1) as usize
    }

    /// The number of the first of so many packets that leave now for a group, the first one's behind what is gathered.
    fn number_packets(
        &mut self,
        now: Instant,
        group: u8,
        packets: u64,
        core: &mut Core<'_>,
    ) -> Result<u32, SendError> {
        if group == 0 {
            self.flush_gathered(now, core)?;
        }
        Ok(self.take_numbers(now, group, packets)?)
    }

    /// The number of the first of so many packets to a group that are sealed now, all of which count for the life of its
    /// key.
    fn take_numbers(&mut self, now: Instant, group: u8, packets: u64) -> io::Result<u32> {
        if let Some(keys) = &mut self.keys {
            if keys.renew(now)? {
                self.group.replace_key(keys.used());
            }
            keys.sealed(packets);
        }
        let first = self.lane(group).numbers.take(packets as u32);
        if let Some(ways) = &mut self.ways {
            ways.numbered(now, group, first.wrapping_add(packets as u32));
        }
        Ok(first)
    }

    /// The keys that a receiver is told when it joins.
    pub fn known_keys(&self) -> Vec<GroupKey> {
        self.keys.iter().flat_map(GroupKeys::known).cloned().collect()
    }

    /// A key that has been drawn since the last call. All receivers are told.
    pub fn take_new_key(&mut self) -> Option<GroupKey> {
        self.keys.as_mut()?.take_new()
    }

    /// Makes a new key soon, because somebody who knows this one is not there any more.
    pub fn note_leaver(&mut self) {
        self.keys.iter_mut().for_each(GroupKeys::receiver_left);
    }

    /// Notes that there is nothing to multicast for now.
    pub fn multicast_waits(&mut self) {
        self.repairs.multicast_waits();
    }

    /// Whether the sender chooses the receivers' groups.
    pub fn places_receivers(&self) -> bool {
        self.placing.is_some()
    }

    /// Whether packets leave at once, and not in copies.
    pub fn is_multicast(&self) -> bool {
        matches!(self.group.way, Way::Multicast(_))
    }

    /// Whether retransmissions may leave now.
    pub fn may_repair(&mut self, now: Instant, is_urgent: impl FnOnce() -> bool) -> bool {
        let Lane { pacer, run_bytes, .. } = &mut self.lanes[0];
        self.repairs.may_leave(is_urgent, || pacer.delay(now, *run_bytes).is_zero())
    }

    /// Notes that the connection of a receiver of this group was given packets that mend its copy, so many bytes of
    /// IP packets. The group's rate counts them.
    pub fn note_repaired(&mut self, now: Instant, group: u8, bytes: u64, core: &mut Core<'_>) {
        if self.repairs.repaired(bytes) {
            self.lane(group).pacer.sent(now, bytes);
            self.note_sent(now, group, (0, bytes), core);
        }
    }

    /// Says of each receiver once that full packets go there in fragments: the kernel knows it of copies, and routers say it
    /// of lists.
    pub fn warn_of_narrow_ways(&mut self, core: &mut Core<'_>) {
        let copies = self.group.way.copies_mut();
        let mut found: Vec<_> = copies.iter_mut().flat_map(CopiesLane::take_narrow).collect();
        found.extend(self.ways.as_mut().map(Ways::take_narrow).unwrap_or_default());
        let mut ways: BTreeMap<_, Vec<IpAddr>> = BTreeMap::new();
        for way in found.into_iter().filter(|way| self.told_narrow.insert(way.to)) {
            ways.entry((way.mtu_bytes, way.packet_bytes)).or_default().push(way.to);
        }
        for ((mtu_bytes, packet_bytes), receivers) in ways {
            core.warn(too_narrow(&receivers, mtu_bytes, packet_bytes, self.sizes.block_len));
        }
    }
}

/// The rate of the first group's lane, in bits a second. `None`: the user gives none, or the machine alone keeps to it.
fn first_rate(plan: &Plan) -> Option<u64> {
    let is_paced_apart = plan.options.kind.local().is_some() && plan.options.fanout == Fanout::Multicast;
    if is_paced_apart { None } else { copies_rate(plan) }
}

/// The rate of each copy, in bits a second. The machine of local groups keeps to the rate by itself; there, it only spreads the copies of
/// a run, and is a quarter more.
fn copies_rate(plan: &Plan) -> Option<u64> {
    let rate = plan.options.rate().fixed_bps()?;
    Some(if plan.options.kind.local().is_some() { spread_bps(rate) } else { rate })
}

fn unheard_line(plan: &Plan) -> Advised {
    let group = plan.group.group;
    match plan.options.fanout {
        Fanout::Multicast => Advised::by(
            Remedy::OtherFanout,
            format!(
                "no receiver hears the group {group}, sent on {}: a firewall, a router or a switch drops its UDP packets, or \
                 receivers are on another network. All receivers get everything over TCP meanwhile",
                plan.group.interface.name
            ),
        ),
        Fanout::Unicast | Fanout::Mead | Fanout::Xcast | Fanout::Auto => Advised::by(
            Remedy::OpenPorts,
            "no receiver gets the UDP packets of this session: a firewall drops them. All receivers get everything over TCP meanwhile",
        ),
    }
}
