//! The options of a session. What only one kind of session has stands in its [`SessionKind`], so that no session can be asked for what
//! its kind does not know.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use treecast_proto::{fec::Share, policy, tfmcc::Control};
use treecast_wire::ticket::{self, Fanout, MAX_GROUPS};

use super::{
    AT_ONCE, CarouselOptions, Dialect, FeedSource, LINGER, Listed, LocalOptions, MINIMUM_RETRANSMISSION_TIME,
    OptionsError, PER_ADDRESS, Priority, Rule, STALL_LIMIT, Starter,
};
use crate::{
    explicit::Sharing,
    files::Selection,
    security::{AllowList, Identity},
    udp::{DEFAULT_MULTICAST_HOPS, Offload},
};

/// The options of a session.
#[derive(Debug, Clone)]
pub struct SendOptions {
    pub content: Content,
    /// How receivers take part, with the options that only such sessions have.
    pub kind: SessionKind,
    pub fanout: Fanout,
    /// The receivers' addresses, if they are known before the receivers come. A carousel sends copies to them.
    pub receivers: Vec<IpAddr>,
    /// How these receivers share packets.
    pub sharing: Sharing,
    pub network: NetworkOptions,
    pub start: StartOptions,
    /// The security of the session. `None` for a plain session: nothing is encrypted, and nobody proves their
    /// identity.
    pub security: Option<SendSecurity>,
    /// The time after which the ticket admits nobody. `None`: never.
    pub expires_in: Option<Duration>,
    /// The file with the session's state, from which a restarted sender continues.
    pub session_file: Option<PathBuf>,
    /// How the session is announced on the network. `None`: it is not announced.
    pub announce: Option<Announce>,
}

/// What a session sends.
#[derive(Debug, Clone, Default)]
pub struct Content {
    pub paths: Vec<PathBuf>,
    /// What of folders is sent, and what happens if something in them cannot be.
    pub selection: Selection,
    /// The source of more paths while the session lasts. `None`: only `paths` are sent.
    pub feed: Option<FeedSource>,
    /// The terms of the feed's objects. The first rule that matches counts. Those of a program's queue have their own.
    pub feed_rules: Vec<Rule>,
    /// The number of the feed's newest objects that are over, and that receivers which come late or come back still get. 0: none.
    /// Sessions with local groups have no such objects.
    pub kept_objects: u32,
    pub form: Form,
}

/// In which form objects are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// As they are.
    #[default]
    Whole,
    /// Compressed by zstd at this level ([`crate::coding::LEVELS`]).
    Compressed(i32),
    /// Differences from older versions. Receivers with an older version of an object are sent only what they lack.
    Differences,
}

/// How a session uses the network.
#[derive(Debug, Clone)]
pub struct NetworkOptions {
    /// The group. `None` picks a random one.
    pub group: Option<IpAddr>,
    /// The group's UDP port. `None` picks a random one.
    pub port: Option<u16>,
    /// The name of the interface. `None`: the one of the route.
    pub interface: Option<String>,
    /// The only source address that receivers listen to (source-specific multicast). `None`: any.
    pub source: Option<IpAddr>,
    /// The hop limit of multicast packets, 1 to 255.
    pub hops: u32,
    /// The bytes of an object in each packet. `None`: as many as the interface's MTU allows.
    pub block_len: Option<u16>,
    pub offload: Offload,
}

impl Default for NetworkOptions {
    fn default() -> Self {
        Self {
            group: None,
            port: None,
            interface: None,
            source: None,
            hops: DEFAULT_MULTICAST_HOPS,
            block_len: None,
            offload: Offload::SuperPackets,
        }
    }
}

/// When a session starts. A carousel starts at its first listener.
#[derive(Debug, Clone)]
pub struct StartOptions {
    /// The number of receivers with which the session starts.
    pub wait_for: u32,
    /// Who may start the session before as many are there, or change their number. `None`: nobody.
    pub starter: Option<Starter>,
    /// The moment, since 1970, before which the session does not start. Receivers can come before. `None`: at once.
    pub start_at: Option<Duration>,
    /// The time, from `start_at` or the beginning on, after which the session gives up if fewer receivers are there.
    pub wait_timeout: Duration,
    /// The number of receivers with which the session starts after `wait_timeout`. `None`: all of `wait_for`.
    pub wait_at_least: Option<u32>,
}

impl Default for StartOptions {
    fn default() -> Self {
        Self {
            wait_for: 1,
            starter: None,
            start_at: None,
            wait_timeout: Duration::from_secs(60),
            wait_at_least: None,
        }
    }
}

/// How receivers take part in a session.
#[derive(Debug, Clone)]
pub enum SessionKind {
    /// Each connects to the sender, and tells it what it has.
    Connected(Connected),
    /// They listen to a carousel, which sends all objects again and again.
    Carousel(Carousel),
    /// They mend losses among themselves, in local groups (LGMP).
    Local(Local),
}

/// The options of a session whose receivers connect to the sender.
#[derive(Debug, Clone)]
pub struct Connected {
    pub mend: Mend,
    pub pace: Pace,
    /// Forward error correction: the symbols that are sent without requests. `None`: no repair symbols.
    pub fec: Option<Share>,
    /// The address for control connections. `None`: any address, at a port that the kernel chooses.
    pub control: Option<SocketAddr>,
    /// The largest number of receivers from one address.
    pub per_address: u32,
    /// The time for retransmissions of an object, as a multiple of the time of its multicast. `None`: no limit.
    pub retransmission_timeout_factor: Option<f64>,
    /// The shortest time for retransmissions of an object.
    pub minimum_retransmission_time: Duration,
    /// When receivers that do not have everything are given up. `None`: never.
    pub give_up: Option<GiveUp>,
    /// The order of multicast and retransmissions if the rate is not enough for both.
    pub priority: Priority,
    /// The largest number of objects that are multicast at the same time.
    pub at_once: usize,
    /// The time of silence after which a receiver that owes an answer has failed.
    pub stall_limit: Duration,
    /// The time for which the session waits for receivers whose connections broke, when all others are done.
    pub linger: Duration,
    /// The receivers that the session is for. It starts with all of them, if they come within the time for the start, and waits at its
    /// end for those that are missing. Empty: it is for whoever comes.
    pub listed: Vec<Listed>,
    /// The time for which the session waits for missing receivers of `listed`, when all others are done. `None`: for ever; but no
    /// longer than for others for a name that no receiver has had in this session.
    pub listed_wait: Option<Duration>,
    /// The longest time for which the session waits, when all have everything, for the results of the commands that standing receivers
    /// run. `None`: it does not wait for them.
    pub awaits_results: Option<Duration>,
}

impl Default for Connected {
    fn default() -> Self {
        Self {
            mend: Mend::Nack,
            pace: Pace::Follow { control: Control::Model, floor_bps: None },
            fec: None,
            control: None,
            per_address: PER_ADDRESS,
            retransmission_timeout_factor: None,
            minimum_retransmission_time: MINIMUM_RETRANSMISSION_TIME,
            give_up: None,
            priority: Priority::default(),
            at_once: AT_ONCE,
            stall_limit: STALL_LIMIT,
            linger: LINGER,
            listed: Vec::new(),
            listed_wait: None,
            awaits_results: None,
        }
    }
}

impl Connected {
    /// The forward error correction that costs least, for a session that nobody has told what to take. Symbols replace lost
    /// blocks where one packet reaches all receivers, and computing them keeps up with the rate.
    pub fn default_fec(&self, fanout: Fanout) -> Option<Share> {
        let rate_bps = match self.pace {
            Pace::Steady(SteadyPace::Fixed(rate)) => Some(rate),
            Pace::Follow { .. } => Some(0),
            // Several groups would need symbols each.
            Pace::Steady(SteadyPace::Max | SteadyPace::Several(_)) => None,
        };
        policy::default_fec(fanout == Fanout::Multicast && self.mend == Mend::Nack, rate_bps)
    }
}

/// What becomes of losses in a session whose receivers connect to the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mend {
    /// They are not mended: an object with a gap at its end has failed.
    None,
    /// Lost blocks are retransmitted when the object has been sent to its end (VCMTP 1).
    After,
    /// Lost blocks are retransmitted while the object is being sent (VCMTP 2).
    Nack,
}

/// The options of a carousel.
#[derive(Debug, Clone)]
pub struct Carousel {
    pub options: CarouselOptions,
    pub pace: SteadyPace,
    /// Whether all loops after the first consist of repair symbols.
    pub is_coded: bool,
}

/// The options of a session with local groups.
#[derive(Debug, Clone)]
pub struct Local {
    pub options: LocalOptions,
    /// The highest rate, in bits of IP packets a second.
    pub rate_bps: u64,
}

/// What paces a session whose receivers connect to the sender.
#[derive(Debug, Clone, PartialEq)]
pub enum Pace {
    /// The rate that congestion control finds for the path to the worst receiver. A receiver that can take
    /// less than the floor does not count. The rate is also limited by the slowest attentive receiver.
    Follow {
        control: Control,
        floor_bps: Option<u64>,
    },
    Steady(SteadyPace),
}

/// A pace that no congestion control determines.
#[derive(Debug, Clone, PartialEq)]
pub enum SteadyPace {
    /// The rate of the slowest attentive receiver, whatever other traffic there is; in a carousel that of the link.
    Max,
    /// A constant rate, in bits of IP packets a second, for a path where that much is reserved.
    Fixed(u64),
    /// Several constant rates, each to a group of its own.
    Several(Rates),
}

impl SteadyPace {
    fn rate(&self) -> Rate {
        match self {
            Self::Max => Rate::Max,
            Self::Fixed(bps) => Rate::Fixed(*bps),
            Self::Several(rates) => Rate::Fixed(rates.0[0]),
        }
    }

    /// The rates of the groups behind the first.
    fn slower(&self) -> &[u64] {
        if let Self::Several(rates) = self { &rates.0[1..] } else { &[] }
    }
}

/// Rates of several groups, in bits of IP packets a second: 2 to [`MAX_GROUPS`] of them, each lower than the one before. Receivers
/// that lose too much of a faster group move to a slower one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rates(Vec<u64>);

impl Rates {
    /// # Errors
    /// [`OptionsError::Rates`] if these are no such rates.
    pub fn new(rates_bps: Vec<u64>) -> Result<Self, OptionsError> {
        let is_falling = rates_bps.windows(2).all(|pair| pair[0] > pair[1]) && !rates_bps.contains(&0);
        match (2..=usize::from(MAX_GROUPS)).contains(&rates_bps.len()) && is_falling {
            true => Ok(Self(rates_bps)),
            false => Err(OptionsError::Rates),
        }
    }

    /// Refuses several rates, in bits a second, that a delivery cannot have.
    ///
    /// # Errors
    /// The reason why they are refused.
    pub fn check(rates_bps: &[u64], is_multicast: bool, repair: ticket::Repair) -> Result<(), OptionsError> {
        Self::new(rates_bps.to_vec())?;
        OptionsError::check_several(is_multicast, repair)
    }
}

/// The rate of the first group, in bits of IP packets a second, headers included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// Congestion control determines it, as in [`Pace::Follow`].
    Auto { control: Control, floor_bps: Option<u64> },
    /// The rate of the slowest attentive receiver, whatever other traffic there is.
    Max,
    /// A constant rate.
    Fixed(u64),
}

impl Rate {
    /// The rate, if it is constant.
    pub fn fixed_bps(self) -> Option<u64> {
        if let Self::Fixed(rate) = self { Some(rate) } else { None }
    }

    /// Whether congestion control determines the rate.
    pub fn is_auto(self) -> bool {
        matches!(self, Self::Auto { .. })
    }
}

/// When a session gives up receivers that do not have everything, counted from its first packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GiveUp {
    /// After this time.
    After(Duration),
    /// After so many times as long as it took to send everything once, and no less than 5 s.
    Times(f64),
}

/// How a session is announced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Announce {
    /// The session's name.
    pub name: String,
    /// Whether it is for anybody who asks.
    pub people: bool,
    /// Whether it is for standing receivers: those that [`Connected::listed`] names, or all if it is empty.
    pub standing: bool,
}

/// The security of a session.
#[derive(Debug, Clone, Default)]
pub struct SendSecurity {
    /// The sender's identity. `None` makes a key for the session.
    pub identity: Option<Identity>,
    /// The keys of the receivers that the sender admits. `None` admits everybody who has the ticket.
    pub allow: Option<AllowList>,
}

impl SendOptions {
    /// The default options: a secure multicast session whose losses are mended meanwhile, at the rate that the
    /// paths to the receivers can take.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        Self {
            content: Content { paths, ..Content::default() },
            kind: SessionKind::Connected(Connected::default()),
            fanout: Fanout::Multicast,
            receivers: Vec::new(),
            sharing: Sharing::default(),
            network: NetworkOptions::default(),
            start: StartOptions::default(),
            security: Some(SendSecurity::default()),
            expires_in: None,
            session_file: None,
            announce: None,
        }
    }

    /// The rate of the session, or of the first of its groups.
    pub fn rate(&self) -> Rate {
        match &self.kind {
            SessionKind::Connected(Connected { pace: Pace::Follow { control, floor_bps }, .. }) => {
                Rate::Auto { control: *control, floor_bps: *floor_bps }
            }
            SessionKind::Connected(Connected { pace: Pace::Steady(pace), .. })
            | SessionKind::Carousel(Carousel { pace, .. }) => pace.rate(),
            SessionKind::Local(local) => Rate::Fixed(local.rate_bps),
        }
    }

    /// The rates of slower groups, in bits of IP packets a second, from fast to slow. Empty in a session with one group.
    pub fn slower_rates(&self) -> &[u64] {
        match &self.kind {
            SessionKind::Connected(Connected { pace: Pace::Steady(pace), .. })
            | SessionKind::Carousel(Carousel { pace, .. }) => pace.slower(),
            SessionKind::Connected(_) | SessionKind::Local(_) => &[],
        }
    }

    /// The repair symbols that are sent without requests. `None`: none.
    pub fn fec(&self) -> Option<Share> {
        match &self.kind {
            SessionKind::Connected(connected) => connected.fec,
            SessionKind::Carousel(carousel) => carousel.is_coded.then_some(Share::Auto),
            SessionKind::Local(_) => None,
        }
    }

    /// The options of a session whose receivers connect to the sender. `None` in others.
    pub fn connected(&self) -> Option<&Connected> {
        if let SessionKind::Connected(connected) = &self.kind { Some(connected) } else { None }
    }

    /// The address for control connections that was asked for.
    pub fn control(&self) -> Option<SocketAddr> {
        self.connected()?.control
    }

    /// The receivers that the session is for. Empty: it is for whoever comes.
    pub fn listed(&self) -> &[Listed] {
        self.connected().map_or(&[], |connected| &connected.listed)
    }

    /// How long the session waits for the results of commands. `None`: it does not.
    pub fn awaits_results(&self) -> Option<Duration> {
        self.connected()?.awaits_results
    }

    /// The time of silence after which a receiver that owes an answer has failed.
    pub fn stall_limit(&self) -> Duration {
        self.connected().map_or(STALL_LIMIT, |connected| connected.stall_limit)
    }

    /// The level at which objects are compressed. `None`: they are not.
    pub fn compression(&self) -> Option<i32> {
        if let Form::Compressed(level) = self.content.form { Some(level) } else { None }
    }

    /// Whether objects are sent by difference.
    pub fn is_by_difference(&self) -> bool {
        self.content.form == Form::Differences
    }
}

impl SessionKind {
    /// The repair in the form for tickets.
    pub fn in_ticket(&self) -> ticket::Repair {
        match self {
            Self::Connected(Connected { mend: Mend::None, .. }) => ticket::Repair::None,
            Self::Connected(Connected { mend: Mend::After, .. }) => ticket::Repair::After,
            Self::Connected(Connected { mend: Mend::Nack, .. }) => ticket::Repair::Nack,
            Self::Carousel(_) => ticket::Repair::Carousel,
            Self::Local(_) => ticket::Repair::Local,
        }
    }

    pub fn carousel(&self) -> Option<&CarouselOptions> {
        if let Self::Carousel(carousel) = self { Some(&carousel.options) } else { None }
    }

    pub fn local(&self) -> Option<&LocalOptions> {
        if let Self::Local(local) = self { Some(&local.options) } else { None }
    }

    /// Whether receivers connect to the sender. Otherwise the ticket has all that they need.
    pub fn has_connections(&self) -> bool {
        matches!(self, Self::Connected(_))
    }

    /// Whether packets are the IoT updater's.
    pub fn is_iotup(&self) -> bool {
        self.carousel().is_some_and(|options| options.dialect != Dialect::Session)
    }
}
