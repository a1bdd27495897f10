//! Combinations of options that cannot work together.

use std::io::{self, IsTerminal};

use treecast::unstable::options::FeedSource;

use super::{Dialect, Fanout, Repair, SessionArgs, asks_for_fec, is_carousel, is_stream, local, standing};

/// Whether a combination of options is refused, and what to do about it.
type Refusal = (bool, &'static str);

/// Refuses combinations of options that cannot work together.
pub(super) fn check(args: &SessionArgs) -> Result<(), String> {
    check_stream(args)?;
    if args.spool.is_some() && !is_stream(args) {
        return Err("--spool keeps standard input: name - in place of files, or leave it out".into());
    }
    standing::check(args)?;
    let refused = refused(args).into_iter().chain(refused_by_iotup(args)).chain(refused_by_fanout(args));
    let mut refused = refused.chain(refused_by_delta(args));
    refused.find(|(is_refused, _)| *is_refused).map_or(Ok(()), |(_, why)| Err(why.to_owned()))?;
    refused_by_carousel(args).filter(|_| is_carousel(args)).map_or(Ok(()), Err)?;
    local::check(args)?;
    check_sharing(args)
}

/// Refuses what cannot go with standard input as the one thing that is sent.
fn check_stream(args: &SessionArgs) -> Result<(), String> {
    let refused = [
        (args.paths.len() > 1, "standard input is sent alone: name no files beside -"),
        (args.feed.is_some(), "standard input is sent alone: leave out --feed, or -"),
        (args.session.is_some(), "standard input cannot be read again: leave out --session, or name a file"),
        (
            is_carousel(args),
            "a carousel sends its files again and again, and standard input is read once: name a file",
        ),
        (
            io::stdin().is_terminal(),
            "standard input is a terminal: let a program or a file write to it, as in `tar c DIR | treecast send -`",
        ),
    ];
    let refused = refused.into_iter().find(|(is_refused, _)| *is_refused);
    refused.filter(|_| is_stream(args)).map_or(Ok(()), |(_, why)| Err(why.to_owned()))
}

fn refused(args: &SessionArgs) -> [Refusal; 12] {
    let is_carousel = is_carousel(args);
    let mends = !is_carousel && matches!(args.repair, Repair::Nack | Repair::After);
    [
        (
            (args.plain || args.dialect == Dialect::Iotup)
                && (args.announce.is_some() || args.to_standing.is_some()),
            "an announcement is signed, and a plain session has no key: leave out --announce, or --plain and --dialect iotup",
        ),
        (
            args.session.is_some()
                && args.feed.as_ref().is_some_and(|feed| !matches!(feed.source, FeedSource::Folder(_))),
            "what came by --feed cannot be told again: leave out --feed or --session, or send a folder with `treecast feed DIR`",
        ),
        (
            args.feed.as_ref().is_some_and(|feed| feed.kept > 0) && !mends,
            "--keep needs retransmissions to single receivers: leave it out, or take --repair nack or after",
        ),
        (
            args.spool.is_some() && !mends,
            "--spool needs retransmissions to single receivers: leave it out, or take --repair nack or after",
        ),
        (
            args.rates.is_some() && (args.rate.is_some() || args.rate_floor.is_some()),
            "--rates says all that --rate and --rate-floor could: leave these out, or --rates",
        ),
        (
            !is_carousel && args.idle.is_some(),
            "--idle is for a carousel: leave it out, or add --repair carousel",
        ),
        (
            !is_carousel && args.loops.is_some(),
            "--loops is for a carousel: leave it out, or add --repair carousel",
        ),
        (
            !mends && args.retx_factor.is_some(),
            "--retx-factor bounds retransmissions, and there are none: leave it out, or take --repair nack or after",
        ),
        (
            args.give_up_after.is_some()
                && (args.feed.is_some() || is_carousel || args.repair == Repair::Local),
            "--give-up-after needs receivers that say when they have everything, and an end: leave it out with --feed, \
             --repair carousel and --repair local",
        ),
        (
            args.report.is_some() && (is_carousel || args.repair == Repair::Local),
            "--report has a row for each receiver, and senders of carousels and local groups do not know them one by one: leave it out",
        ),
        (
            !mends && args.priority.is_some(),
            "--priority is between multicast and retransmissions, and there are none: leave it out, or take --repair \
             nack or after",
        ),
        (
            args.retx_factor.is_none() && args.retx_minimum.is_some(),
            "--retx-minimum is the least that --retx-factor comes to: leave it out, or add --retx-factor",
        ),
    ]
}

/// Options that the IoT updater's packets have no field for.
fn refused_by_iotup(args: &SessionArgs) -> [Refusal; 6] {
    let is_iotup = args.dialect == Dialect::Iotup;
    let has_keys = args.key.is_some() || args.allow.is_some();
    [
        (is_iotup && has_keys, "the IoT updater's packets know no keys: leave out --key and --allow"),
        (is_iotup && args.code, "the IoT updater has no ticket that a code could get: leave out --code"),
        (
            is_iotup && args.session.is_some(),
            "the IoT updater knows no sessions, and its sender can be started again as it is: leave out --session",
        ),
        (
            is_iotup && asks_for_fec(args),
            "the IoT updater knows no repair symbols: leave out --fec, or --dialect iotup",
        ),
        (
            is_iotup && args.repair == Repair::Local,
            "the IoT updater knows no local groups: leave out --repair local, or --dialect iotup",
        ),
        (
            !is_iotup && args.hash.is_some(),
            "--hash is for the IoT updater's frames: leave it out, or add --dialect iotup",
        ),
    ]
}

/// Options that do not go with updates by difference.
fn refused_by_delta(args: &SessionArgs) -> [Refusal; 6] {
    let asks = matches!(args.repair, Repair::Nack | Repair::After) && args.dialect == Dialect::Session;
    let refused = [
        (
            args.dialect == Dialect::Iotup,
            "the IoT updater's frames carry whole files: leave out --delta, or --dialect iotup",
        ),
        (
            !asks && !is_carousel(args),
            "--delta needs receivers that say what they lack: leave it out, or take --repair nack, after or carousel",
        ),
        (
            args.compress.is_some(),
            "--delta compares files as they are, and --compress changes them: leave out one of both",
        ),
        (
            args.feed.is_some() || is_stream(args),
            "--delta looks at a file before it is sent, and a feed or standard input is not there yet: leave it out, or name files",
        ),
        (
            asks && args.rates.is_some(),
            "with --delta all receivers get what is lacking in one group: leave out --delta or --rates",
        ),
        (
            asks && asks_for_fec(args),
            "--delta sends only parts of a file, and repair symbols stand for whole parts: leave out --delta or --fec",
        ),
    ];
    refused.map(|(is_refused, why)| (is_refused && args.delta, why))
}

/// Options that need answers of receivers.
fn refused_by_carousel(args: &SessionArgs) -> Option<String> {
    let has_group = matches!(args.fanout, Fanout::Multicast | Fanout::Auto);
    let unseen = "a carousel cannot see who listens";
    let uncounted = "a carousel starts at the first listener and cannot count them";
    let options = [
        (args.allow.is_some(), unseen, "--allow, and give its ticket to nobody else"),
        (args.expires.is_some(), unseen, "--expires"),
        (args.control.is_some(), "a carousel takes no control connections", "--control"),
        (args.start.wait.is_some(), uncounted, "--wait"),
        (args.start.wait_at_least.is_some(), uncounted, "--wait-at-least"),
        (args.start.start_at.is_some(), "a carousel starts at the first listener", "--start-at"),
        (args.start.per_address.is_some(), unseen, "--per-address"),
        (args.linger.is_some(), "a carousel waits for nobody who has broken off", "--linger"),
        (args.feed.is_some(), "a carousel sends what it began with", "--feed"),
        (args.stall_limit.is_some(), "a carousel cannot see who has stalled", "--stall-limit"),
        (args.at_once.is_some(), "a carousel sends one file behind the other", "--at-once"),
    ];
    if let Some((_, why, option)) = options.iter().find(|(is_given, ..)| *is_given) {
        return Some(format!("{why}: leave out {option}"));
    }
    let nowhere = "nobody tells a carousel where its receivers are: name their addresses with --receivers, or take --fanout \
                   multicast";
    (!has_group && args.receivers.is_none()).then(|| nowhere.to_owned())
}

/// Options that have no effect with the chosen fanout.
fn refused_by_fanout(args: &SessionArgs) -> [Refusal; 6] {
    let has_group = matches!(args.fanout, Fanout::Multicast | Fanout::Auto);
    let is_copied = is_copied(args);
    let takes_names = is_carousel(args) && args.fanout != Fanout::Multicast;
    [
        (
            is_carousel(args) && !takes_names && args.receivers.is_some(),
            "--receivers names where a carousel's copies go, and multicast makes none: leave it out, or take another --fanout",
        ),
        (
            !is_copied && !takes_names && args.receivers.is_some(),
            "--receivers names where MEADcast is to reach: leave it out, or take --fanout mead or auto",
        ),
        (
            !is_copied && args.fanout != Fanout::Xcast && args.domain_key.is_some(),
            "--domain-key is that of MEADcast and Xcast routers: leave it out, or take --fanout mead, xcast or auto",
        ),
        (
            !is_copied && args.mead_dialect.is_some(),
            "--mead-dialect is of MEADcast's headers: leave it out, or take --fanout mead or auto",
        ),
        (
            !has_group && args.group.is_some(),
            "unicast, MEADcast and Xcast need no group: leave out --group, or take --fanout auto",
        ),
        (
            !has_group && args.source.is_some(),
            "unicast, MEADcast and Xcast have no multicast source: leave out --source, or take --fanout auto",
        ),
    ]
}

/// Whether receivers may get MEADcast packets.
fn is_copied(args: &SessionArgs) -> bool {
    matches!(args.fanout, Fanout::Mead | Fanout::Auto)
}

/// Refuses options for shared packets that have no effect with the chosen fanout.
fn check_sharing(args: &SessionArgs) -> Result<(), String> {
    // Xcast makes its lists from the addresses alone, so only their length can be chosen.
    let is_xcast = args.fanout == Fanout::Xcast;
    if let Some(option) = args.sharing.named_but_max().filter(|_| is_xcast) {
        return Err(format!("{option} is of MEADcast: leave it out, or take --fanout mead or auto"));
    }
    if let Some(option) = args.sharing.named().filter(|_| !is_copied(args) && !is_xcast) {
        return Err(format!(
            "{option} says how receivers share MEADcast packets: leave it out, or take --fanout mead or auto"
        ));
    }
    match args.sharing.limit_of_the_thesis() {
        Some(option) if !args.sharing.is_by_thesis() => Err(format!(
            "{option} limits the thesis' groups, and those of the least cost have none: leave it out, or add --grouping thesis"
        )),
        _ => Ok(()),
    }
}
