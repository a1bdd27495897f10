//! Derives the facts of a session from its options: interface, group, block length, files.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    num::NonZeroU64,
    time::Duration,
};

use treecast_host::{
    clock::since_1970,
    interface::{Choice, Interface},
    stop::Stop,
};
use treecast_proto::{
    explicit::lists::len_beside_list,
    fec::{Layout, Share},
    group_rate::MOST_SLOWER,
    policy,
    tfmcc::Control,
};
use treecast_wire::{
    header::{HEADER_LEN, MAX_PAYLOAD_LEN, PacketNumbers, SessionId},
    iotup,
    message::MAX_LOCAL_MEMBERS,
    seal::SEAL_LEN,
    ticket::{self, Fanout, LocalTicket, MAX_GROUPS, Security, Ticket, group_address},
};

use super::{
    Carousel, Connected, Dialect, FeedSource, Form, Instead, LocalOptions, MIN_BLOCK_LEN, Mend, OptionsError,
    Pace, Rate, SendError, SendOptions, SendSecurity, SendSummary, SessionKind, Setting, SteadyPace,
    roll::Roll, session_file,
};
use crate::{
    clock,
    fanout::{Kind, Lists},
    files::{NamedSource, SourceError, Unsendable, find_sources_until},
    local::{GroupsFile, MIN_LOCAL_BLOCK_LEN},
    remedies::{self, Advised, other_interface},
    seal::Secret,
    security::{self, AllowList, Identity},
    udp::GroupAddress,
};

/// Everything that is known before the first packet.
#[derive(Debug)]
pub struct Plan {
    pub options: SendOptions,
    pub session: SessionId,
    /// The group, source and interface.
    pub group: GroupAddress,
    pub block_len: u16,
    /// How many groups the session has, each slower than the one before.
    pub groups: u8,
    pub sources: Vec<NamedSource>,
    /// The sender's identity. `None` in a plain session.
    pub identity: Option<Identity>,
    /// The secret with which a secure carousel seals its packets.
    pub secret: Option<Secret>,
    /// The time when the ticket expires.
    pub expires: Option<NonZeroU64>,
    /// The control addresses that the continued session has given to its receivers. Empty for a new session.
    pub control: Vec<SocketAddr>,
    /// Interfaces by which receivers may come as well, because no route says where they are.
    pub other_interfaces: Vec<Interface>,
    /// What packets with address lists are sent with; none where there are none.
    pub(crate) lists: Option<Lists>,
    /// The progress of an earlier sender with each object, by the object's number.
    pub before: BTreeMap<u32, session_file::Mark>,
    /// Its receivers that had not ended.
    pub(super) roll: Roll,
    /// Whether the session continues an earlier one, which may have another sender now.
    pub goes_on: bool,
    /// When the session began, in milliseconds since 1970. 0: its file does not say so.
    pub begun_ms: u64,
    /// Entries of folders that cannot be sent.
    pub left_out: Unsendable,
    /// Warnings for the user, one line each.
    pub warnings: Vec<Advised>,
}

impl Plan {
    /// Examines files (until a stop is requested) and interfaces, and draws random numbers. Sends nothing.
    ///
    /// # Errors
    /// One line for each thing that does not fit.
    pub fn new(options: &SendOptions, stop: &Stop) -> Result<Self, SendError> {
        let kept = options.session_file.as_deref().map(session_file::read).transpose()?.flatten();
        kept.as_ref().map_or(Ok(()), |kept| kept.check_options(options))?;
        let options = &filled(options, kept.as_ref());
        check_fit(options)?;
        let mut found =
            find_sources_until(&options.content.paths, &options.content.selection, &|| stop.is_requested())?;
        let mut sources = std::mem::take(&mut found.sources);
        let choice = interface(options)?;
        let by_chance = remedies::by_chance(&choice, "the receivers");
        let Choice { interface, others } = choice;
        check_feed(options)?;
        check_files(options, &sources)?;
        let ip = group(options, &interface, security::random()?)?;
        interface.check_family(ip)?;
        check_source(options, &interface, ip)?;
        let (lists, lacks_lists) = lists(options, &interface)?;
        let chosen = [only_this_host(options, &interface), by_chance, without_carrier(&interface)];
        let warnings = [lacks_lists].into_iter().chain(chosen);
        let random_port = 20_000 + u16::from_be_bytes(security::random()?) % 10_000;
        let port = options.network.port.unwrap_or(random_port);
        let group =
            GroupAddress { group: SocketAddr::new(ip, port), source: options.network.source, interface };
        let block_len = block_len(options, &group, lists.as_ref())?;
        check_fec(options, &sources, block_len)?;
        compress(options, &mut sources, stop)?;
        let sources = with_indexes(options, sources, stop)?;
        let session = SessionId(u32::from_be_bytes(security::random()?));
        let identity = identity(options)?;
        let tells_secret = identity.is_some() && !options.kind.has_connections();
        let secret = tells_secret.then(Secret::draw).transpose()?;
        let end = |time: Duration| NonZeroU64::new(clock::unix_seconds().saturating_add(time.as_secs()));
        let expires = options.expires_in.and_then(end);
        let mut plan = Self {
            options: options.clone(),
            session,
            group,
            block_len,
            groups: groups(options, ip),
            sources,
            identity,
            secret,
            expires,
            control: Vec::new(),
            other_interfaces: others,
            lists,
            before: BTreeMap::new(),
            roll: Roll::default(),
            goes_on: kept.is_some(),
            begun_ms: since_1970().as_millis() as u64,
            warnings: warnings.flatten().chain(found.warnings().map(Advised::from)).collect(),
            left_out: found.unsendable,
        };
        if let Some(kept) = kept {
            plan.go_on(kept)?;
        }
        Ok(plan)
    }

    /// Takes from the session that goes on what is drawn for a new one.
    fn go_on(&mut self, kept: session_file::Kept) -> Result<(), SendError> {
        self.session = kept.ticket.session;
        self.groups = kept.ticket.groups;
        if kept.ticket.expires.is_some() && self.expires.is_some() {
            self.expires = kept.ticket.expires;
        }
        let has_own = matches!(&self.options.security, Some(SendSecurity { identity: Some(_), .. }));
        if let Some(identity) = kept.identity.as_ref().filter(|_| self.identity.is_some() && !has_own) {
            self.identity = Some(identity.clone());
        }
        let secret = kept.ticket.security.as_ref().and_then(|security| security.secret);
        self.secret = self.secret.take().and(secret).map(Secret::from);
        kept.check_ticket(&self.ticket(kept.ticket.control.clone()))?;
        kept.check_expiry()?;
        kept.check_sources(&self.sources)?;
        self.warnings.extend(kept.other_rates(&self.several_rates()).map(Advised::from));
        self.control = kept.ticket.control;
        self.begun_ms = kept.begun_ms;
        self.before = kept.marks;
        self.roll = kept.roll;
        Ok(())
    }

    /// Writes the session file, for a sender that takes control connections at `control`. The file of a
    /// continued session exists already.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep_session(&self, control: &[SocketAddr]) -> Result<(), SendError> {
        let Some(path) = &self.options.session_file else { return Ok(()) };
        if self.goes_on {
            return Ok(());
        }
        let has_own = matches!(&self.options.security, Some(SendSecurity { identity: Some(_), .. }));
        let identity = self.identity.as_ref().filter(|_| !has_own);
        let (ticket, has_allow_list) = (self.ticket(control.to_vec()), self.has_allow_list());
        session_file::create(
            path,
            &ticket,
            (has_allow_list, &self.several_rates(), self.options.compression(), self.begun_ms),
            identity,
            &self.sources,
        )
    }

    /// The rate of each group, from fast to slow, in bits a second. `None` for a rate that is not fixed.
    pub(super) fn rates(&self) -> impl Iterator<Item = Option<u64>> {
        // A session that goes on with a fixed rate may have slower groups of an earlier one without.
        let (first, slower) = (self.options.rate().fixed_bps(), self.options.slower_rates().iter().copied());
        let slower = slower.map(Some).chain(std::iter::repeat(first));
        [first].into_iter().chain(slower).take(self.groups.into())
    }

    /// The rates of a session with several, from fast to slow, in bits a second; else none.
    fn several_rates(&self) -> Vec<u64> {
        let slower = &self.options.slower_rates();
        let first = self.options.rate().fixed_bps().filter(|_| !slower.is_empty());
        first.into_iter().chain(slower.iter().copied()).collect()
    }

    /// The receivers that may come by their keys. `None`: all may.
    pub(super) fn allow_list(&self) -> Option<&AllowList> {
        self.options.security.as_ref().and_then(|security| security.allow.as_ref())
    }

    /// Whether the files of a folder are sent, which have no end.
    pub(super) fn is_of_folder(&self) -> bool {
        matches!(self.options.content.feed, Some(FeedSource::Folder(_)))
    }

    /// Whether the session sends a feed that somebody may stop, as one stops a service.
    pub(super) fn is_service(&self) -> bool {
        !matches!(self.options.content.feed, None | Some(FeedSource::Stream { .. } | FeedSource::Queue(_)))
    }

    /// How long the start is still held back, by the host's clock.
    pub(super) fn held_back(&self) -> Option<Duration> {
        self.options.start.start_at?.checked_sub(since_1970()).filter(|left| !left.is_zero())
    }

    fn has_allow_list(&self) -> bool {
        self.allow_list().is_some()
    }

    /// The ticket, for a sender that takes control connections at `control`.
    pub fn ticket(&self, control: Vec<SocketAddr>) -> Ticket {
        Ticket {
            session: self.session,
            fanout: self.options.fanout,
            repair: self.options.kind.in_ticket(),
            fec: self.options.fec().is_some(),
            is_feed: self.options.content.feed.is_some(),
            block_len: self.block_len,
            group: self.group.group,
            groups: self.groups,
            source: self.options.network.source,
            control,
            security: self.identity.as_ref().map(|identity| Security {
                sender_key: identity.public_key().to_bytes(),
                secret: self.secret.as_ref().map(Secret::bytes),
            }),
            expires: self.expires,
            local: self.options.kind.local().map(|local| self.local_ticket(local)),
        }
    }

    /// The rate of a session with local groups, in bits of objects a second.
    pub(super) fn local_rate_bps(&self) -> u64 {
        self.options.rate().fixed_bps().map_or(0, |bps| self.of_objects(bps))
    }

    pub(super) fn local_ticket(&self, options: &LocalOptions) -> LocalTicket {
        options.in_ticket(self.repair_rate_bps(options))
    }

    /// The highest rate at which one member sends again, in bits of objects a second.
    pub(super) fn repair_rate_bps(&self, options: &LocalOptions) -> u64 {
        options.repair_bps.map_or(self.local_rate_bps(), |bps| self.of_objects(bps))
    }

    /// The bits of objects in so many bits of IP packets.
    pub(super) fn of_objects(&self, bps: u64) -> u64 {
        (u128::from(bps) * u128::from(self.block_len) / u128::from(self.packet_bytes())) as u64
    }

    /// The packet numbers of a group. Where there is one address for all of them, a receiver tells them apart by that.
    pub(super) fn numbers(&self, group: u8) -> PacketNumbers {
        match self.options.fanout.has_lanes(self.groups) {
            true => PacketNumbers::of_lane(group),
            false => PacketNumbers::default(),
        }
    }

    /// The addresses of the session's groups for a socket, the fastest group first.
    pub fn group_addresses(&self) -> Vec<SocketAddr> {
        let groups = (0..self.groups).filter_map(|number| group_address(self.group.group, number));
        groups.map(|group| GroupAddress { group, ..self.group.clone() }.scoped()).collect()
    }

    /// Length of a full packet with its IP and UDP headers, in bytes.
    pub fn packet_bytes(&self) -> u64 {
        policy::ip_overhead(self.group.group.is_ipv4()) + self.datagram_len() as u64
    }

    /// Length of a full packet as UDP carries it, in bytes.
    pub fn datagram_len(&self) -> usize {
        header_len(&self.options) + usize::from(self.block_len)
    }

    /// Size of all objects, in bytes, without indexes.
    pub fn total_bytes(&self) -> u64 {
        self.objects().map(|source| source.source.size()).sum()
    }

    /// The summary of a session that has not begun.
    pub(super) fn summary(&self) -> SendSummary {
        let (objects, not_sent) = (self.object_count(), self.left_out.count());
        SendSummary { objects, not_sent, ..SendSummary::default() }
    }

    /// The number of objects, without indexes.
    pub fn object_count(&self) -> u64 {
        self.objects().count() as u64
    }

    /// Whether this is a carousel whose receivers report what they lack. Repair symbols, groups of their own loops and twins that take over a
    /// session go with carousels that hear nothing.
    pub fn hears_reports(&self) -> bool {
        let options = &self.options;
        let is_plain_carousel = options.kind.carousel().is_some() && !options.kind.is_iotup();
        is_plain_carousel
            && options.is_by_difference()
            && options.fec().is_none()
            && self.groups == 1
            && options.session_file.is_none()
    }

    fn objects(&self) -> impl Iterator<Item = &NamedSource> {
        self.sources.iter().filter(|source| !source.source.is_index())
    }
}

/// What is drawn where nobody has named it is what it was when the session began.
fn filled(options: &SendOptions, kept: Option<&session_file::Kept>) -> SendOptions {
    let mut options = options.clone();
    if let Some(session_file::Kept { ticket, .. }) = kept {
        options.network.group.get_or_insert(ticket.group.ip());
        options.network.port.get_or_insert(ticket.group.port());
        options.network.block_len.get_or_insert(ticket.block_len);
        // Nobody has asked for it, and the session began without.
        if let SessionKind::Connected(connected) = &mut options.kind {
            connected.fec.take_if(|share| *share == Share::Needed && !ticket.fec);
        }
    }
    options
}

fn identity(options: &SendOptions) -> Result<Option<Identity>, SendError> {
    Ok(match &options.security {
        Some(SendSecurity { identity: Some(identity), .. }) => Some(identity.clone()),
        Some(SendSecurity { identity: None, .. }) => Some(Identity::generate()?),
        None => None,
    })
}

/// A feed that is not there is told of before anything is sent; opening it may wait for whoever writes it.
fn check_feed(options: &SendOptions) -> Result<(), OptionsError> {
    let (path, is_folder) = match &options.content.feed {
        Some(FeedSource::File(path)) => (path, false),
        Some(FeedSource::Folder(folder)) => (&folder.path, true),
        _ => return Ok(()),
    };
    let why = match path.metadata() {
        Ok(found) if found.is_dir() == is_folder => return Ok(()),
        Ok(_) if is_folder => "it is no folder".to_owned(),
        Ok(_) => "it is a folder".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(OptionsError::Feed { path: path.clone(), why })
}

/// Has those files compressed that become smaller by it.
fn compress(options: &SendOptions, sources: &mut [NamedSource], stop: &Stop) -> Result<(), SendError> {
    let Some(level) = options.compression() else { return Ok(()) };
    for named in sources {
        if stop.is_requested() {
            return Err(SendError::Interrupted);
        }
        named.source.compress(level)?;
    }
    Ok(())
}

/// Refuses options that do not go together, whatever is sent and whatever this host is like.
fn check_fit(options: &SendOptions) -> Result<(), OptionsError> {
    let (fanout, group) = (options.fanout, options.network.group);
    let slower = options.slower_rates().len() as u8;
    if slower > 0 {
        OptionsError::check_several(fanout == Fanout::Multicast, options.kind.in_ticket())?;
    }
    let has_too_few = |group| group_address(SocketAddr::new(group, 0), slower).is_none();
    if slower > 0 && group.is_some_and(has_too_few) {
        let why = "several rates need as many group addresses, one behind the other";
        return Err(OptionsError::misfit(Setting::Group, Instead::OtherGroup, why));
    }
    match &options.kind {
        SessionKind::Connected(connected) => check_connected(options, connected),
        SessionKind::Carousel(carousel) => check_carousel(options, carousel),
        SessionKind::Local(local) => check_local(options, &local.options),
    }?;
    if options.is_by_difference() && options.content.feed.is_some() {
        let why = "nothing is known of a feed's objects before they come, so they are not sent by difference";
        return Err(OptionsError::misfit(Setting::Difference, None, why));
    }
    Ok(())
}

/// What does not go with receivers that connect to the sender.
fn check_connected(options: &SendOptions, connected: &Connected) -> Result<(), OptionsError> {
    let refuse = |setting, instead, why| Err(OptionsError::misfit(setting, instead, why));
    let by_difference = options.is_by_difference();
    // A program that sends its own objects closes its queue.
    let has_feed = !matches!(options.content.feed, None | Some(FeedSource::Queue(_)));
    match &connected.pace {
        _ if by_difference && connected.mend == Mend::None => refuse_difference(),
        Pace::Steady(SteadyPace::Several(_)) if by_difference => refuse(
            Setting::Difference,
            Some(Instead::NoRates),
            "updates by difference have one rate: receivers get what is lacking in one group",
        ),
        _ if by_difference && connected.fec.is_some() => refuse(
            Setting::Difference,
            Some(Instead::NoSymbols),
            "updates by difference send what is lacking once, and mend losses without repair symbols",
        ),
        _ if connected.give_up.is_some() && has_feed => refuse(
            Setting::GiveUp,
            None,
            "a feed has no end by which receivers have everything: give up none of them",
        ),
        _ => Ok(()),
    }
}

fn refuse_difference() -> Result<(), OptionsError> {
    let why = "updates by difference need receivers that say what they lack, or a carousel of treecast's own packets";
    Err(OptionsError::misfit(Setting::Difference, Instead::Mending, why))
}

/// Puts the index of each object that has one before it.
fn with_indexes(
    options: &SendOptions,
    sources: Vec<NamedSource>,
    stop: &Stop,
) -> Result<Vec<NamedSource>, SendError> {
    if !options.is_by_difference() {
        return Ok(sources);
    }
    let mut all = Vec::with_capacity(sources.len());
    for mut named in sources {
        let index = match named.source.index(|| !stop.is_requested()) {
            Err(SourceError::Interrupted) => return Err(SendError::Interrupted),
            index => index?,
        };
        let name = named.name.clone();
        all.extend(index.map(|source| NamedSource { name, source }));
        all.push(named);
    }
    Ok(all)
}

/// The number of the session's groups. Where the rate follows the receivers, the sender opens slower groups when it needs them.
fn groups(options: &SendOptions, first: IpAddr) -> u8 {
    let is_placed = matches!(options.rate(), Rate::Auto { control: Control::Model, .. })
        && options.kind.in_ticket() == ticket::Repair::Nack
        && !options.is_by_difference();
    let most = if is_placed { MOST_SLOWER } else { options.slower_rates().len() as u8 };
    let has_address = |number: &u8| {
        !options.fanout.has_group() || group_address(SocketAddr::new(first, 0), *number).is_some()
    };
    1 + (1..=most).take_while(has_address).count() as u8
}

/// What a carousel cannot do: it hears nothing of its receivers.
fn check_carousel(options: &SendOptions, carousel: &Carousel) -> Result<(), OptionsError> {
    let (fanout, has_names) = (options.fanout, !options.receivers.is_empty());
    let is_iotup = carousel.options.dialect != Dialect::Session;
    let refuse = |setting, instead, why| Err(OptionsError::misfit(setting, instead, why));
    match options.content.form {
        _ if !fanout.has_group() && !has_names => refuse(
            Setting::Fanout,
            Some(Instead::Receivers),
            "nobody tells a carousel without a group where its receivers are",
        ),
        _ if fanout == Fanout::Multicast && has_names => refuse(
            Setting::Receivers,
            Some(Instead::OtherFanout),
            "a carousel by multicast has no use for the addresses of receivers",
        ),
        _ if is_iotup && fanout != Fanout::Multicast => refuse(
            Setting::Fanout,
            Some(Instead::Multicast),
            "the IoT updater's receivers listen to a multicast group",
        ),
        _ if is_iotup && options.session_file.is_some() => refuse(
            Setting::Session,
            None,
            "the IoT updater knows no sessions, and its sender can be started again as it is",
        ),
        _ if is_iotup && carousel.is_coded => {
            refuse(Setting::Fec, Some(Instead::OwnPackets), "the IoT updater knows no repair symbols")
        }
        Form::Compressed(_) if is_iotup => {
            refuse(Setting::Compression, None, "the IoT updater's receivers take no compressed files")
        }
        Form::Differences if is_iotup => refuse(
            Setting::Difference,
            Some(Instead::OwnPackets),
            "the IoT updater's frames carry whole files",
        ),
        _ => Ok(()),
    }
}

/// Refuses what a session with local groups cannot do.
fn check_local(options: &SendOptions, local: &LocalOptions) -> Result<(), OptionsError> {
    let is_scoped = |group: IpAddr| match group {
        IpAddr::V4(group) => group.octets()[0] == 239,
        // Those for one source have no others (RFC 3306, 6).
        IpAddr::V6(group) => group.octets()[1] & 0xf0 != 0x30,
    };
    let have_addresses = options.fanout == Fanout::Multicast && options.network.source.is_none();
    let most = local.groups.as_ref().map_or(0, GroupsFile::most_members);
    let refuse = |setting, instead, why| Err(OptionsError::misfit(setting, instead, why));
    match options.content.form {
        Form::Compressed(_) => {
            refuse(Setting::Compression, None, "receivers in local groups take no compressed files")
        }
        Form::Differences => refuse_difference(),
        Form::Whole if options.session_file.is_some() => refuse(
            Setting::Session,
            None,
            "a session with local groups cannot be gone on with by another sender",
        ),
        Form::Whole if have_addresses && options.network.group.is_some_and(|group| !is_scoped(group)) => {
            refuse(
                Setting::Group,
                Some(Instead::OtherGroup),
                "the addresses of local groups lie around the session's own, in 239.0.0.0/8 or in an IPv6 scope, and not in a \
             range for one source",
            )
        }
        Form::Whole if !have_addresses && most > MAX_LOCAL_MEMBERS => Err(OptionsError::misfit(
            Setting::Fanout,
            Instead::Multicast,
            format!(
                "without multicast a local group has a controller and at most {MAX_LOCAL_MEMBERS} other members, and one has {most}"
            ),
        )),
        Form::Whole => check_members(local, &options.receivers),
    }
}

/// Refuses a file of groups that does not have all receivers, if they are known.
fn check_members(local: &LocalOptions, receivers: &[IpAddr]) -> Result<(), OptionsError> {
    let groups = local.groups.as_ref().filter(|_| !receivers.is_empty());
    let checked = groups.map_or(Ok(()), |groups| groups.check(receivers));
    checked.map_err(|error| OptionsError::LocalGroups(error.to_string()))
}

/// Refuses several files for frames that carry one.
fn check_files(options: &SendOptions, sources: &[NamedSource]) -> Result<(), OptionsError> {
    match options.kind.is_iotup() && sources.len() != 1 {
        true => Err(OptionsError::IotupFiles(sources.len())),
        false => Ok(()),
    }
}

/// What forward error correction cannot do, or could do only at a loss.
fn check_fec(options: &SendOptions, sources: &[NamedSource], block_len: u16) -> Result<(), OptionsError> {
    let Some(share) = options.fec() else { return Ok(()) };
    if let Share::Percent(percent) = share {
        OptionsError::check_share(percent, false)?;
    }
    match sources.iter().find(|named| Layout::new(named.source.size(), block_len).is_none()) {
        // Its blocks are sent again.
        Some(_) if share == Share::Needed => Ok(()),
        Some(named) => Err(OptionsError::FecSize { name: named.name.clone(), block_len }),
        None => Ok(()),
    }
}

/// The interface that the user names, or the one that an address for control connections belongs to, or the one of the route.
fn interface(options: &SendOptions) -> Result<Choice, SendError> {
    let scope = match options.control() {
        Some(SocketAddr::V6(control)) => control.scope_id(),
        _ => 0,
    };
    let interface = match &options.network.interface {
        Some(name) => Interface::named(name)?,
        None if scope != 0 => Interface::numbered(scope)?,
        None => return Ok(Choice::towards(options.network.group)?),
    };
    Ok(Choice { interface, others: Vec::new() })
}

/// The line for an interface whose link does not work.
fn without_carrier(interface: &Interface) -> Option<Advised> {
    (!interface.is_running).then(|| {
        other_interface(format!(
            "interface {0} has no carrier, so no other host hears what it sends: connect what belongs at its other end",
            interface.name
        ))
    })
}

/// What MEADcast or Xcast is sent with. Who has asked for nothing else is told what lacks; `auto` does without, and says so.
fn lists(
    options: &SendOptions,
    interface: &Interface,
) -> Result<(Option<Lists>, Option<Advised>), SendError> {
    if !options.fanout.chooses() {
        return Ok((None, None));
    }
    let kind = if options.fanout == Fanout::Xcast { Kind::Xcast } else { Kind::Mead };
    match Lists::open(kind, interface, &options.sharing, &options.receivers, options.network.offload) {
        Ok(lists) => Ok((Some(lists), None)),
        Err(why) if options.fanout != Fanout::Auto => Err(OptionsError::Lists(why.line).into()),
        Err(why) => Ok((None, Some(why.map(|line| format!("does without MEADcast: {line}"))))),
    }
}

/// The line for a session that other hosts cannot join, when nobody has asked for that.
fn only_this_host(options: &SendOptions, interface: &Interface) -> Option<Advised> {
    let is_chance = interface.is_loopback && options.network.interface.is_none();
    is_chance.then(|| {
        other_interface(format!(
            "only receivers on this host can join: no interface but {} is up with an address; bring one up",
            interface.name
        ))
    })
}

/// The group named, or a random one: IPv6 where the interface has an address that others can use. The scope
/// is the site's, transient (RFC 4291, 2.7; RFC 2365, 6.1), or, with a source, from the range for
/// source-specific multicast (RFC 4607, 1).
fn group(options: &SendOptions, interface: &Interface, bytes: [u8; 16]) -> Result<IpAddr, SendError> {
    if let Some(group) = options.network.group {
        if !group.is_multicast() {
            return Err(crate::udp::UdpError::NotMulticast(group).into());
        }
        return Ok(group);
    }
    let mut bytes = bytes;
    // The addresses of slower groups follow, in the same range.
    for at in [1, 2, 3, 15] {
        bytes[at] &= !(MAX_GROUPS - 1);
    }
    let addresses = interface.reachable_addresses();
    let is_ipv4 = match options.network.source {
        Some(source) => source.is_ipv4(),
        // Linux routes no IPv6 multicast to the loopback interface.
        None => {
            interface.is_loopback
                || !addresses.iter().any(IpAddr::is_ipv6)
                || come_by_ipv4(options, &addresses)
        }
    };
    Ok(match (is_ipv4, options.network.source.is_some()) {
        (true, false) => Ipv4Addr::new(239, 255, bytes[0], bytes[1]).into(),
        (true, true) => Ipv4Addr::new(232, bytes[0].max(1), bytes[1], bytes[2]).into(),
        (false, false) => {
            let mut octets = bytes;
            octets[..2].copy_from_slice(&[0xff, 0x15]);
            Ipv6Addr::from(octets).into()
        }
        (false, true) => {
            let low = u128::from(u32::from_be_bytes([bytes[0] | 0x80, bytes[1], bytes[2], bytes[3]]));
            Ipv6Addr::from(0xff35_u128 << 112 | low).into()
        }
    })
}

/// Whether all receivers are known to come by IPv4, as far as that is known before they come: by the addresses that the user has
/// listed, or by the one address where they can connect.
fn come_by_ipv4(options: &SendOptions, own: &[IpAddr]) -> bool {
    let are_listed = !options.receivers.is_empty() && options.receivers.iter().all(IpAddr::is_ipv4);
    own.iter().any(IpAddr::is_ipv4)
        && (are_listed || options.control().is_some_and(|control| control.is_ipv4()))
}

fn check_source(options: &SendOptions, interface: &Interface, group: IpAddr) -> Result<(), OptionsError> {
    let Some(source) = options.network.source else { return Ok(()) };
    if source.is_ipv4() != group.is_ipv4() {
        return Err(OptionsError::Families { from: source, group });
    }
    if !interface.addresses.contains(&source) {
        return Err(OptionsError::ForeignSource { from: source, interface: interface.name.clone() });
    }
    Ok(())
}

fn block_len(
    options: &SendOptions,
    group: &GroupAddress,
    lists: Option<&Lists>,
) -> Result<u16, OptionsError> {
    // Unicast packets may go to hosts of either family.
    let is_ipv4 = group.group.is_ipv4() && options.fanout == Fanout::Multicast;
    if options.kind.is_iotup() {
        return Ok(iotup::MAX_DATA_LEN as u16);
    }
    let headers = policy::ip_overhead(is_ipv4) + header_len(options) as u64;
    let mtu = group.interface.mtu as usize;
    let room = lists.map_or(mtu, |lists| len_beside_list(mtu.saturating_sub(lists.header_len())));
    let fits = (room as u64).saturating_sub(headers).min((MAX_PAYLOAD_LEN - SEAL_LEN) as u64) as u16;
    let block_len = options.network.block_len.unwrap_or(fits);
    let least = options.kind.local().map_or(MIN_BLOCK_LEN, |_| MIN_LOCAL_BLOCK_LEN);
    if fits < least {
        let (interface, mtu) = (group.interface.name.clone(), group.interface.mtu);
        return Err(OptionsError::SmallMtu { interface, mtu, least, fits });
    }
    if !(least..=fits).contains(&block_len) {
        let (interface, mtu) = (group.interface.name.clone(), group.interface.mtu);
        return Err(OptionsError::Block { block_len, interface, mtu, least, fits });
    }
    Ok(block_len)
}

/// Length of what stands before each block in a UDP packet, in bytes.
fn header_len(options: &SendOptions) -> usize {
    match (options.kind.is_iotup(), &options.security) {
        (true, _) => iotup::HEADER_LEN,
        (false, None) => HEADER_LEN,
        (false, Some(_)) => HEADER_LEN + SEAL_LEN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(change: impl FnOnce(&mut SendOptions)) -> SendOptions {
        let mut options = SendOptions::new(vec!["/proc/self/exe".into()]);
        options.network.interface = Some("lo".into());
        change(&mut options);
        options
    }

    #[test]
    fn groups_are_of_the_right_scope() {
        let lo = Interface::named("lo").unwrap();
        let pick = |source: Option<&str>| {
            let source = source.map(|source| source.parse().unwrap());
            let options = options(|options| options.network.source = source);
            group(&options, &lo, security::random().unwrap()).unwrap().to_string()
        };
        assert!(pick(Some("127.0.0.1")).starts_with("232."));
        assert!(pick(Some("::1")).starts_with("ff35::"));
        let any = pick(None);
        assert!(any.starts_with("ff15:") || any.starts_with("239.255."), "{any}");
        assert_ne!(any, pick(None));
    }

    #[test]
    fn a_session_for_this_host_alone_is_told_of_unless_it_is_asked_for() {
        let lo = Interface::named("lo").unwrap();
        let anywhere = options(|options| options.network.interface = None);
        assert_eq!(only_this_host(&options(|_| {}), &lo), None);
        let line = only_this_host(&anywhere, &lo).unwrap();
        assert!(line.starts_with("only receivers on this host"), "{line}");
        assert_eq!(line.remedy, Some(remedies::Remedy::OtherInterface));
        let other = Interface { is_loopback: false, ..lo };
        assert_eq!(only_this_host(&anywhere, &other), None);
    }

    /// An MTU of 576 has room for less than the shortest block, whatever the user asks for.
    #[test]
    fn the_lengths_that_a_block_may_have_are_a_range_at_every_mtu() {
        let lo = Interface::named("lo").unwrap();
        let refused = |mtu, group: &str, block_len| {
            let interface = Interface { mtu, ..lo.clone() };
            let group = GroupAddress { group: group.parse().unwrap(), source: None, interface };
            let options = options(|options| options.network.block_len = block_len);
            super::block_len(&options, &group, None).unwrap_err()
        };
        for (mtu, group, fits) in
            [(576, "239.255.1.1:7", 484), (576, "[ff15::1]:7", 464), (68, "[ff15::1]:7", 0)]
        {
            for block_len in [None, Some(400), Some(1_400)] {
                let line = refused(mtu, group, block_len).to_string();
                let told = format!(
                    "(MTU {mtu}) has room for blocks of {fits} bytes, and this session needs at least 580"
                );
                assert!(line.contains(&told), "{line}");
            }
        }
        let line = refused(676, "239.255.1.1:7", Some(1_400)).to_string();
        assert!(line.contains("blocks of 1400 bytes") && line.contains("they may have 580 to 584"), "{line}");
    }

    #[test]
    fn what_does_not_fit_is_refused_in_one_line() {
        fn line(change: impl FnOnce(&mut SendOptions)) -> String {
            Plan::new(&options(change), &Stop::new().unwrap()).unwrap_err().to_string()
        }
        let unicast = line(|options| options.network.group = Some("192.0.2.1".parse().unwrap()));
        assert!(unicast.contains("192.0.2.1") && unicast.contains("multicast"), "{unicast}");
        let foreign = line(|options| options.network.source = Some("192.0.2.9".parse().unwrap()));
        assert!(foreign.contains("192.0.2.9") && foreign.contains("lo"), "{foreign}");
        let long = line(|options| options.network.block_len = Some(100));
        assert!(long.contains("100 bytes"), "{long}");
        let feed = |path: &str| line(|options| options.content.feed = Some(FeedSource::File(path.into())));
        assert!(feed("/no/such/feed").contains("/no/such/feed") && feed("/proc").contains("a folder"));
        let missing = line(|options| options.network.interface = Some("nowhere0".into()));
        assert!(missing.contains("nowhere0"), "{missing}");
    }
}
