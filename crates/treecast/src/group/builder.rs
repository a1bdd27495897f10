//! The options of a group.

mod kinds;
mod name;
mod named;
mod renamed;
mod values;

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use treecast_driver::{
    coding::LEVELS,
    files::Exclude,
    security::{AllowList, Identity},
    send::{
        self, Carousel, CarouselOptions, Connected, Control, Form, Instead, Listed, Local, LocalOptions,
        Mend, OptionsError, Pace, RATES_BPS, Rates, SendEvent, SendOptions, SendSecurity, SendSummary,
        SessionKind, Setting, Starter, SteadyPace,
    },
    status::Progress,
    udp::{Offload, check_group},
};
use treecast_proto::fec::Share;
use treecast_wire::{iotup, ticket};

pub use named::GroupOption;
pub use values::{Fanout, Fec, GiveUp, Priority, Rate, Repair};

use super::{Group, GroupEvent};
use crate::{
    Error, ErrorKind,
    error::of_send,
    events::Callback,
    limits::{CAROUSEL_RATE_BPS, LEAST_STALL_LIMIT, LOCAL_RATE_BPS, LONGEST_TIME, bounded, within},
    object::checked_factor,
    observers::{Observed, Observers},
    session::Session,
    unstable::Stop,
};

/// The largest number of objects that are not done, unless an option says otherwise.
const MOST_OUTSTANDING: usize = 4096;

/// The options of a group: the paper's VcmtpSenderParams (interdomain-2013, section 4.6.2). Every option has a default that
/// suits most sessions: secure, multicast, with retransmissions meanwhile, at a rate that the path can take.
#[must_use = "a builder does nothing until the group is started"]
pub struct GroupBuilder {
    options: SendOptions,
    /// What a session has whose receivers connect to the sender.
    connected: Connected,
    /// What a session of another kind has.
    special: Option<Special>,
    /// `None`: the default of the session's kind.
    rate: Option<Rate>,
    floor_bps: Option<u64>,
    several_rates: Option<Vec<u64>>,
    /// The repair symbols that were asked for. `None`: nobody has asked.
    fec: Option<Option<Share>>,
    compression: Option<i32>,
    by_difference: bool,
    is_plain: bool,
    key: Option<String>,
    admitted: Option<PathBuf>,
    /// Patterns of entries of folders that are not sent.
    excluded: Vec<String>,
    most_outstanding: usize,
    observed: Observed,
    /// Whether a short code is offered.
    offers_code: bool,
    on_event: Option<Callback<GroupEvent>>,
}

/// The kinds of sessions in which nobody connects to the sender.
enum Special {
    Carousel(CarouselOptions),
    Local(LocalOptions),
}

/// Refuses values that no session can have.
fn check(options: &SendOptions) -> Result<(), Error> {
    if let Some(Err(line)) = options.network.group.map(check_group) {
        return Err(Error::new(ErrorKind::Options, line));
    }
    let mut rates_bps = options.rate().fixed_bps().into_iter().chain(options.slower_rates().iter().copied());
    rates_bps.try_for_each(|bps| within("rate", bps, RATES_BPS))?;
    options.compression().map_or(Ok(()), |level| within("level of compression", level, LEVELS))?;
    let start = &options.start;
    within("hop limit", options.network.hops, 1..=255)?;
    within("number of receivers to wait for", start.wait_for, 1..=u32::MAX)?;
    let waits_for = start.wait_for.max(options.listed().len() as u32);
    if start.wait_at_least.is_some_and(|least| !(1..=waits_for).contains(&least)) {
        return Err(Error::of(ErrorKind::Options, OptionsError::AtLeast { waits_for }));
    }
    let Some(connected) = options.connected() else { return Ok(()) };
    let give_up = connected.give_up.and_then(|give_up| match give_up {
        send::GiveUp::Times(factor) => Some(factor),
        send::GiveUp::After(_) => None,
    });
    let factors = connected.retransmission_timeout_factor.into_iter().chain(give_up);
    factors.map(checked_factor).try_for_each(|checked| checked.map(|_| ()))?;
    // Receivers that are well may be silent for a while.
    within(
        "stall limit in seconds",
        connected.stall_limit.as_secs(),
        LEAST_STALL_LIMIT.as_secs()..=LONGEST_TIME.as_secs(),
    )
}

impl fmt::Debug for GroupBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupBuilder").finish_non_exhaustive()
    }
}

impl Default for GroupBuilder {
    fn default() -> Self {
        Self {
            options: SendOptions::new(Vec::new()),
            connected: Connected::default(),
            special: None,
            rate: None,
            floor_bps: None,
            several_rates: None,
            fec: None,
            compression: None,
            by_difference: false,
            is_plain: false,
            key: None,
            admitted: None,
            excluded: Vec::new(),
            most_outstanding: MOST_OUTSTANDING,
            observed: Observed::default(),
            offers_code: false,
            on_event: None,
        }
    }
}

impl GroupBuilder {
    /// The number of receivers with which the session starts, 1 or more. Default: 1.
    pub fn wait(mut self, receivers: u32) -> Self {
        self.options.start.wait_for = receivers;
        self
    }

    /// Who may start the session before as many receivers are there, or change their number. With
    /// [`answer_status`](Self::answer_status), `treecast status --start` and `--wait` do so, too.
    pub fn starter(mut self, starter: &Starter) -> Self {
        self.options.start.starter = Some(starter.clone());
        self
    }

    /// The time after which the session fails if fewer receivers are there. Default: 60 s.
    pub fn wait_timeout(mut self, time: Duration) -> Self {
        self.options.start.wait_timeout = bounded(time);
        self
    }

    /// The number of receivers with which the session starts when the [`wait_timeout`](Self::wait_timeout) is over, in place of
    /// failing.
    pub fn wait_at_least(mut self, receivers: u32) -> Self {
        self.options.start.wait_at_least = Some(receivers);
        self
    }

    /// The way in which a packet reaches many hosts. Default: multicast.
    pub fn fanout(mut self, fanout: Fanout) -> Self {
        self.options.fanout = match fanout {
            Fanout::Multicast => ticket::Fanout::Multicast,
            Fanout::Unicast => ticket::Fanout::Unicast,
            Fanout::Mead => ticket::Fanout::Mead,
            Fanout::Xcast => ticket::Fanout::Xcast,
            Fanout::Auto => ticket::Fanout::Auto,
        };
        self
    }

    /// The way in which lost packets are mended. Default: [`Repair::Nack`].
    pub fn repair(mut self, repair: Repair) -> Self {
        self.special = None;
        self.connected.mend = match repair {
            Repair::Nack => Mend::Nack,
            Repair::After => Mend::After,
            Repair::None => Mend::None,
        };
        self
    }

    /// The rate at which packets leave. Default: [`Rate::Auto`]; with a carousel [`CAROUSEL_RATE_BPS`].
    pub fn rate(mut self, rate: Rate) -> Self {
        self.rate = Some(rate);
        self
    }

    /// The time for retransmissions of each object that has no [factor](crate::Object::retx_factor) of its own, as a
    /// multiple of the time that its multicast takes; 0 to 1,000,000. Default: no limit.
    pub fn retx_factor(mut self, factor: f64) -> Self {
        self.connected.retransmission_timeout_factor = Some(factor);
        self
    }

    /// The shortest time for retransmissions, whatever the factor gives. Default: 2 s.
    pub fn retx_minimum(mut self, time: Duration) -> Self {
        self.connected.minimum_retransmission_time = bounded(time);
        self
    }

    /// When receivers that do not have everything are given up, counted from the session's first packet. It is not for feeds, carousels
    /// and local groups. Default: never.
    pub fn give_up_after(mut self, when: GiveUp) -> Self {
        self.connected.give_up = Some(when.into());
        self
    }

    /// The multicast group's address. Default: a random one of site scope.
    pub fn group(mut self, address: IpAddr) -> Self {
        self.options.network.group = Some(address);
        self
    }

    /// The UDP port of the multicast group. Default: a random one.
    pub fn port(mut self, port: u16) -> Self {
        self.options.network.port = Some(port);
        self
    }

    /// The name of the network interface, such as `eth0`. Default: the one of the route.
    pub fn interface(mut self, name: impl Into<String>) -> Self {
        self.options.network.interface = Some(name.into());
        self
    }

    /// The only source address that receivers listen to (source-specific multicast). Default: any.
    pub fn source(mut self, address: IpAddr) -> Self {
        self.options.network.source = Some(address);
        self
    }

    /// The TCP address for the control connections of receivers. Default: any address, at a free port.
    pub fn control(mut self, address: SocketAddr) -> Self {
        self.connected.control = Some(address);
        self
    }

    /// The hop limit of multicast packets: the number of routers that they may cross, 1 to 255. Default: 32.
    pub fn ttl(mut self, hops: u8) -> Self {
        self.options.network.hops = hops.into();
        self
    }

    /// The largest number of objects that are multicast at the same time. Default: 64.
    pub fn at_once(mut self, objects: usize) -> Self {
        self.connected.at_once = objects.max(1);
        self
    }

    /// The largest number of objects that are sent and not done. [`Group::send`] refuses more. Default: 4,096.
    pub fn most_outstanding(mut self, objects: usize) -> Self {
        self.most_outstanding = objects.max(1);
        self
    }

    /// The time for which the session waits at its end for receivers whose connections broke. Default: 10 s.
    pub fn linger(mut self, time: Duration) -> Self {
        self.connected.linger = bounded(time);
        self
    }

    /// Compresses objects by zstd at this level, 1 to 19, where a sample of them becomes smaller. [`Group::send`] takes the
    /// sample, so it reads a little of each object. Default: no compression.
    pub fn compress(mut self, level: i32) -> Self {
        self.compression = Some(level);
        self
    }

    /// The time after which the ticket admits nobody. Default: none.
    pub fn expires(mut self, time: Duration) -> Self {
        self.options.expires_in = Some(bounded(time));
        self
    }

    /// Announces the session on the network under this name to anybody who asks (`treecast discover`). An empty name stands for that of
    /// the first [path](Self::path).
    pub fn announce(mut self, name: impl Into<String>) -> Self {
        let announce = self.options.announce.get_or_insert_default();
        (announce.name, announce.people) = (name.into(), true);
        self
    }

    /// Offers the ticket for a short code of three words ([`Group::code`]), by which receivers on the same network get it. After five
    /// wrong guesses the code is of no use any more. [`GroupEvent::CodeGiven`] and [`GroupEvent::CodeWrong`] tell who has asked.
    ///
    /// It is for [`start`](Self::start). A program that [runs](Self::run) the session opens an [`Offer`](crate::unstable::code::Offer).
    pub fn code(mut self) -> Self {
        self.offers_code = true;
        self
    }

    /// A session without security: nothing is encrypted, and nobody proves their identity. For comparisons.
    pub fn plain(mut self) -> Self {
        self.is_plain = true;
        self
    }

    /// The sender's key: its name (see `treecast keys`), or its file. Default: a key that is made for the session.
    pub fn key(mut self, name_or_path: impl Into<String>) -> Self {
        self.key = Some(name_or_path.into());
        self
    }

    /// The file with the public keys of the receivers that are admitted, one a line. Default: everybody who has the ticket.
    pub fn allow(mut self, allow_list: impl Into<PathBuf>) -> Self {
        self.admitted = Some(allow_list.into());
        self
    }

    /// Gives all events to this function, in place of the queue of [`Group::next_event`]. It runs in the session's thread, so
    /// it must return soon, and must not block.
    pub fn on_event(mut self, function: impl FnMut(GroupEvent) + Send + 'static) -> Self {
        self.on_event = Some(Box::new(function));
        self
    }

    /// Opens the group, and starts its session: the paper's StartGroup. Receivers can join with [`Group::ticket`] from then on.
    /// It takes a few milliseconds, and waits for no receiver.
    ///
    /// # Errors
    /// [`ErrorKind::Options`] if options do not go together, [`ErrorKind::Network`] if the interface, an address or a port
    /// cannot be used, and [`ErrorKind::Key`] if a key or the allow list cannot be used.
    pub fn start(mut self) -> Result<Group, Error> {
        let session = Session::new(self.on_event.take(), GroupEvent::Missed)?;
        let (most_outstanding, offers_code) = (self.most_outstanding, self.offers_code);
        let (options, observers) = self.prepare()?;
        let (interface, group) = (options.network.interface.clone(), options.network.group);
        let started = Group::open(options, observers, session, most_outstanding)?;
        if offers_code { started.with_code(interface.as_deref(), group) } else { Ok(started) }
    }

    /// Sends the [paths](Self::path), and what comes by the [feed](Self::feed), in this thread. Returns when every receiver has ended
    /// with all of it, or `stop` is requested. Tells every event in full. Functions of [`on_event`](Self::on_event) are not called.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), treecast::Error> {
    /// use treecast::{Group, unstable::{Stop, watch::SendEvent}};
    ///
    /// let summary = Group::builder().path("image.iso").run(&Stop::on_signals()?, &mut |event| {
    ///     if let SendEvent::Ready { ticket } = event {
    ///         println!("{ticket}");
    ///     }
    /// })?;
    /// assert!(summary.is_complete());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`start`](Self::start) and of [`Group::finish`].
    pub fn run(self, stop: &Stop, on_event: &mut dyn FnMut(&SendEvent)) -> Result<SendSummary, Error> {
        if self.offers_code {
            let line = "a session that runs in its caller's thread offers no code by itself: open an Offer for its ticket";
            return Err(Error::new(ErrorKind::Options, line));
        }
        let (options, mut observers) = self.prepare()?;
        let is_iotup = options.kind.is_iotup();
        let mut note = |event: SendEvent| {
            observers.note_send(&event, is_iotup);
            on_event(&event);
        };
        send::run(&options, stop, &mut note).map_err(of_send)
    }

    /// What the driver takes, and who looks on.
    fn prepare(mut self) -> Result<(SendOptions, Observers), Error> {
        let options_error = |error| Error::of(ErrorKind::Options, error);
        let security = self.security()?;
        let kind = self.kind().map_err(options_error)?;
        let mut options = self.options;
        options.kind = kind;
        options.content.form = match (self.compression, self.by_difference) {
            (Some(_), true) => {
                let why = "an object is sent by difference or compressed, not both";
                let misfit = OptionsError::misfit(Setting::Difference, Instead::NoCompression, why);
                return Err(options_error(misfit));
            }
            (Some(level), false) => Form::Compressed(level),
            (None, true) => Form::Differences,
            (None, false) => Form::Whole,
        };
        options.content.selection.exclude =
            Exclude::new(&self.excluded).map_err(|error| Error::of(ErrorKind::Options, error))?;
        if options.kind.is_iotup() {
            options.network.port.get_or_insert(iotup::PORT);
        }
        check(&options)?;
        options.security = security;
        if let Some(announce) = &mut options.announce {
            announce.name = name::announced(&announce.name, &options.content.paths)?;
        }
        options.network.offload =
            Offload::from_environment().map_err(|line| Error::new(ErrorKind::Options, line))?;
        let mut observers =
            Observers::start(Progress::default(), self.observed, options.start.starter.clone())?;
        observers.note_wanted(options.start.wait_for);
        Ok((options, observers))
    }

    /// The kind of the session, with the options that such a session has.
    fn kind(&mut self) -> Result<SessionKind, OptionsError> {
        let why = "a carousel and local groups have no receivers that say when they have everything: give up none of them";
        if self.special.is_some() && self.connected.give_up.is_some() {
            return Err(OptionsError::misfit(Setting::GiveUp, None, why));
        }
        match self.special.take() {
            Some(Special::Carousel(options)) => self.carousel_kind(options).map(SessionKind::Carousel),
            Some(Special::Local(options)) => self.local_kind(options).map(SessionKind::Local),
            None => {
                let pace = self.pace()?;
                let mut connected = Connected { pace, ..std::mem::take(&mut self.connected) };
                // Parts of files, which go out by difference, are mended without symbols.
                let default_fec =
                    || connected.default_fec(self.options.fanout).filter(|_| !self.by_difference);
                connected.fec = self.fec.unwrap_or_else(default_fec);
                Ok(SessionKind::Connected(connected))
            }
        }
    }

    /// The pace of a session whose receivers connect to the sender.
    fn pace(&mut self) -> Result<Pace, OptionsError> {
        let floor_bps = self.floor_bps;
        let control = match self.rate.unwrap_or_default() {
            _ if self.several_rates.is_some() => None,
            Rate::Auto => Some(Control::Model),
            Rate::Tfmcc => Some(Control::Tfmcc),
            Rate::Max | Rate::Bps(_) => None,
        };
        if let Some(control) = control {
            return Ok(Pace::Follow { control, floor_bps });
        }
        self.steady_pace().map(Pace::Steady)
    }

    /// The pace of a session whose rate follows nobody.
    fn steady_pace(&mut self) -> Result<SteadyPace, OptionsError> {
        let pace = match (self.several_rates.take(), self.rate) {
            (Some(rates), _) => SteadyPace::Several(Rates::new(rates)?),
            (None, Some(Rate::Max)) => SteadyPace::Max,
            (None, Some(Rate::Bps(bps))) => SteadyPace::Fixed(bps),
            (None, Some(Rate::Auto | Rate::Tfmcc)) => {
                let why = "a carousel hears nothing of its receivers, and cannot follow them with its rate";
                return Err(OptionsError::misfit(Setting::Rate, Instead::Number, why));
            }
            (None, None) => SteadyPace::Fixed(CAROUSEL_RATE_BPS),
        };
        match (self.floor_bps, &pace) {
            (None, _) => Ok(pace),
            (Some(floor_bps), SteadyPace::Fixed(rate_bps)) if floor_bps > *rate_bps => {
                Err(OptionsError::Floor { floor_bps, rate_bps: *rate_bps })
            }
            (Some(_), _) => {
                let why =
                    "the lowest rate is for a rate that follows receivers, and this session's follows nobody";
                Err(OptionsError::misfit(Setting::RateFloor, Instead::Following, why))
            }
        }
    }

    fn carousel_kind(&mut self, options: CarouselOptions) -> Result<Carousel, OptionsError> {
        let pace = self.steady_pace()?;
        let fec = self.fec.flatten();
        if let Some(Share::Percent(_)) = fec {
            return Err(OptionsError::carousel_share());
        }
        Ok(Carousel { options, pace, is_coded: fec.is_some() })
    }

    fn local_kind(&mut self, mut options: LocalOptions) -> Result<Local, OptionsError> {
        let refuse = |setting, instead, why| Err(OptionsError::misfit(setting, instead, why));
        if self.several_rates.is_some() {
            let why = "a session with local groups has one rate, which follows the slowest group";
            return refuse(Setting::Rates, Some(Instead::Number), why);
        }
        if self.fec.flatten().is_some() {
            return refuse(Setting::Fec, None, "local groups mend losses without repair symbols");
        }
        let rate_bps = match self.rate {
            None | Some(Rate::Auto) => LOCAL_RATE_BPS,
            Some(Rate::Bps(bps)) => bps,
            Some(Rate::Max) => {
                let why = "a session with local groups begins at its highest rate, which is a number, and goes down where \
                           receivers lose too much";
                return refuse(Setting::Rate, Some(Instead::Number), why);
            }
            Some(Rate::Tfmcc) => {
                let why = "TFMCC needs receivers that report to the sender, and those of local groups report to each other";
                return refuse(Setting::Rate, Some(Instead::Retransmissions), why);
            }
        };
        if let Some(floor_bps) = self.floor_bps.filter(|floor_bps| *floor_bps > rate_bps) {
            return Err(OptionsError::Floor { floor_bps, rate_bps });
        }
        options.floor_bps = self.floor_bps;
        options.shares_link = matches!(self.rate, None | Some(Rate::Auto));
        Ok(Local { options, rate_bps })
    }

    /// Whether the session has the frames of the IoT updater.
    fn is_iotup(&self) -> bool {
        matches!(&self.special, Some(Special::Carousel(options)) if options.dialect != send::Dialect::Session)
    }

    /// The security of the session. `None` for a plain one, such as that of the IoT updater.
    fn security(&self) -> Result<Option<SendSecurity>, Error> {
        let has_keys = self.key.is_some() || self.admitted.is_some();
        let misfit = match (self.is_iotup(), self.is_plain) {
            (true, _) => OptionsError::misfit(Setting::Keys, None, "the IoT updater's packets know no keys"),
            (false, true) => {
                let why = "a session without security has no keys";
                OptionsError::misfit(Setting::Plain, Instead::NoKeys, why)
            }
            (false, false) => return self.keys().map(Some),
        };
        if has_keys { Err(Error::of(ErrorKind::Options, misfit)) } else { Ok(None) }
    }

    /// The keys of a session with security.
    fn keys(&self) -> Result<SendSecurity, Error> {
        let identity = self.key.as_deref().map(Identity::named).transpose();
        let identity = identity.map_err(|error| Error::of(ErrorKind::Key, error))?;
        let allow = self.admitted.as_deref().map(AllowList::load).transpose();
        let allow = allow.map_err(|error| Error::of(ErrorKind::Key, error))?;
        let listed = &self.connected.listed;
        let allow = allow.or_else(|| Listed::allow_list(listed).filter(|_| !listed.is_empty()));
        Ok(SendSecurity { identity, allow })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(mut builder: GroupBuilder) -> Result<send::Rate, OptionsError> {
        let mut options = SendOptions::new(Vec::new());
        options.kind = builder.kind()?;
        Ok(options.rate())
    }

    fn misfit(builder: GroupBuilder) -> Setting {
        match rate(builder) {
            Err(OptionsError::Misfit { setting, .. }) => setting,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_session_is_paced_by_its_receivers_and_a_carousel_by_its_link() {
        let auto = |control, floor_bps| Ok(send::Rate::Auto { control, floor_bps });
        let carousel = || Group::builder().carousel(CarouselOptions::default());
        let local = || Group::builder().local_groups(LocalOptions::default());
        assert_eq!(rate(Group::builder()), auto(Control::Model, None));
        assert_eq!(rate(Group::builder().rate(Rate::Tfmcc).rate_floor(5)), auto(Control::Tfmcc, Some(5)));
        assert_eq!(rate(carousel()), Ok(send::Rate::Fixed(CAROUSEL_RATE_BPS)));
        assert_eq!(rate(carousel().rate(Rate::Max)), Ok(send::Rate::Max));
        assert_eq!(rate(carousel().rate(Rate::Bps(7))), Ok(send::Rate::Fixed(7)));
        assert_eq!(rate(local().rate_floor(5)), Ok(send::Rate::Fixed(LOCAL_RATE_BPS)));
        assert_eq!(misfit(local().rate(Rate::Tfmcc)), Setting::Rate);
        assert_eq!(misfit(carousel().rate(Rate::Auto)), Setting::Rate);
        assert_eq!(rate(Group::builder().rates(vec![9, 5])), Ok(send::Rate::Fixed(9)));
        assert_eq!(rate(Group::builder().rates(vec![9])), Err(OptionsError::Rates));
        assert_eq!(rate(Group::builder().rates(Vec::new())), Err(OptionsError::Rates));
    }

    #[test]
    fn what_only_other_kinds_of_sessions_have_is_refused() {
        let carousel = || Group::builder().carousel(CarouselOptions::default());
        let local = || Group::builder().local_groups(LocalOptions::default());
        assert_eq!(misfit(carousel().give_up_after(GiveUp::Times(3.0))), Setting::GiveUp);
        assert_eq!(misfit(carousel().fec(Fec::Percent(5))), Setting::Fec);
        assert_eq!(misfit(local().fec(Fec::Auto)), Setting::Fec);
        assert_eq!(misfit(local().rates(vec![9, 5])), Setting::Rates);
        assert!(rate(carousel().fec(Fec::Auto)).is_ok() && rate(local().fec(Fec::None)).is_ok());
    }

    #[test]
    fn a_floor_above_the_rate_or_without_one_that_follows_is_refused() {
        let floor = |rate_bps| Group::builder().rate(rate_bps).rate_floor(2_000_000);
        let above = OptionsError::Floor { floor_bps: 2_000_000, rate_bps: 1_000_000 };
        assert_eq!(rate(floor(Rate::Bps(1_000_000))), Err(above));
        assert_eq!(misfit(floor(Rate::Max)), Setting::RateFloor);
    }

    #[test]
    fn what_no_session_can_have_is_refused_with_a_reason() {
        let refused = |builder: GroupBuilder| {
            let error = builder.prepare().map(|_| ()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Options);
            (error.cause().is_some_and(|cause| cause.is::<OptionsError>()), error.to_string())
        };
        let (is_typed, line) = refused(Group::builder().wait(2).wait_at_least(3));
        assert!(is_typed && line.contains("waits for 2 receivers"), "{line}");
        assert!(refused(Group::builder().plain().key("x")).1.contains("no keys"));
        assert!(refused(Group::builder().rates(vec![9_000_000, 1])).1.contains("the rate 1 is"));
        assert!(refused(Group::builder().announce("a\nb")).1.contains("without control"));
    }
}
