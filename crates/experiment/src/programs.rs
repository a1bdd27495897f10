//! Makes the command lines of the programs that deliver files.

use std::{
    ffi::OsStr,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    document::{
        delivery::{Delivery, Fanout, Program},
        network::Attachment,
        other::{Other, Values},
        rate::SendRate,
    },
    server::Opening,
    ssh::{self, Ssh},
};

/// The port at which the unicast servers listen, each at a node of its own.
pub const UNICAST_PORT: u16 = 4242;

/// The program of uftp that sends.
pub const UFTP: &str = "uftp";

/// The settings that all programs of a delivery share.
pub struct Programs<'a> {
    /// The treecast program.
    pub treecast: &'a Path,
    /// The keys and configuration for ssh, when a delivery of the experiment uses it.
    pub ssh: Option<&'a Ssh>,
    pub delivery: &'a Delivery,
    /// The interface and addresses of the server.
    pub server: Attachment,
    /// The addresses of all receivers.
    pub receivers: Vec<IpAddr>,
    pub rate: SendRate,
    pub plain: bool,
    /// The file that fixes the local groups by hand.
    pub groups: Option<PathBuf>,
}

impl Programs<'_> {
    /// Returns the command of a session's server, whose command line ends with `arguments` and the source. It waits for its
    /// receivers at most for `patience`.
    pub fn server(
        &self,
        source: &Path,
        arguments: &[String],
        opening: Opening,
        patience: Duration,
    ) -> Command {
        match self.delivery.program {
            Program::Tcp | Program::Udp => self.unicast("server", source),
            Program::Scp => self.ssh.map_or_else(none, Ssh::server),
            Program::Uftp => none(),
            Program::Other => self.other_sender(source),
            Program::Treecast => {
                let mut command = self.send(opening, patience);
                command.args(arguments).arg(source);
                command
            }
        }
    }

    /// Returns the transport and the port at which a server listens that prints no ticket.
    pub fn listens(&self) -> Option<(&'static str, u16)> {
        match self.delivery.program {
            Program::Tcp => Some(("tcp", UNICAST_PORT)),
            Program::Udp => Some(("udp", UNICAST_PORT)),
            Program::Scp => Some(("tcp", ssh::PORT)),
            Program::Treecast | Program::Uftp | Program::Other => None,
        }
    }

    /// Returns the command of a client, which is named after its node and stores its copy in `folder` under the
    /// source's name.
    pub fn client(&self, name: &str, at: &Attachment, source: &Path, ticket: &str, folder: &Path) -> Command {
        let copy = folder.join(source.file_name().unwrap_or(OsStr::new("copy")));
        match self.delivery.program {
            Program::Tcp | Program::Udp => self.unicast("client", &copy),
            Program::Scp => self.ssh.map_or_else(none, |ssh| ssh.client(self.server.address, source, &copy)),
            Program::Uftp => none(),
            Program::Other => {
                let values = [
                    ("copy", copy.display().to_string()),
                    ("folder", folder.display().to_string()),
                    ("name", name.to_owned()),
                    ("ticket", ticket.to_owned()),
                    ("sender", self.server.address.to_string()),
                    ("address", at.address.to_string()),
                    ("interface", at.interface.clone()),
                ];
                self.other(&self.delivery.other.receive, &values)
            }
            Program::Treecast => {
                let mut command = Command::new(self.treecast);
                command.args(["receive", "--json", "--name", name]);
                command.args(["--interface", &at.interface, "--into"]).arg(folder);
                command.args(self.local_groups());
                command.arg(ticket);
                command
            }
        }
    }

    fn other_sender(&self, source: &Path) -> Command {
        let rate_bps = match self.rate {
            SendRate::Bps(rate) => rate.0.to_string(),
            _ => "0".into(),
        };
        let values = [
            ("file", source.display().to_string()),
            ("address", self.server.address.to_string()),
            ("interface", self.server.interface.clone()),
            ("receivers", self.addresses()),
            ("rate_bps", rate_bps),
        ];
        self.other(&self.delivery.other.send, &values)
    }

    fn other(&self, words: &[String], values: &Values) -> Command {
        let words = Other::words(words, values);
        let mut command = Command::new(words.first().map_or("", String::as_str));
        command.args(words.iter().skip(1));
        command
    }

    fn unicast(&self, side: &str, file: &Path) -> Command {
        let address = SocketAddr::new(self.server.address, UNICAST_PORT);
        let mut command = Command::new(self.treecast);
        let transport = self.delivery.program.word();
        command.args(["unicast", "--json", side, transport]).arg(file).arg(address.to_string());
        if (side, transport) == ("server", "udp") {
            command.args(self.rate.words());
        }
        if let ("server", Some(congestion)) = (side, &self.delivery.congestion) {
            command.args(["--congestion", &congestion.0]);
        }
        command
    }

    fn send(&self, opening: Opening, patience: Duration) -> Command {
        let delivery = self.delivery;
        let mut command = Command::new(self.treecast);
        command.args(["send", "--json"]).args(self.rate.words());
        command.args(["--interface", &self.server.interface]);
        if delivery.fanout != Fanout::Multicast {
            command.args(["--fanout", delivery.fanout.word()]);
            // Others hear of their receivers when those come; a carousel has nobody who comes.
            if matches!(delivery.fanout, Fanout::Mead | Fanout::Auto) || delivery.is_carousel() {
                command.args(["--receivers", &self.addresses()]);
            }
        }
        command.args(delivery.repair.iter().flat_map(|repair| ["--repair", repair.word()]));
        command.args(delivery.fec.iter().flat_map(|fec| ["--fec", fec]));
        if self.plain {
            command.arg("--plain");
        }
        let patience = patience.as_secs().max(1).to_string();
        if delivery.is_carousel() {
            // It is there until the run is over, also while nobody listens.
            command.args(["--idle", &patience]);
        } else {
            if delivery.is_local() {
                command.args(delivery.local.words()).args(self.local_groups());
            } else {
                command.args(["--control", &SocketAddr::new(self.server.address, 0).to_string()]);
            }
            command.args(["--wait", &opening.receivers.to_string(), "--wait-timeout", &patience]);
        }
        command.args(&delivery.arguments);
        command
    }

    fn local_groups(&self) -> impl Iterator<Item = &OsStr> {
        let option = |file| [OsStr::new("--local-groups"), file];
        self.groups.iter().map(|file| file.as_os_str()).flat_map(option)
    }

    fn addresses(&self) -> String {
        self.receivers.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",")
    }
}

/// An experiment without scp prepares none, and starts none. uftp shares links alone, and is no session.
fn none() -> Command {
    Command::new("false")
}

/// Returns a treecast command that is no part of a delivery.
pub fn treecast(program: &Path, command: &str) -> Command {
    let mut treecast = Command::new(PathBuf::from(program));
    treecast.args([command, "--json"]);
    treecast
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(delivery: &str, command: impl Fn(&Programs) -> Command) -> Vec<String> {
        let attachment = Attachment { interface: "if1".into(), address: "fd00::1".parse().unwrap() };
        let mut delivery = Delivery::known(delivery).unwrap();
        delivery.fanout = Fanout::Mead;
        let programs = Programs {
            treecast: Path::new("treecast"),
            ssh: None,
            delivery: &delivery,
            server: attachment,
            receivers: ["fd00::2", "fd00::3"].map(|address| address.parse().unwrap()).into(),
            rate: SendRate::Max,
            plain: true,
            groups: None,
        };
        command(&programs).get_args().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn receivers_are_called_by_their_nodes() {
        let attachment = Attachment { interface: "if1".into(), address: "fd00::2".parse().unwrap() };
        let client = words("nack", |programs| {
            programs.client("client3", &attachment, Path::new("/source"), "treecast:t", Path::new("/copies"))
        });
        assert!(client.windows(2).any(|pair| pair == ["--name", "client3"]), "{client:?}");
        assert_eq!(client.last().map(String::as_str), Some("treecast:t"));
    }

    #[test]
    fn fanouts_that_look_for_routers_are_told_their_receivers() {
        let opening = Opening { receivers: 2, are_waiting: false };
        let server = |name| {
            words(name, |programs| {
                programs.server(Path::new("/source"), &[], opening, Duration::from_secs(9))
            })
            .join(" ")
        };
        let nack = server("nack-fec");
        for part in
            ["--fanout mead --receivers fd00::2,fd00::3", "--repair nack --fec auto", "--wait 2", "--plain"]
        {
            assert!(nack.contains(part), "{part}: {nack}");
        }
        let carousel = server("carousel");
        assert!(carousel.contains("--repair carousel --plain --idle 9 /source"), "{carousel}");
    }
}
