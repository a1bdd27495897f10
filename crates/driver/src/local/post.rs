//! A member's own UDP socket.

use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
};

use treecast_host::{interface::Interface, option};
use treecast_proto::object::Address;
use treecast_wire::{
    header::{FileId, Header},
    message::{GroupId, Member, Message},
    seal::SEAL_LEN,
    ticket::local_group,
};

use crate::{
    seal::{Sealer, Secret},
    udp::{GroupAddress, Offload, Transmitter, UdpError, frames_in_super_packet, open_member},
};

/// The wanted size of the socket's receive buffer, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// The socket of a member. It sends to local groups and to members, from the address by which others know this
/// member. Packets that cannot be sent count as lost on the way, and are asked for again.
#[derive(Debug)]
pub(crate) struct Post {
    me: Member,
    transmitter: Transmitter,
    /// The key that packets are sealed with. It is this member's own, derived from the ticket's secret. `None` in a
    /// plain session.
    sealer: Option<Sealer>,
    sealed: Vec<u8>,
    /// The session's group.
    session: GroupAddress,
    block_len: usize,
}

impl Post {
    /// Opens the socket at the address `own` of the interface; port 0 lets the kernel choose the port.
    ///
    /// # Errors
    /// If the interface does not have the address, or the port is taken.
    pub fn open(
        session: &GroupAddress,
        own: SocketAddr,
        hops: u32,
        offload: Offload,
        (block_len, secret): (u16, Option<&Secret>),
    ) -> Result<Self, UdpError> {
        let socket = open_member(session, own, hops, BUFFER_BYTES)?;
        let failed = |source| UdpError::Socket { doing: "open a member's socket".into(), source };
        let me = member(socket.local_addr().map_err(failed)?);
        let sealer = secret.map(|secret| Sealer::from_secret(secret.clone())).transpose().map_err(failed)?;
        Ok(Self {
            me,
            transmitter: Transmitter::new(socket, offload),
            sealer,
            sealed: Vec::new(),
            session: session.clone(),
            block_len: block_len.into(),
        })
    }

    /// The address by which other members know this one.
    pub fn me(&self) -> Member {
        self.me
    }

    /// Returns a second handle of the socket, for reading.
    pub fn ear(&self) -> io::Result<UdpSocket> {
        self.transmitter.socket().try_clone()
    }

    /// The multicast address of a local group.
    pub fn place(&self, group: GroupId) -> GroupAddress {
        GroupAddress { group: local_group(self.session.group, group.0), ..self.session.clone() }
    }

    /// Sends one message.
    pub fn tell(&mut self, to: Address, file: FileId, message: &Message) {
        for packet in message.to_packets(file, self.block_len) {
            self.tell_all(to, &[packet]);
        }
    }

    /// Sends messages that are all equally long, in as few super-packets as possible.
    pub fn tell_all(&mut self, to: Address, packets: &[impl AsRef<[u8]>]) {
        let to = self.address(to);
        let Some(first) = packets.first() else { return };
        let segment_len = first.as_ref().len() + if self.sealer.is_some() { SEAL_LEN } else { 0 };
        for run in packets.chunks(frames_in_super_packet(segment_len)) {
            self.sealed.clear();
            let sealed = run.iter().map(AsRef::as_ref).try_for_each(|packet| match &mut self.sealer {
                Some(sealer) => sealer.seal_packet(packet, &mut self.sealed),
                None => {
                    self.sealed.extend_from_slice(packet);
                    Ok(())
                }
            });
            let sent = sealed.and_then(|()| self.transmitter.send_segments(to, segment_len, &self.sealed));
            note_lost(to, sent);
        }
    }

    /// Sends blocks, a packet each. `first` is the header of the first one.
    pub fn send_blocks(&mut self, to: Address, first: Header, run: &[u8]) {
        let to = self.address(to);
        let sent = match &mut self.sealer {
            None => self.transmitter.send_blocks(to, first, self.block_len, run),
            Some(sealer) => {
                self.sealed.clear();
                let sealed = sealer.seal_blocks(first, self.block_len, run, &mut self.sealed);
                let segment_len = Sealer::segment_len(self.block_len);
                sealed.and_then(|()| self.transmitter.send_segments(to, segment_len, &self.sealed))
            }
        };
        note_lost(to, sent);
    }

    /// The socket address of `to`. A link-local one has the scope of the session's interface.
    pub fn address(&self, to: Address) -> SocketAddr {
        match to {
            Address::Session => self.session.scoped(),
            Address::Group(group) => self.place(group).scoped(),
            Address::Member(Member(address)) => option::scoped(address, self.session.interface.index),
        }
    }
}

/// The member that a datagram came from.
pub(crate) fn member(from: SocketAddr) -> Member {
    Member(SocketAddr::new(from.ip().to_canonical(), from.port()))
}

/// Returns the address of the interface that other members can reach, a routable one if there is any.
pub(crate) fn own_address(interface: &Interface, group: IpAddr) -> IpAddr {
    let suits = |address: &IpAddr| address.is_ipv4() == group.is_ipv4();
    let reachable = interface.reachable_addresses().into_iter().find(suits);
    let own = reachable.or_else(|| interface.addresses.iter().copied().find(suits));
    own.unwrap_or(if group.is_ipv4() {
        std::net::Ipv4Addr::LOCALHOST.into()
    } else {
        std::net::Ipv6Addr::LOCALHOST.into()
    })
}

fn note_lost(to: SocketAddr, sent: io::Result<()>) {
    if let Err(error) = sent {
        tracing::debug!(target: crate::SESSION_LOG, %to, %error, "lost");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::{Batch, Collector, Item};
    use treecast_wire::header::PacketType;

    fn post(secret: Option<&Secret>) -> Post {
        let interface = Interface::named("lo").unwrap();
        let session = GroupAddress { group: "239.255.9.9:7000".parse().unwrap(), source: None, interface };
        let own = SocketAddr::new(own_address(&session.interface, session.group.ip()), 0);
        Post::open(&session, own, 1, Offload::SuperPackets, (1_200, secret)).unwrap()
    }

    #[test]
    fn members_hear_each_other_plain_and_sealed_with_keys_of_their_own() {
        let secret = Secret::draw().unwrap();
        for secret in [None, Some(&secret)] {
            let (mut one, other) = (post(secret), post(secret));
            let opener = secret.map(|secret| crate::seal::Opener::with_secret(secret.clone()));
            let mut collector =
                Collector::new(other.ear().unwrap(), Offload::SuperPackets, 1_200, opener).unwrap();
            let (to, file) = (Address::Member(other.me()), FileId(7));
            one.tell(to, file, &Message::EndOfFile);
            let kind = PacketType::RetransmittedData;
            one.send_blocks(
                to,
                Header { file_id: file, sequence: 2_400, payload_len: 0, kind, number: 0 },
                &[5; 2_000],
            );
            let (mut batch, mut items) = (Batch::default(), Vec::new());
            while let Some(from) = collector.receive_from(&mut batch).unwrap() {
                assert_eq!(member(from), one.me());
                items.extend(batch.take_items());
            }
            assert_eq!(items.len(), 2, "{items:?}");
            assert!(matches!(&items[1], Item::Blocks { range, .. } if *range == (2_400..4_400)), "{items:?}");
        }
    }
}
