//! The options of a group.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use treecast_driver::{
    coding::LEVELS,
    security::{AllowList, Identity},
    send::{self, RATES_BPS, SendOptions, SendSecurity},
    udp::check_group,
};
use treecast_proto::tfmcc::Control;
use treecast_wire::ticket;

use super::{Group, GroupEvent};
use crate::{Error, ErrorKind, events::Callback, object::checked_factor, session::Session};

/// The largest number of objects that are not done, unless an option says otherwise.
const MOST_OUTSTANDING: usize = 4096;

/// The options of a group: the paper's VcmtpSenderParams (interdomain-2013, section 4.6.2). Every option has a default that
/// suits most sessions: secure, multicast, with retransmissions meanwhile, at a rate that the path can take.
#[must_use = "a builder does nothing until the group is started"]
pub struct GroupBuilder {
    options: SendOptions,
    is_plain: bool,
    key: Option<String>,
    admitted: Option<PathBuf>,
    most_outstanding: usize,
    on_event: Option<Callback<GroupEvent>>,
}

/// Refuses values that no session can have.
fn check(options: &SendOptions) -> Result<(), Error> {
    let refuse = |line: String| Err(Error::new(ErrorKind::Options, line));
    if let Some(factor) = options.retransmission_timeout_factor {
        checked_factor(factor)?;
    }
    if let Some(Err(line)) = options.group.map(check_group) {
        return refuse(line);
    }
    match options.rate.fixed_bps() {
        Some(bps) if !RATES_BPS.contains(&bps) => {
            let (least, most) = RATES_BPS.into_inner();
            refuse(format!("the rate {bps} is no number from {least} to {most} bits a second"))
        }
        _ if options.compression.is_some_and(|level| !LEVELS.contains(&level)) => {
            refuse(format!("objects are compressed at level {} to {}", LEVELS.start(), LEVELS.end()))
        }
        _ if options.hops == 0 => refuse("with 0 hops, packets never leave this host: allow 1 to 255".into()),
        _ if options.wait_for == 0 => refuse("a session starts with a receiver: wait for 1 or more".into()),
        _ if options.wait_at_least.is_some_and(|least| least == 0 || least > options.wait_for) => refuse(
            format!("a session that waits for {0} receivers starts with at least 1 to {0}", options.wait_for),
        ),
        _ => Ok(()),
    }
}

impl fmt::Debug for GroupBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupBuilder").finish_non_exhaustive()
    }
}

/// The way in which a packet reaches many hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Fanout {
    /// One packet for all receivers, by IP multicast.
    #[default]
    Multicast,
    /// A copy for each receiver.
    Unicast,
    /// MEADcast where routers speak it, unicast elsewhere.
    Mead,
    /// Xcast (RFC 5058) where it proves to work, unicast elsewhere.
    Xcast,
    /// Unicast at first. Each receiver moves to multicast or MEADcast if that reaches it.
    Auto,
}

/// The way in which lost packets are mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Repair {
    /// Retransmissions while the object goes out: VCMTP 2 (interdomain-2013, section 4.3).
    #[default]
    Nack,
    /// Retransmissions when the object is out: VCMTP 1.
    After,
    /// No retransmissions. A receiver that loses a packet fails.
    None,
}

/// The rate at which packets leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Rate {
    /// What the path to the worst receiver delivers, shared with other traffic.
    #[default]
    Auto,
    /// As fast as the slowest attentive receiver takes it, whatever other traffic there is.
    Max,
    /// A constant rate, in bits of IP packets a second, for a path where that much is reserved: 1,000 to 400,000,000,000.
    Bps(u64),
}

impl Default for GroupBuilder {
    fn default() -> Self {
        Self {
            options: SendOptions::new(Vec::new()),
            is_plain: false,
            key: None,
            admitted: None,
            most_outstanding: MOST_OUTSTANDING,
            on_event: None,
        }
    }
}

impl GroupBuilder {
    /// The number of receivers with which the session starts, 1 or more. Default: 1.
    pub fn wait_for(mut self, receivers: u32) -> Self {
        self.options.wait_for = receivers;
        self
    }

    /// The time after which the session fails if fewer receivers are there. Default: 60 s.
    pub fn wait_timeout(mut self, time: Duration) -> Self {
        self.options.wait_timeout = time;
        self
    }

    /// The number of receivers with which the session starts when the [`wait_timeout`](Self::wait_timeout) is over, in place of
    /// failing.
    pub fn wait_at_least(mut self, receivers: u32) -> Self {
        self.options.wait_at_least = Some(receivers);
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
        self.options.repair = match repair {
            Repair::Nack => send::Repair::Nack,
            Repair::After => send::Repair::After,
            Repair::None => send::Repair::None,
        };
        self
    }

    /// The rate at which packets leave. Default: [`Rate::Auto`].
    pub fn rate(mut self, rate: Rate) -> Self {
        self.options.rate = match rate {
            Rate::Auto => send::Rate::Auto { control: Control::Model, floor_bps: None },
            Rate::Max => send::Rate::Max,
            Rate::Bps(bps) => send::Rate::Fixed(bps),
        };
        self
    }

    /// The time for retransmissions of each object that has no [factor](crate::Object::retransmission_factor) of its own, as a
    /// multiple of the time that its multicast takes; 0 to 1,000,000. Default: no limit.
    pub fn retransmission_factor(mut self, factor: f64) -> Self {
        self.options.retransmission_timeout_factor = Some(factor);
        self
    }

    /// The shortest time for retransmissions, whatever the factor gives. Default: 2 s.
    pub fn minimum_retransmission_time(mut self, time: Duration) -> Self {
        self.options.minimum_retransmission_time = time;
        self
    }

    /// The multicast group's address. Default: a random one of site scope.
    pub fn group(mut self, address: IpAddr) -> Self {
        self.options.group = Some(address);
        self
    }

    /// The UDP port of the multicast group. Default: a random one.
    pub fn port(mut self, port: u16) -> Self {
        self.options.port = Some(port);
        self
    }

    /// The name of the network interface, such as `eth0`. Default: the one of the route.
    pub fn interface(mut self, name: impl Into<String>) -> Self {
        self.options.interface = Some(name.into());
        self
    }

    /// The only source address that receivers listen to (source-specific multicast). Default: any.
    pub fn source(mut self, address: IpAddr) -> Self {
        self.options.source = Some(address);
        self
    }

    /// The TCP address for the control connections of receivers. Default: any address, at a free port.
    pub fn control(mut self, address: SocketAddr) -> Self {
        self.options.control = Some(address);
        self
    }

    /// The hop limit of multicast packets: the number of routers that they may cross, 1 to 255. Default: 32.
    pub fn hops(mut self, hops: u8) -> Self {
        self.options.hops = hops.into();
        self
    }

    /// The largest number of objects that are multicast at the same time. Default: 64.
    pub fn at_once(mut self, objects: usize) -> Self {
        self.options.at_once = objects.max(1);
        self
    }

    /// The largest number of objects that are sent and not done. [`Group::send`] refuses more. Default: 4,096.
    pub fn most_outstanding(mut self, objects: usize) -> Self {
        self.most_outstanding = objects.max(1);
        self
    }

    /// The time for which the session waits at its end for receivers whose connections broke. Default: 10 s.
    pub fn linger(mut self, time: Duration) -> Self {
        self.options.linger = time;
        self
    }

    /// Compresses objects by zstd at this level, 1 to 19, where a sample of them becomes smaller. [`Group::send`] takes the
    /// sample, so it reads a little of each object. Default: no compression.
    pub fn compression(mut self, level: i32) -> Self {
        self.options.compression = Some(level);
        self
    }

    /// The time after which the ticket admits nobody. Default: none.
    pub fn expires_in(mut self, time: Duration) -> Self {
        self.options.expires_in = Some(time);
        self
    }

    /// Announces the session on the network under this name, so that `treecast discover` and standing receivers find it.
    pub fn announce(mut self, name: impl Into<String>) -> Self {
        self.options.announce = Some(name.into());
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
    pub fn admit(mut self, allow_list: impl Into<PathBuf>) -> Self {
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
    pub fn start(self) -> Result<Group, Error> {
        let mut options = self.options;
        check(&options)?;
        let key_error = |error| Error::of(ErrorKind::Key, error);
        let identity = self.key.as_deref().map(Identity::named).transpose().map_err(key_error)?;
        let allow = self.admitted.as_deref().map(AllowList::load).transpose();
        let allow = allow.map_err(|error| Error::of(ErrorKind::Key, error))?;
        options.security = match self.is_plain {
            true if identity.is_some() || allow.is_some() => {
                let line = "a session without security has no keys: leave out the key and the allow list";
                return Err(Error::new(ErrorKind::Options, line));
            }
            true => None,
            false => Some(SendSecurity { identity, allow }),
        };
        options.fec = options.default_fec();
        let session = Session::new(self.on_event, GroupEvent::Missed)?;
        Group::open(options, session, self.most_outstanding)
    }
}
