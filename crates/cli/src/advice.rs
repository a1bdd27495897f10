//! Advice on errors: which option helps against which error. Libraries say what happened and to what. Only this
//! crate knows the options.

use std::{borrow::Cow, error::Error};

use treecast::reason::{
    InterfaceError, KeyFileError, OptionsError, ReceiveError, SendError, SessionFileError, TargetError,
    UdpError, remedies,
};
use treecast_driver::explicit;
use treecast_measure::monitor::MonitorError;

type Advice = Cow<'static, str>;

/// The one line that reports an error: what happened, to what, and what to do about it.
pub fn line(error: &(dyn Error + 'static)) -> String {
    let cause = error.downcast_ref().and_then(treecast::Error::cause);
    match advice(cause.unwrap_or(error)) {
        Some(advice) => format!("{error}; {advice}"),
        None => with_option(&error.to_string()),
    }
}

/// What libraries tell of in words, and the option that helps.
const OPTIONS: [(&str, &str); 30] = [
    (
        "cannot read the ticket from",
        "name the file that `treecast send --ticket-file` wrote, or give the ticket itself",
    ),
    ("cannot keep what has been sent in", "name another file with --state"),
    ("cannot listen for announcements", "name an interface that has an address with --interface"),
    ("the session cannot be announced as", "name another with --announce"),
    ("cannot answer Prometheus at", "--metrics names it"),
    ("cannot offer the ticket for a code", "leave out --code, and pass on the ticket"),
    ("a carousel comes to the port of its multicast group", "leave out --port"),
    ("and no older version is of use", "leave out --old"),
    ("is no plain name for a file", "choose its folder with --into"),
    ("group addresses from", "name fewer with --groups"),
    ("whether anybody listens or not", "--loops ends it after so many loops, and Ctrl-C at any time"),
    ("never leaves its host", "for a session on this host alone, add --interface lo"),
    ("no receiver hears the group", "try --fanout unicast, or look for the place with `treecast doctor`"),
    ("a firewall, a router or a switch drops them on the way", "look for the place with `treecast doctor`"),
    (
        "no receiver gets the UDP packets",
        "let the ports of docs/sending.md through, or look for the place with `treecast doctor`",
    ),
    (remedies::HIDDEN, "take such files with --hidden"),
    (remedies::WITHOUT_SYMBOLS, "the sender's --fec none does so"),
    (remedies::PLAIN, "--secure refuses such tickets"),
    (remedies::NOT_LISTED, "that list is the sender's --allow"),
    (remedies::OWN_KEY, "--key default takes the key that it makes"),
    (remedies::PER_ADDRESS, "the sender's --per-address admits more"),
    (remedies::SILENT, "--connect-timeout gives that time"),
    (remedies::OTHER_INTERFACE, "--interface names one"),
    (remedies::OTHER_FAMILY, "the sender's --group names one, such as 239.255.1.2 or ff15::1:2"),
    ("so nothing is copied from it", "--old names it all the same"),
    (remedies::SHORTER_BLOCKS, "--block gives their length"),
    (remedies::FEWER_ADDRESSES, "--max says how many"),
    ("the sender is looked for again for", "--reconnect gives that time, and Ctrl-C ends it"),
    (remedies::SPOOL_FULL, "--spool-files and --spool-bytes let more wait"),
    (remedies::ROUTER_KEY, "`treecast router run --key` takes it"),
];

/// A warning or reason of a library, and after it the option that helps, if there is one. What has passed here before stays as it is.
pub fn with_option(said: &str) -> String {
    let advice = OPTIONS.iter().filter(|(phrase, advice)| said.contains(phrase) && !said.contains(advice));
    advice.fold(said.to_owned(), |line, (_, advice)| format!("{line}; {advice}"))
}

fn advice(error: &(dyn Error + 'static)) -> Option<Advice> {
    let of_session = error.downcast_ref().and_then(send).or_else(|| error.downcast_ref().and_then(receive));
    let of_session = of_session.or_else(|| Some(Cow::Borrowed(options(error.downcast_ref()?)?)));
    let of_mead = error.downcast_ref().and_then(mead);
    let of_key = error.downcast_ref().and_then(key);
    let of_file = error.downcast_ref().and_then(target).or_else(|| error.downcast_ref().and_then(monitor));
    let of_network = error.downcast_ref().and_then(interface).or_else(|| error.downcast_ref().and_then(udp));
    let of_lab = error.downcast_ref().and_then(lab);
    of_session.or(of_mead).or_else(|| of_key.or(of_file).or(of_network).or(of_lab).map(Cow::Borrowed))
}

fn send(error: &SendError) -> Option<Advice> {
    let advice = match error {
        SendError::Interface(error) => interface(error)?,
        SendError::Udp(error) => udp(error)?,
        SendError::Options(error) => options(error)?,
        SendError::SessionFile(error) => session_file(error)?,
        SendError::PortInUse { .. } => {
            "choose another with --control, or none; or, with --session, end that session first, if it is still running"
        }
        SendError::NoListener { .. } => "start receivers, or wait longer with --wait-timeout",
        SendError::Listen { .. } => "choose an address of this host with --control",
        SendError::NoReceivers { joined, at_least, .. } => {
            let wait = "start them with the ticket, or wait longer with --wait-timeout";
            return Some(match (joined, at_least) {
                (0, None) => wait.into(),
                (_, None) => format!("{wait}; --wait-at-least starts with fewer").into(),
                (_, Some(at_least)) => format!("{wait}; --wait-at-least asks for {at_least}").into(),
            });
        }
        _ => return None,
    };
    Some(advice.into())
}

fn options(error: &OptionsError) -> Option<&'static str> {
    Some(match error {
        OptionsError::Feed { .. } => {
            "name a file or pipe of paths with `treecast send --feed`, or a folder with `treecast feed`"
        }
        OptionsError::Rates => {
            "name them with --rates from fast to slow, as 500M,100M,20M, or one with --rate"
        }
        OptionsError::RatesWithoutGroup => "leave out --rates, or take --fanout multicast",
        OptionsError::RatesUnmended => "take --repair nack, after or carousel",
        OptionsError::TooFewGroups => "name another with --group",
        OptionsError::CarouselRate => "name a --rate that their links bear",
        OptionsError::CarouselReceivers(_) => "name their addresses with --receivers",
        OptionsError::NamedReceivers => "leave out --receivers, or take another --fanout",
        OptionsError::IotupFanout => "take --fanout multicast",
        OptionsError::LocalGroupSize(_) => {
            "divide it in the file of --local-groups, or take --fanout multicast"
        }
        OptionsError::LocalRate => "name the highest with --rate, as 100M",
        OptionsError::LocalTfmcc => "leave out --rate, or take --repair nack",
        OptionsError::Floor { .. } => "take a lower --rate-floor",
        OptionsError::FloorWithoutAuto => "leave out --rate-floor, or take --rate auto",
        OptionsError::PlainKeys => "leave out --plain, or --key and --allow",
        OptionsError::AtLeast { .. } => "name fewer receivers with --wait-at-least, or more with --wait",
        OptionsError::LocalRates => "leave out --rates, and name one with --rate",
        OptionsError::LocalFec => "leave out --fec",
        OptionsError::Compression => "leave out --compress",
        OptionsError::LocalSession => "leave out --session",
        OptionsError::LocalGroup => "name another with --group, or leave it out",
        OptionsError::LocalGroups(_) => "name it with --receivers, or correct the file of --local-groups",
        OptionsError::FecShare(_) => "name such a share with --fec, or auto",
        OptionsError::CarouselShare => "take --fec auto",
        OptionsError::FecSize { .. } => "leave out --fec, or send it in parts",
        OptionsError::Lists(_) => "--interface names another interface, and --fanout another way",
        OptionsError::NoControl(_) => "name another interface with --interface, or an address with --control",
        OptionsError::SmallMtu { .. } => "--interface names one",
        OptionsError::OtherControl(_) => "leave out --control, or name another file with --session",
        _ => return None,
    })
}

fn receive(error: &ReceiveError) -> Option<Advice> {
    let advice = match error {
        ReceiveError::Target(error) => target(error)?,
        ReceiveError::Interface(error) => interface(error)?,
        ReceiveError::Udp(error) => udp(error)?,
        ReceiveError::PortInUse { .. } => "name another with --port, or leave it out",
        ReceiveError::NoPort { .. } => "leave out --port (the sender's --group names the port)",
        ReceiveError::Plain => "--secure refuses it: ask for one that `treecast send` prints without --plain",
        ReceiveError::NoGroups => "name it with --local-groups",
        ReceiveError::NotStatic => "leave out --local-groups",
        ReceiveError::NoMembers => "leave out --must-send",
        ReceiveError::Groups(_) => "correct the file of --local-groups, or choose another --interface",
        ReceiveError::Name { .. } => "give another with --name",
        _ => return None,
    };
    Some(advice.into())
}

fn mead(error: &explicit::Error) -> Option<Advice> {
    use explicit::{Error, TunError};
    let advice = match error {
        Error::Device(_) => "name another with --tun-address, which no host has",
        Error::Nobody => "name one, or a file with --members",
        Error::Members { .. } => {
            "name a file with a receiver's address a line with --members (--ports allows ports of their own)"
        }
        Error::Registrations { .. } => "does another sender run there with --group?",
        Error::NoAddress(_) => "give it one, or name one with --address",
        Error::Ok { max, .. } => {
            return Some(format!("name 2 to {max} with --ok, or a larger --max").into());
        }
        Error::Interface(error) => interface(error)?,
        Error::Tun(TunError::Create { .. }) => "be root, or name another with --tun",
        Error::Tun(TunError::Taken(_)) => "name another address with --tun-address",
        _ => return None,
    };
    Some(advice.into())
}

fn session_file(error: &SessionFileError) -> Option<&'static str> {
    match error {
        SessionFileError::Read { .. } | SessionFileError::Foreign { .. } => {
            Some("name another with --session")
        }
        SessionFileError::Write { .. } => Some("name one in a folder that you may write to with --session"),
        SessionFileError::Taken { .. } => Some("start again, or name another file with --session"),
        SessionFileError::Options { .. } => Some(
            "start the sender so again (--fanout, --repair, --fec, --group, --rates, --source, --plain, --key, \
             --allow, --expires and --block as then), or name another file with --session",
        ),
        SessionFileError::Expired { .. } => {
            Some("set the clock if it is wrong, or name another file with --session to begin anew")
        }
        SessionFileError::Objects { .. } => {
            Some("name the same ones in the same order, or another file with --session")
        }
        SessionFileError::Changed { .. } => {
            Some("put it back as it was, or name another file with --session to send it anew")
        }
        SessionFileError::Exposed { .. } => None,
    }
}

fn target(error: &TargetError) -> Option<&'static str> {
    matches!(error, TargetError::Folder { .. }).then_some("name one that you may write to with --into")
}

fn interface(error: &InterfaceError) -> Option<&'static str> {
    Some(match error {
        InterfaceError::None => "name one with --interface",
        InterfaceError::Missing { .. } | InterfaceError::Down { .. } | InterfaceError::NoAddress { .. } => {
            "--interface names another"
        }
        _ => return None,
    })
}

fn udp(error: &UdpError) -> Option<&'static str> {
    matches!(error, UdpError::Interface { .. }).then_some("choose another with --interface")
}

fn key(error: &KeyFileError) -> Option<&'static str> {
    matches!(error, KeyFileError::Read { .. }).then_some("name one with --key")
}

fn monitor(error: &MonitorError) -> Option<&'static str> {
    let is_none = matches!(error, MonitorError::Read { .. } | MonitorError::NoRecording { .. });
    is_none.then_some("name a recording that `treecast monitor --out` made")
}

fn lab(error: &treecast_lab::Error) -> Option<&'static str> {
    use treecast_lab::Error;
    matches!(error, Error::Exists { .. } | Error::NamespaceTaken { .. }).then_some("or pass another --name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_library_says_in_words_gets_the_option_that_helps() {
        assert!(
            with_option(remedies::PLAIN).ends_with("nobody proves who he is; --secure refuses such tickets")
        );
        let refused =
            "it is not listed: make one with `treecast keys new`, and have it added to the allow list";
        let line = with_option(refused);
        assert!(line.contains("--allow") && line.contains("--key default"), "{line}");
        assert_eq!(with_option("the disk is full"), "the disk is full");
    }
}
