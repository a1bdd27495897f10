//! Asks providers to remove their ends of tunnels that the stub no longer needs (ITMP Close).

use std::{
    net::{Ipv6Addr, SocketAddr, UdpSocket},
    os::fd::AsFd,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use treecast_host::{clock, poller::wait_readable};

use crate::{
    Prefix,
    message::{Envelope, Key, Message, Protocol, Stamps},
};

use super::{
    Error,
    config::{self, Config},
    event::TunnelEnd,
    kernel::End,
    sockets, unix_us,
};

/// The time for which providers are asked, and the time between two requests.
const CLOSING: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_millis(300);

/// The way to a provider's TMS.
pub struct Tms {
    pub socket: UdpSocket,
    pub server: SocketAddr,
    pub name: String,
    pub key: Key,
    pub from: Ipv6Addr,
    /// The file with the secret, as it was configured.
    pub secret: PathBuf,
}

/// A tunnel that was made, in the file, with what is needed to close it when the provider is no longer configured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Made {
    pub provider: String,
    pub provider_as: u32,
    pub prefix: Prefix,
    pub end: End,
    pub server: SocketAddr,
    pub server_name: String,
    pub secret: PathBuf,
}

impl Made {
    /// The way to the provider's TMS, if its secret is there still.
    fn tms(&self, config: &Config) -> Option<Tms> {
        Tms::new(config, self.end.local, self.server, &self.server_name, &self.secret).ok()
    }

    /// Whether the configuration still wants the tunnel.
    pub fn is_wanted(&self, config: &Config) -> bool {
        config.file.providers.iter().any(|provider| {
            let is_same = |tunnel: &config::Tunnel| {
                (tunnel.from, tunnel.to) == (self.end.local, self.end.remote)
                    && (tunnel.server, &tunnel.server_name) == (self.server, &self.server_name)
            };
            provider.name == self.provider
                && provider.prefix == self.prefix
                && provider.tunnel.as_ref().is_some_and(is_same)
        })
    }

    pub fn told(&self) -> TunnelEnd {
        let End { kind, id, inner_own, inner_peer, .. } = self.end;
        let (peer, interface) = (self.provider.clone(), self.end.interface());
        TunnelEnd { peer, prefix: self.prefix, interface, kind, id, inner_own, inner_peer }
    }
}

/// Asks providers to remove tunnels, as far as their secrets are there.
pub fn close_made(config: &Config, stamps: &mut Stamps, made: &[Made]) {
    let Ok(stub) = config.stub() else { return };
    let ways: Vec<_> = made.iter().filter_map(|it| Some((it.tms(config)?, it.prefix))).collect();
    close(&stub.name, ways.iter().map(|(tms, prefix)| (tms, *prefix)), || stamps.next(unix_us()));
}

/// Asks providers to remove tunnels, and waits a moment until they have.
pub fn close<'a>(
    sender: &str,
    tunnels: impl Iterator<Item = (&'a Tms, Prefix)>,
    mut next_stamp: impl FnMut() -> u64,
) {
    let mut left: Vec<(&Tms, Prefix, Vec<u64>)> =
        tunnels.map(|(tms, prefix)| (tms, prefix, Vec::new())).collect();
    let end = clock::monotonic() + CLOSING;
    let mut again = Duration::ZERO;
    while !left.is_empty() && clock::monotonic() < end {
        if clock::monotonic() >= again {
            again = clock::monotonic() + AGAIN;
            for (tms, prefix, asked) in &mut left {
                let message = Message::Close { prefix: *prefix };
                let envelope = Envelope { sender: sender.to_owned(), stamp: next_stamp(), message };
                asked.push(envelope.stamp);
                // What is lost is sent again.
                _ = tms.socket.send_to(&envelope.seal(&tms.key), tms.server);
            }
        }
        let wait = again.min(end).saturating_sub(clock::monotonic());
        _ = wait_readable([left.first().map(|(tms, ..)| tms.socket.as_fd())], wait);
        left.retain(|(tms, _, asked)| {
            let mut is_open = true;
            sockets::read(&tms.socket, |bytes, _| {
                let opened = Envelope::open(bytes, |sender| (sender == tms.name).then_some(&tms.key));
                let closed = opened.map(|envelope| envelope.message);
                is_open &= !matches!(closed, Ok(Message::Closed { answers }) if asked.contains(&answers));
            });
            is_open
        });
    }
}

impl Tms {
    pub fn new(
        config: &Config,
        from: Ipv6Addr,
        server: SocketAddr,
        name: &str,
        secret: &Path,
    ) -> Result<Self, Error> {
        let socket = sockets::open_from(from)?;
        let key = Key::new(Protocol::Itmp, &config.secret(secret)?);
        Ok(Self { socket, server, name: name.to_owned(), key, from, secret: secret.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use crate::{
        message::{Open, ReplayGuard, TunnelKind},
        srms::Now,
        tms::{self, Command},
    };

    use super::*;

    const SECRET: [u8; 32] = [7; 32];

    fn prefix() -> Prefix {
        "2001:db8:a:1::/64".parse().unwrap()
    }

    /// A TMS with the tunnel of the stub.
    fn machine() -> tms::Tms {
        let stub = tms::Customer { name: "stub".into(), as_number: 64_512, prefixes: vec![prefix()] };
        let mut tms = tms::Tms::new(tms::Provider {
            name: "a".into(),
            as_number: 64_601,
            end: "2001:db8:a::1".parse().unwrap(),
            inner: "2001:db8:a:ff::/64".parse().unwrap(),
            kinds: vec![TunnelKind::Vxlan],
            stubs: vec![stub],
        });
        let open = Open {
            prefix: prefix(),
            kind: TunnelKind::Vxlan,
            stub_end: "2001:db8:b:1::1".parse().unwrap(),
            stub_as: 64_512,
            lifetime_s: 60,
        };
        let open = Envelope { sender: "stub".into(), stamp: 1, message: Message::Open(open) };
        tms.handle(Now::default(), &open);
        assert_eq!(tms.lifetimes().count(), 1);
        tms
    }

    #[test]
    fn a_tunnel_is_closed_although_the_first_request_is_lost() {
        let (server, key) = (UdpSocket::bind("[::1]:0").unwrap(), Key::new(Protocol::Itmp, &SECRET));
        let way = Tms {
            socket: sockets::open("[::1]:0".parse().unwrap()).unwrap(),
            server: server.local_addr().unwrap(),
            name: "a".into(),
            key: key.clone(),
            from: Ipv6Addr::LOCALHOST,
            secret: PathBuf::new(),
        };
        let answering = thread::spawn(move || {
            let (mut tms, mut guard) = (machine(), ReplayGuard::default());
            let mut buffer = [0; 2_000];
            let (lost, _) = server.recv_from(&mut buffer).unwrap();
            let lost = buffer[..lost].to_vec();
            let (len, from) = server.recv_from(&mut buffer).unwrap();
            assert_ne!(lost, buffer[..len], "a repetition would be refused");
            let envelope = Envelope::open(&buffer[..len], |_| Some(&key)).unwrap();
            guard.take(envelope.stamp, &envelope).unwrap();
            let commands = tms.handle(Now::default(), &envelope);
            let [Command::Remove(_), Command::Answer { answer, .. }] = &commands[..] else {
                panic!("{commands:?}")
            };
            server.send_to(&answer.seal(&key), from).unwrap();
            tms.lifetimes().count()
        });
        let mut stamps = Stamps::default();
        let begin = clock::monotonic();
        close("stub", [(&way, prefix())].into_iter(), || stamps.next(1_000_000));
        assert_eq!(answering.join().unwrap(), 0);
        assert!(clock::monotonic() - begin >= AGAIN, "the first request had no answer");
    }

    #[test]
    fn a_tunnel_is_wanted_while_the_file_says_the_same_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stub.toml");
        let config = |tunnel: &str| {
            let text = format!(
                "[stub]\nname = \"stub\"\nas = 64512\n[[provider]]\nname = \"A\"\nas = 64601\nprefix = \"{}\"\n\
                 interface = \"up-a\"\n{tunnel}",
                prefix()
            );
            std::fs::write(&file, text).unwrap();
            Config::read(&file).unwrap()
        };
        let tunnel = "[provider.tunnel]\nserver = \"[2001:db8:a::1]:4548\"\nserver_name = \"a\"\nsecret = \"a.key\"\n\
                      from = \"2001:db8:b:1::1\"\nto = \"2001:db8:a::1\"\ninner = \"2001:db8:a:ff::/64\"\n";
        let made = Made {
            provider: "A".into(),
            provider_as: 64_601,
            prefix: prefix(),
            end: End {
                kind: TunnelKind::Vxlan,
                id: 1,
                local: "2001:db8:b:1::1".parse().unwrap(),
                remote: "2001:db8:a::1".parse().unwrap(),
                inner_own: "2001:db8:a:ff::3".parse().unwrap(),
                inner_peer: "2001:db8:a:ff::2".parse().unwrap(),
            },
            server: "[2001:db8:a::1]:4548".parse().unwrap(),
            server_name: "a".into(),
            secret: "a.key".into(),
        };
        assert!(made.is_wanted(&config(tunnel)));
        assert!(!made.is_wanted(&config("")), "it was removed from the file");
        for (old, new) in
            [("b:1::1", "c:1::1"), ("to = \"2001:db8:a::1", "to = \"2001:db8:a::2"), ("4548", "4549")]
        {
            assert!(!made.is_wanted(&config(&tunnel.replacen(old, new, 1))), "{new}");
        }
    }

    #[test]
    fn a_provider_that_does_not_answer_is_not_waited_for() {
        let silent = UdpSocket::bind("[::1]:0").unwrap();
        let way = Tms {
            socket: sockets::open("[::1]:0".parse().unwrap()).unwrap(),
            server: silent.local_addr().unwrap(),
            name: "a".into(),
            key: Key::new(Protocol::Itmp, &SECRET),
            from: Ipv6Addr::LOCALHOST,
            secret: PathBuf::new(),
        };
        let mut asked = 0;
        close("stub", [(&way, prefix())].into_iter(), || {
            asked += 1;
            asked
        });
        assert!(asked >= 2, "it was asked again");
    }
}
