//! The command lines of each delivery, on the server and on a client.

use std::{
    ffi::OsStr,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    delivery::Delivery,
    network::Attachment,
    ssh::{self, Ssh},
};

/// The port of the unicast servers, each in the server's namespace.
const UNICAST_PORT: u16 = 4242;

/// What the programs of a network's runs have in common.
pub struct Programs {
    /// The treecast program.
    pub treecast: PathBuf,
    pub ssh: Option<Ssh>,
    pub server: Attachment,
    /// `--rate` of after, nack and carousel.
    pub rate: String,
}

/// How a server shows that clients may come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ready {
    /// This file has a ticket in it.
    Ticket(PathBuf),
    /// A socket is bound to this port: TCP or UDP.
    Port(&'static str, u16),
}

impl Programs {
    /// The server of a delivery, and how it shows that it is ready. after and nack start when `receivers`
    /// clients are there.
    pub fn server(
        &self,
        delivery: Delivery,
        source: &Path,
        receivers: usize,
        ticket: &Path,
    ) -> (Command, Ready) {
        match delivery {
            Delivery::Tcp => (self.unicast("server", "tcp", source), Ready::Port("tcp", UNICAST_PORT)),
            Delivery::Udp => (self.unicast("server", "udp", source), Ready::Port("udp", UNICAST_PORT)),
            Delivery::Scp => match &self.ssh {
                Some(ssh) => (ssh.server(), Ready::Port("tcp", ssh::PORT)),
                None => (Command::new("false"), Ready::Port("tcp", ssh::PORT)),
            },
            Delivery::Carousel | Delivery::After | Delivery::Nack => {
                (self.send(delivery, source, receivers, ticket), Ready::Ticket(ticket.into()))
            }
        }
    }

    /// A client that puts its copy into `folder`, and the name of the copy.
    pub fn client(
        &self,
        delivery: Delivery,
        interface: &str,
        source: &Path,
        ticket: &Path,
        folder: &Path,
    ) -> Command {
        let copy = folder.join(source.file_name().unwrap_or(OsStr::new("copy")));
        match delivery {
            Delivery::Tcp => self.unicast("client", "tcp", &copy),
            Delivery::Udp => self.unicast("client", "udp", &copy),
            Delivery::Scp => match &self.ssh {
                Some(ssh) => ssh.client(self.server.address, source, &copy),
                None => Command::new("false"),
            },
            Delivery::Carousel | Delivery::After | Delivery::Nack => self.receive(interface, ticket, folder),
        }
    }

    fn unicast(&self, side: &str, transport: &str, file: &Path) -> Command {
        let address = SocketAddr::new(self.server.address, UNICAST_PORT);
        let mut command = Command::new(&self.treecast);
        command.args(["unicast", side, transport]).arg(file).arg(address.to_string());
        command
    }

    fn send(&self, delivery: Delivery, source: &Path, receivers: usize, ticket: &Path) -> Command {
        let control = SocketAddr::new(self.server.address, 0);
        let mut command = Command::new(&self.treecast);
        command.args(["send", "--json", "--repair", delivery.name(), "--rate", &self.rate]);
        command.args(["--interface", &self.server.interface, "--ticket-file"]).arg(ticket);
        if delivery != Delivery::Carousel {
            command.args(["--control", &control.to_string(), "--wait", &receivers.to_string()]);
        }
        command.arg(source);
        command
    }

    fn receive(&self, interface: &str, ticket: &Path, folder: &Path) -> Command {
        let mut command = Command::new(&self.treecast);
        command.args(["receive", "--json", "--interface", interface, "--into"]).arg(folder);
        command.arg(format!("@{}", ticket.display()));
        command
    }
}
