//! The options of a group's builder for special kinds of sessions, and for what is sent from the beginning.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::{Duration, SystemTime},
};

use treecast_driver::send;
use treecast_host::clock::since_1970;

use super::{Fec, GroupBuilder, Priority, Special};
use crate::limits::{LONGEST_TIME, bounded};
use crate::unstable::options::{CarouselOptions, FeedSource, Listed, LocalOptions, Rule, Sharing};

/// # What is sent from the beginning
impl GroupBuilder {
    /// Sends this file, or all files of this folder, from the beginning. May be called several times.
    ///
    /// The session tells the end of each by [`GroupEvent::PathDone`](crate::GroupEvent::PathDone).
    pub fn path(mut self, path: impl Into<PathBuf>) -> Self {
        self.options.content.paths.push(path.into());
        self
    }

    /// Leaves out what matches this pattern in folders, as rsync's `--exclude` does. May be called several times. A pattern that
    /// begins with `/` matches the whole name of an object, any other one the last components of it. One that ends in `/` matches
    /// folders only. `*` and `?` stand for anything but `/`, and `**` between slashes for any number of folders.
    pub fn exclude(mut self, pattern: impl Into<String>) -> Self {
        self.excluded.push(pattern.into());
        self
    }

    /// Sends nothing if anything in a folder cannot be sent. Default: the session leaves it out, names it in a warning, and is not
    /// complete ([`GroupReport::is_complete`](crate::GroupReport::is_complete)).
    pub fn strict(mut self) -> Self {
        self.options.content.selection.is_strict = true;
        self
    }

    /// Sends what comes from this source while the session lasts, in place of what the program
    /// [sends](crate::Group::send).
    pub fn feed(mut self, source: FeedSource) -> Self {
        self.options.content.feed = Some(source);
        self
    }

    /// The terms on which objects of the [feed](Self::feed) are sent. The first rule that matches an object's name counts.
    pub fn feed_rules(mut self, mut rules: Vec<Rule>) -> Self {
        for rule in &mut rules {
            rule.terms.expires_after = rule.terms.expires_after.map(bounded);
        }
        self.options.content.feed_rules = rules;
        self
    }

    /// The number of the feed's newest objects that are done with, and that receivers which come late still get. Default: 0.
    pub fn kept_objects(mut self, objects: u32) -> Self {
        self.options.content.kept_objects = objects;
        self
    }

    /// Sends by difference: receivers that have an older version of an object fetch only what differs. All say what they lack
    /// before anything goes out, and that goes out once for all. Objects under 256 KiB go out whole.
    ///
    /// It is for [paths](Self::path), because an object is looked at before the session begins. [`Group::send`](crate::Group::send)
    /// refuses others. It goes with [`Repair::Nack`](crate::Repair::Nack), [`Repair::After`](crate::Repair::After) and carousels, and
    /// neither with compression nor with several rates.
    pub fn delta(mut self) -> Self {
        self.by_difference = true;
        self
    }

    /// Keeps the session's state in this file, so that the session can go on after a restart with the same ticket and the same
    /// [paths](Self::path). [`Group::send`](crate::Group::send) refuses other objects. The file holds a key.
    pub fn session(mut self, path: impl Into<PathBuf>) -> Self {
        self.options.session_file = Some(path.into());
        self
    }
}

/// How long a group waits for the results of commands, unless an option says otherwise: longer than a command may take by default.
const RESULTS_WAIT: Duration = Duration::from_secs(660);

/// # Kinds of sessions
impl GroupBuilder {
    /// A carousel: sends its [paths](Self::path) again and again, and hears nothing of its receivers.
    /// [`Group::send`](crate::Group::send) refuses other objects.
    pub fn carousel(mut self, mut options: CarouselOptions) -> Self {
        (options.idle, options.wait_timeout) = (bounded(options.idle), options.wait_timeout.map(bounded));
        self.special = Some(Special::Carousel(options));
        self
    }

    /// Local groups: receivers mend losses among themselves (LGMP). The [rate](Self::rate) is the highest one. Without one, or with
    /// [`Rate::Auto`](crate::Rate::Auto), it is 100 Mbit/s, and the sender takes about as much of a link as a TCP connection would.
    pub fn local_groups(mut self, mut options: LocalOptions) -> Self {
        options.deadline = options.deadline.map(bounded);
        self.special = Some(Special::Local(options));
        self
    }

    /// Several rates at once, in bits of IP packets a second, 2 to 8 of them from fast to slow. As many multicast groups carry the
    /// same objects. A receiver that loses too much of a faster group moves to a slower one. Replaces [`rate`](Self::rate).
    pub fn rates(mut self, rates_bps: Vec<u64>) -> Self {
        self.several_rates = Some(rates_bps);
        self
    }

    /// The standing receivers that the session is for: those of a list, or all that trust the [key](Self::key) if it is empty. The
    /// session is announced to them. With a list, it starts with all of them if they come within [`wait_timeout`](Self::wait_timeout),
    /// and waits for those that are missing at its end; nobody else is admitted, except people if it is
    /// [announced](Self::announce) to them, too. Each tells the group how its rule's command went, and the group ends when all have
    /// done so, or after [`results_wait`](Self::results_wait).
    pub fn to_standing(mut self, receivers: Vec<Listed>) -> Self {
        self.connected.listed = receivers;
        self.options.announce.get_or_insert_default().standing = true;
        self.connected.awaits_results.get_or_insert(RESULTS_WAIT);
        self
    }

    /// The time for which the session waits for missing [listed](Self::to_standing) receivers when all others are done. Default: a
    /// year; but 10 s for a name that no receiver has had in this session, which may be mistyped.
    pub fn listed_wait(mut self, time: Duration) -> Self {
        self.connected.listed_wait = Some(bounded(time));
        self
    }

    /// The longest time for which the session waits at its end for the results of the commands of [standing
    /// receivers](Self::to_standing). Default: 11 minutes, which is more than a command may take by default.
    pub fn results_wait(mut self, time: Duration) -> Self {
        self.connected.awaits_results = Some(bounded(time));
        self
    }
}

/// # Details
impl GroupBuilder {
    /// Forward error correction. Default: symbols as soon as several receivers have lost different
    /// packets, where that costs least.
    pub fn fec(mut self, fec: Fec) -> Self {
        self.fec = Some(fec.share());
        self
    }

    /// The lowest rate that receivers may force with [`Rate::Auto`](crate::Rate::Auto), [`Rate::Tfmcc`](crate::Rate::Tfmcc) and local
    /// groups, in bits of IP packets a second. Default: none.
    pub fn rate_floor(mut self, bps: u64) -> Self {
        self.floor_bps = Some(bps);
        self
    }

    /// The addresses of receivers that are known before they come: MEADcast routers are looked for on the paths to them, and a
    /// carousel sends its copies to them. Default: none.
    pub fn receivers(mut self, addresses: Vec<IpAddr>) -> Self {
        self.options.receivers = addresses;
        self
    }

    /// How receivers share packets of MEADcast and Xcast.
    pub fn sharing(mut self, sharing: Sharing) -> Self {
        self.options.sharing = sharing;
        self
    }

    /// The moment before which the session does not start. Receivers can come before. Default: none.
    pub fn start_at(mut self, moment: SystemTime) -> Self {
        let moment = moment.duration_since(SystemTime::UNIX_EPOCH).ok();
        self.options.start.start_at = moment.map(|moment| moment.min(since_1970() + LONGEST_TIME));
        self
    }

    /// The largest number of receivers from one address. Default: 256.
    pub fn per_address(mut self, receivers: u32) -> Self {
        self.connected.per_address = receivers;
        self
    }

    /// The order of multicast and retransmissions if the rate is not enough for both. Default: multicast first.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.connected.priority = match priority {
            Priority::Multicast => send::Priority::Multicast,
            Priority::Fair => send::Priority::Fair,
        };
        self
    }

    /// The time of silence after which a receiver that owes an answer has failed, at least
    /// [`LEAST_STALL_LIMIT`](crate::limits::LEAST_STALL_LIMIT). Default: 120 s.
    pub fn stall_limit(mut self, time: Duration) -> Self {
        self.connected.stall_limit = bounded(time);
        self
    }

    /// The bytes of an object in each packet, 580 or more. Default: as many as the interface's MTU allows.
    pub fn block(mut self, bytes: u16) -> Self {
        self.options.network.block_len = Some(bytes);
        self
    }

    /// Answers Prometheus at `http://ADDRESS/metrics`. Default: no answer.
    pub fn metrics(mut self, address: SocketAddr) -> Self {
        self.observed.metrics = Some(address);
        self
    }

    /// Answers `treecast status` of the same user. Default: no answer.
    pub fn answer_status(mut self) -> Self {
        self.observed.status = true;
        self
    }
}
