//! Options that have no effect beside others: those that other kinds of sessions have, and those that other options replace.
//! What contradicts each other is refused by the library.

use std::io::{self, IsTerminal};

use treecast::unstable::options::FeedSource;

use super::{
    Dialect, Fanout, Refusal, Repair, SessionArgs, is_carousel, is_stream, local::Mode, refuse_first,
    standing,
};

/// Refuses options that would have no effect.
pub(super) fn check(args: &SessionArgs) -> Result<(), String> {
    check_stream(args)?;
    standing::check(args)?;
    refuse_first(&refused(args))?;
    for Foreign { is_foreign, why, options, otherwise } in foreign(args) {
        if let Some((_, option)) = options.into_iter().find(|(is_given, _)| is_foreign && *is_given) {
            return Err(format!("{why}: leave out {option}{otherwise}"));
        }
    }
    check_sharing(args)
}

/// Options that only some sessions have.
struct Foreign {
    /// Whether this session has them not.
    is_foreign: bool,
    why: &'static str,
    /// Whether each is given, and its name.
    options: Vec<(bool, &'static str)>,
    /// What else can be done than to leave them out, behind a comma.
    otherwise: &'static str,
}

/// Options of other kinds of sessions.
fn foreign(args: &SessionArgs) -> impl Iterator<Item = Foreign> {
    let kinds = foreign_to_carousels(args).into_iter().chain(foreign_to_local_groups(args));
    kinds.chain(foreign_to_connections(args)).chain(foreign_to_packets(args)).chain(foreign_to_fanouts(args))
}

/// Options that need connections of receivers.
fn of_connections(args: &SessionArgs) -> Vec<(bool, &'static str)> {
    let SessionArgs { mending, start, network, .. } = args;
    vec![
        (network.control.is_some(), "--control"),
        (start.per_address.is_some(), "--per-address"),
        (mending.linger.is_some(), "--linger"),
        (mending.stall_limit.is_some(), "--stall-limit"),
        (mending.at_once.is_some(), "--at-once"),
        (start.start_at.is_some(), "--start-at"),
    ]
}

/// Options that say whom the sender keeps out.
fn of_admission(args: &SessionArgs) -> Vec<(bool, &'static str)> {
    vec![(args.security.allow.is_some(), "--allow"), (args.security.expires.is_some(), "--expires")]
}

fn foreign_to_carousels(args: &SessionArgs) -> [Foreign; 4] {
    let row = |why, options, otherwise| Foreign { is_foreign: is_carousel(args), why, options, otherwise };
    let counted =
        vec![(args.start.wait.is_some(), "--wait"), (args.start.wait_at_least.is_some(), "--wait-at-least")];
    [
        row("a carousel cannot see who listens", of_admission(args), ""),
        row("a carousel starts at the first listener and cannot count them", counted, ""),
        row(
            "to a carousel nobody connects, it starts at the first listener, and sends its files one behind the other",
            of_connections(args),
            ", or take --repair nack",
        ),
        row("a carousel sends what it began with", vec![(args.sent.feed.is_some(), "--feed")], ""),
    ]
}

fn foreign_to_local_groups(args: &SessionArgs) -> [Foreign; 4] {
    let local = &args.local;
    let is_local = args.repair == Repair::Local;
    let row = |is_foreign, why, options, otherwise| Foreign { is_foreign, why, options, otherwise };
    [
        row(
            is_local,
            "in a session with local groups, nobody connects to the sender",
            of_connections(args),
            ", or take --repair nack",
        ),
        row(
            is_local,
            "the ticket of a session with local groups holds its secret, so the sender cannot keep anybody out who has it",
            of_admission(args),
            ", or take --repair nack",
        ),
        row(
            !is_local,
            "this session has no local groups",
            vec![
                (local.local_mode.is_some(), "--local-mode"),
                (local.local_groups.is_some(), "--local-groups"),
                (local.deadline.is_some(), "--deadline"),
                (local.repair_rate.is_some(), "--repair-rate"),
                (local.congestion_loss.is_some(), "--congestion-loss"),
            ],
            ", or add --repair local",
        ),
        row(
            local.local_mode == Some(Mode::Sender),
            "in the mode sender there is one group",
            vec![(local.local_groups.is_some(), "--local-groups")],
            ", or take another --local-mode",
        ),
    ]
}

fn foreign_to_connections(args: &SessionArgs) -> [Foreign; 3] {
    let (is_carousel, ring, mending) = (is_carousel(args), &args.ring, &args.mending);
    let mends = !is_carousel && matches!(args.repair, Repair::Nack | Repair::After);
    [
        Foreign {
            is_foreign: !mends,
            why: "this session has no retransmissions to single receivers",
            options: vec![
                (mending.retx_factor.is_some(), "--retx-factor"),
                (mending.priority.is_some(), "--priority"),
                (args.sent.feed.as_ref().is_some_and(|feed| feed.kept > 0), "--keep"),
                (args.sent.spool.is_some(), "--spool"),
            ],
            otherwise: ", or take --repair nack or after",
        },
        Foreign {
            is_foreign: is_carousel || args.repair == Repair::Local,
            why: "senders of carousels and local groups do not know their receivers one by one",
            options: vec![(args.show.report.is_some(), "--report")],
            otherwise: "",
        },
        Foreign {
            is_foreign: !is_carousel,
            why: "only a carousel ends so",
            options: vec![(ring.idle.is_some(), "--idle"), (ring.loops.is_some(), "--loops")],
            otherwise: ", or add --repair carousel",
        },
    ]
}

fn foreign_to_packets(args: &SessionArgs) -> [Foreign; 2] {
    let is_iotup = args.ring.dialect == Dialect::Iotup;
    [
        Foreign {
            is_foreign: !is_iotup,
            why: "only the IoT updater's frames hold a hash of this kind",
            options: vec![(args.ring.hash.is_some(), "--hash")],
            otherwise: ", or add --dialect iotup",
        },
        Foreign {
            is_foreign: is_iotup,
            why: "the IoT updater has no ticket that a code could get, and no local groups",
            options: vec![(args.invite.code, "--code"), (args.repair == Repair::Local, "--repair local")],
            otherwise: ", or --dialect iotup",
        },
    ]
}

fn foreign_to_fanouts(args: &SessionArgs) -> [Foreign; 3] {
    let (ways, network) = (&args.ways, &args.network);
    [
        Foreign {
            is_foreign: !matches!(ways.fanout, Fanout::Multicast | Fanout::Auto),
            why: "unicast, MEADcast and Xcast need no group",
            options: vec![(network.group.is_some(), "--group"), (network.source.is_some(), "--source")],
            otherwise: ", or take --fanout auto",
        },
        Foreign {
            is_foreign: !is_copied(args),
            why: "no packets of MEADcast are sent",
            options: vec![
                (ways.receivers.is_some() && !is_carousel(args), "--receivers"),
                (ways.mead_dialect.is_some(), "--mead-dialect"),
            ],
            otherwise: ", or take --fanout mead or auto",
        },
        Foreign {
            is_foreign: !is_copied(args) && ways.fanout != Fanout::Xcast,
            why: "no routers make copies of this session's packets",
            options: vec![(ways.domain_key.is_some(), "--domain-key")],
            otherwise: ", or take --fanout mead, xcast or auto",
        },
    ]
}

/// Whether receivers may get MEADcast packets.
fn is_copied(args: &SessionArgs) -> bool {
    matches!(args.ways.fanout, Fanout::Mead | Fanout::Auto)
}

/// Refuses what cannot go with standard input as the one thing that is sent.
fn check_stream(args: &SessionArgs) -> Result<(), String> {
    if !is_stream(args) {
        let line = "--spool keeps standard input: name - in place of files, or leave it out";
        return if args.sent.spool.is_some() { Err(line.to_owned()) } else { Ok(()) };
    }
    refuse_first(&[
        (args.sent.paths.len() > 1, "standard input is sent alone: name no files beside -"),
        (args.sent.feed.is_some(), "standard input is sent alone: leave out --feed, or -"),
        (args.session.is_some(), "standard input cannot be read again: leave out --session, or name a file"),
        (
            is_carousel(args),
            "a carousel sends its files again and again, and standard input is read once: name a file",
        ),
        (
            io::stdin().is_terminal(),
            "standard input is a terminal: let a program or a file write to it, as in `tar c DIR | treecast send -`",
        ),
    ])
}

fn refused(args: &SessionArgs) -> [Refusal; 4] {
    let feed = args.sent.feed.as_ref().map(|feed| &feed.source);
    [
        (
            (args.security.plain || args.ring.dialect == Dialect::Iotup)
                && (args.invite.announce.is_some() || args.invite.to_standing.is_some()),
            "an announcement is signed, and a plain session has no key: leave out --announce, or --plain and --dialect iotup",
        ),
        (
            args.session.is_some() && feed.is_some_and(|source| !matches!(source, FeedSource::Folder(_))),
            "what came by --feed cannot be told again: leave out --feed or --session, or send a folder with `treecast feed DIR`",
        ),
        (
            args.pace.rates.is_some() && (args.pace.rate.is_some() || args.pace.rate_floor.is_some()),
            "--rates says all that --rate and --rate-floor could: leave these out, or --rates",
        ),
        (
            args.mending.retx_factor.is_none() && args.mending.retx_minimum.is_some(),
            "--retx-minimum is the least that --retx-factor comes to: leave it out, or add --retx-factor",
        ),
    ]
}

/// Refuses options for shared packets that have no effect with the chosen fanout.
fn check_sharing(args: &SessionArgs) -> Result<(), String> {
    // Xcast makes its lists from the addresses alone, so only their length can be chosen.
    let is_xcast = args.ways.fanout == Fanout::Xcast;
    if let Some(option) = args.ways.sharing.named_but_max().filter(|_| is_xcast) {
        return Err(format!("{option} is of MEADcast: leave it out, or take --fanout mead or auto"));
    }
    if let Some(option) = args.ways.sharing.named().filter(|_| !is_copied(args) && !is_xcast) {
        return Err(format!(
            "{option} says how receivers share MEADcast packets: leave it out, or take --fanout mead or auto"
        ));
    }
    match args.ways.sharing.limit_of_the_thesis() {
        Some(option) if !args.ways.sharing.is_by_thesis() => Err(format!(
            "{option} limits the thesis' groups, and those of the least cost have none: leave it out, or add --grouping thesis"
        )),
        _ => Ok(()),
    }
}
