//! Advice on errors: which option helps against which error. Libraries say what happened and to what. Only this
//! crate knows the options.

use std::{borrow::Cow, error::Error};

use treecast::unstable::reason::{
    Advised, Instead, InterfaceError, KeyFileError, OptionsError, ReceiveError, Remedy, SendError,
    SessionFileError, Setting, TargetError, UdpError,
};
use treecast_driver::explicit;
use treecast_measure::monitor::MonitorError;

type Advice = Cow<'static, str>;

/// The one line that reports an error: what happened, to what, and what to do about it.
pub fn line(error: &(dyn Error + 'static)) -> String {
    let ours = error.downcast_ref::<treecast::Error>();
    let remedy = ours.and_then(treecast::Error::remedy).map(|remedy| option(remedy).into());
    match remedy.or_else(|| advice(ours.and_then(treecast::Error::cause).unwrap_or(error))) {
        Some(advice) => format!("{error}; {advice}"),
        None => error.to_string(),
    }
}

/// A warning or reason of a library, and after it the option that helps, if there is one.
pub fn advised(line: &Advised) -> String {
    line.remedy.map_or_else(|| line.to_string(), |remedy| format!("{line}; {}", option(remedy)))
}

/// The option that is a remedy.
fn option(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::OtherInterface => "--interface names one",
        Remedy::AddressedInterface => "name an interface that has an address with --interface",
        Remedy::Loopback => "for a session on this host alone, add --interface lo",
        Remedy::OtherFamily => "the sender's --group names one, such as 239.255.1.2 or ff15::1:2",
        Remedy::OtherFanout => "try --fanout unicast, or look for the place with `treecast doctor`",
        Remedy::FindLoss => "look for the place with `treecast doctor`",
        Remedy::OpenPorts => {
            "let the ports of docs/sending.md through, or look for the place with `treecast doctor`"
        }
        Remedy::TakeHidden => "take such files with --hidden",
        Remedy::NoSymbols => "the sender's --fec none does so",
        Remedy::RefusePlain => "--secure refuses such tickets",
        Remedy::ListKey => "that list is the sender's --allow",
        Remedy::ListNewKey => {
            "that list is the sender's --allow; --key default takes the key that `treecast keys new` makes"
        }
        Remedy::OwnKey => "--key default takes the key that it makes",
        Remedy::AdmitMore => "the sender's --per-address says how many come from one address",
        Remedy::Patience => "--connect-timeout gives that time",
        Remedy::Reconnect => "--reconnect gives that time, and Ctrl-C ends it",
        Remedy::ShorterBlocks => "--block gives their length",
        Remedy::FewerAddresses => "--max says how many",
        Remedy::GiveRoutersKey => "`treecast router run --key` takes it",
        Remedy::LongerQueue => "--spool-files and --spool-bytes let more wait",
        Remedy::NameOldVersion => "--old names it all the same",
        Remedy::NoOldVersion => "leave out --old",
        Remedy::EndCarousel => "--loops ends it after so many loops, and Ctrl-C at any time",
        Remedy::OtherRecord => "name another file with --state",
        Remedy::NameTicket => {
            "name the file that `treecast send --ticket-file` wrote, or give the ticket itself"
        }
        Remedy::OtherName => "name another with --announce",
        Remedy::OtherMetrics => "--metrics names it",
        Remedy::NoCode => "leave out --code, and pass on the ticket",
        Remedy::NoPort => "leave out --port",
        Remedy::NameFolder => "choose its folder with --into",
        Remedy::FewerGroups => "name fewer with --groups",
    }
}

fn advice(error: &(dyn Error + 'static)) -> Option<Advice> {
    let of_session = error.downcast_ref().and_then(send).or_else(|| error.downcast_ref().and_then(receive));
    let of_session = of_session.or_else(|| options(error.downcast_ref()?));
    let of_mead = error.downcast_ref().and_then(mead);
    let of_key = error.downcast_ref().and_then(key);
    let of_file = error.downcast_ref().and_then(target).or_else(|| error.downcast_ref().and_then(monitor));
    let of_network = error.downcast_ref().and_then(interface).or_else(|| error.downcast_ref().and_then(udp));
    let of_lab = lab(error);
    of_session.or(of_mead).or_else(|| of_key.or(of_file).or(of_network).or(of_lab).map(Cow::Borrowed))
}

fn send(error: &SendError) -> Option<Advice> {
    let advice = match error {
        SendError::Interface(error) => interface(error)?,
        SendError::Udp(error) => udp(error)?,
        SendError::Options(error) => return options(error),
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

fn options(error: &OptionsError) -> Option<Advice> {
    let advice = match error {
        OptionsError::Misfit { setting, instead, .. } => {
            return Some(other_options(*setting, *instead).into());
        }
        OptionsError::Feed { .. } => {
            "name a file or pipe of paths with `treecast send --feed`, or a folder with `treecast feed`"
        }
        OptionsError::Rates => {
            "name them with --rates from fast to slow, as 500M,100M,20M, or one with --rate"
        }
        OptionsError::Floor { .. } => "take a lower --rate-floor",
        OptionsError::AtLeast { .. } => "name fewer receivers with --wait-at-least, or more with --wait",
        OptionsError::LocalGroups(_) => "name it with --receivers, or correct the file of --local-groups",
        OptionsError::FecShare(_) => "name such a share with --fec, or auto",
        OptionsError::FecSize { .. } => "leave out --fec, or send it in parts",
        OptionsError::Lists(_) => "--interface names another interface, and --fanout another way",
        OptionsError::NoControl(_) => "name another interface with --interface, or an address with --control",
        OptionsError::SmallMtu { .. } => "--interface names one",
        _ => return None,
    };
    Some(advice.into())
}

/// What to leave out of options that do not go together, or what to take in its place.
fn other_options(setting: Setting, instead: Option<Instead>) -> String {
    let option = match setting {
        Setting::Fanout => "--fanout",
        Setting::Receivers => "--receivers",
        Setting::Rate => "--rate",
        Setting::RateFloor => "--rate-floor",
        Setting::Rates => "--rates",
        Setting::Fec => "--fec",
        Setting::Group => "--group",
        Setting::Session => "--session",
        Setting::Compression => "--compress",
        Setting::Difference => "--delta",
        Setting::Plain => "--plain",
        Setting::Keys => "--key and --allow",
        Setting::GiveUp => "--give-up-after",
    };
    let instead = match instead {
        None => return format!("leave out {option}"),
        Some(Instead::Multicast) => "take --fanout multicast",
        Some(Instead::OtherFanout) => "take another --fanout",
        Some(Instead::Receivers) => "name their addresses with --receivers",
        Some(Instead::Mending) => "take --repair nack, after or carousel",
        Some(Instead::Retransmissions) => "take --repair nack",
        Some(Instead::Number) => "name one that links bear with --rate, as 100M",
        Some(Instead::Following) => "take --rate auto",
        Some(Instead::Auto) => "take --fec auto",
        Some(Instead::OtherGroup) => "name another group",
        Some(Instead::NoKeys) => "--key and --allow",
        Some(Instead::NoCompression) => "--compress",
        Some(Instead::NoRates) => "--rates",
        Some(Instead::NoSymbols) => "--fec",
        Some(Instead::OwnPackets) => "--dialect iotup",
    };
    format!("leave out {option}, or {instead}")
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
        SessionFileError::Control(_) => Some("leave out --control, or name another file with --session"),
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
    match error {
        KeyFileError::Read { .. } => Some("name one with --key"),
        KeyFileError::NoKey { .. } => Some("--key default takes the key that it makes"),
        _ => None,
    }
}

fn monitor(error: &MonitorError) -> Option<&'static str> {
    let is_none = matches!(error, MonitorError::Read { .. } | MonitorError::NoRecording { .. });
    is_none.then_some("name a recording that `treecast monitor --out` made")
}

#[cfg(feature = "suite")]
fn lab(error: &(dyn Error + 'static)) -> Option<&'static str> {
    use treecast_lab::Error;
    let is_taken = |error: &Error| matches!(error, Error::Exists { .. } | Error::NamespaceTaken { .. });
    error.downcast_ref().is_some_and(is_taken).then_some("or pass another --name")
}

#[cfg(not(feature = "suite"))]
fn lab(_error: &(dyn Error + 'static)) -> Option<&'static str> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_of_a_library_is_worded_as_an_option() {
        let plain = Advised::by(Remedy::RefusePlain, "the session is plain");
        assert_eq!(advised(&plain), "the session is plain; --secure refuses such tickets");
        assert_eq!(advised(&"the disk is full".into()), "the disk is full");
    }
}
