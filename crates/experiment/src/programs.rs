//! The command lines of each delivery, on the server and on a client.

use std::{
    ffi::OsStr,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::{
    cargo::PlannedFeed,
    delivery::Delivery,
    network::Attachment,
    server::Opening,
    ssh::{self, Ssh},
    stage::ClientNode,
};

/// The port of the unicast servers, each in the server's namespace.
const UNICAST_PORT: u16 = 4242;

/// What the programs of a network's runs have in common.
pub struct Programs {
    /// The treecast program.
    pub treecast: PathBuf,
    pub ssh: Option<Ssh>,
    pub server: Attachment,
    /// `--rate` of after, nack and carousel; `--rates` where there are several, with commas between them.
    pub rate: String,
    /// Their `--plain`.
    pub plain: bool,
}

/// How a server shows that clients may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// The file of its ticket has something in it.
    Ticket,
    /// A socket is bound to a port of `tcp` or `udp`.
    Port(&'static str, u16),
}

impl Ready {
    pub fn of(delivery: Delivery) -> Self {
        match delivery {
            Delivery::Tcp => Self::Port("tcp", UNICAST_PORT),
            Delivery::Udp => Self::Port("udp", UNICAST_PORT),
            Delivery::Scp => Self::Port("tcp", ssh::PORT),
            _ => Self::Ticket,
        }
    }
}

impl Programs {
    /// The server of a delivery. after and nack wait for their receivers no longer than `patience`.
    pub fn server(
        &self,
        delivery: Delivery,
        source: &Path,
        feed: Option<&PlannedFeed>,
        opening: &Opening,
        patience: Duration,
    ) -> Command {
        match delivery {
            Delivery::Tcp => self.unicast("server", "tcp", source),
            Delivery::Udp => self.unicast("server", "udp", source),
            Delivery::Scp => self.ssh.as_ref().map_or_else(no_ssh, Ssh::server),
            _ => {
                let mut command = self.send(delivery, opening, patience);
                match feed {
                    None => command.arg(source),
                    Some(feed) => command.args(feed_options(feed)).arg("--feed").arg(source),
                };
                command
            }
        }
    }

    /// A client that puts its copy into `folder`, under the source's name.
    pub fn client(
        &self,
        delivery: Delivery,
        client: &ClientNode,
        source: &Path,
        ticket: &Path,
        folder: &Path,
    ) -> Command {
        let copy = folder.join(source.file_name().unwrap_or(OsStr::new("copy")));
        match delivery {
            Delivery::Tcp => self.unicast("client", "tcp", &copy),
            Delivery::Udp => self.unicast("client", "udp", &copy),
            Delivery::Scp => {
                self.ssh.as_ref().map_or_else(no_ssh, |ssh| ssh.client(self.server.address, source, &copy))
            }
            _ => self.receive(client, ticket, folder),
        }
    }

    fn unicast(&self, side: &str, transport: &str, file: &Path) -> Command {
        let address = SocketAddr::new(self.server.address, UNICAST_PORT);
        let mut command = Command::new(&self.treecast);
        command.args(["unicast", "--json", side, transport]).arg(file).arg(address.to_string());
        if (side, transport) == ("server", "udp") {
            command.args(["--rate", &self.rate]);
        }
        command
    }

    fn send(&self, delivery: Delivery, opening: &Opening, patience: Duration) -> Command {
        let control = SocketAddr::new(self.server.address, 0);
        let mut command = Command::new(&self.treecast);
        let option = if self.rate.contains(',') { "--rates" } else { "--rate" };
        command.args(["send", "--json", option, &self.rate]).args(delivery.repair());
        command.args(["--interface", &self.server.interface, "--ticket-file"]).arg(&opening.ticket);
        if self.plain {
            command.arg("--plain");
        }
        if delivery.is_carousel() {
            // Like the paper's, it is there until the run is over, also while nobody listens.
            command.args(["--idle", &patience.as_secs().max(1).to_string()]);
        } else {
            command.args(["--control", &control.to_string(), "--wait", &opening.receivers.to_string()]);
            command.args(["--wait-timeout", &patience.as_secs().max(1).to_string()]);
        }
        command
    }

    fn receive(&self, client: &ClientNode, ticket: &Path, folder: &Path) -> Command {
        let mut command = Command::new(&self.treecast);
        command.args(["receive", "--json", "--name", &client.name]);
        command.args(["--interface", &client.attachment.interface, "--into"]).arg(folder);
        command.arg(format!("@{}", ticket.display()));
        command
    }
}

/// An experiment without scp prepares none, and starts none.
fn no_ssh() -> Command {
    Command::new("false")
}

/// As the paper's prototype: one object behind the other, and no more time than the factor gives.
fn feed_options(feed: &PlannedFeed) -> [String; 8] {
    let configuration = &feed.configuration;
    let (factor, priority) = (configuration.factor.to_string(), configuration.priority.name());
    ["--at-once", "1", "--retx-factor", &factor, "--retx-minimum", "0", "--priority", priority]
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_are_called_by_their_nodes() {
        let attachment = Attachment { interface: "if1".into(), address: "fd00::1".parse().unwrap() };
        let server = attachment.clone();
        let programs =
            Programs { treecast: "treecast".into(), ssh: None, server, rate: "max".into(), plain: true };
        let client = ClientNode { name: "client3".into(), attachment };
        for delivery in Delivery::ALL.into_iter().filter(|delivery| delivery.is_multicast()) {
            let [source, ticket, folder] = ["/source", "/ticket", "/copies"].map(Path::new);
            let command = programs.client(delivery, &client, source, ticket, folder);
            let words: Vec<&str> = command.get_args().filter_map(OsStr::to_str).collect();
            assert!(words.windows(2).any(|pair| pair == ["--name", "client3"]), "{words:?}");
            assert_eq!(words.last(), Some(&"@/ticket"));
        }
    }
}
