//! The source of packets: a session's own, or the IoT updater's frames.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
};

use treecast_proto::tfmcc::Arrived;
use treecast_wire::header::SessionId;

use super::super::{Dialect, ReceiveOptions};
use crate::{
    carousel::FrameCollector,
    seal::{Opener, Refused},
    udp::{Batch, Collector, DatagramReceiver, Item, Spare},
};

/// A batch takes a super-packet of frames whole.
const SUPER_PACKET_LEN: usize = 65_536;

#[derive(Debug)]
pub(super) enum Source {
    Session(Collector),
    Iotup(FrameCollector),
}

impl Source {
    /// Takes over a socket. Packets are plain without an `opener`.
    pub fn new(options: &ReceiveOptions, socket: UdpSocket, opener: Option<Opener>) -> io::Result<Self> {
        let ticket = &options.ticket;
        Ok(match &options.dialect {
            Dialect::Session => {
                Self::Session(Collector::new(socket, options.offload, ticket.block_len, opener)?)
            }
            Dialect::Iotup { name } => {
                let receiver = DatagramReceiver::new(socket, options.offload);
                Self::Iotup(FrameCollector::new(receiver, ticket.session, name.clone()))
            }
        })
    }

    pub fn socket(&self) -> &UdpSocket {
        match self {
            Self::Session(collector) => collector.socket(),
            Self::Iotup(collector) => collector.receiver().socket(),
        }
    }

    /// Makes another socket ready for [`Self::swap`].
    pub fn prepare(&self, socket: UdpSocket) -> io::Result<Spare> {
        match self {
            Self::Session(collector) => collector.prepare(socket),
            Self::Iotup(collector) => collector.receiver().prepare(socket),
        }
    }

    /// Receives from the other socket from now on, and keeps this one's place in `spare`. Nothing is lost.
    pub fn swap(&mut self, spare: &mut Spare) {
        match self {
            Self::Session(collector) => collector.swap(spare),
            Self::Iotup(collector) => collector.swap(spare),
        }
    }

    /// Goes on with another socket. What the one before still holds is lost.
    pub fn replace_socket(&mut self, socket: UdpSocket) -> io::Result<()> {
        let mut spare = self.prepare(socket)?;
        self.swap(&mut spare);
        Ok(())
    }

    /// Takes only packets of this lane from now on.
    pub fn take_lane(&mut self, lane: u8) {
        if let Self::Session(collector) = self {
            collector.take_lane(lane);
        }
    }

    /// Returns the number on the wire of a packet that was counted with this number.
    pub fn number_on_wire(&self, counted: u32) -> u32 {
        match self {
            Self::Session(collector) => collector.number_on_wire(counted),
            Self::Iotup(_) => counted,
        }
    }

    /// Takes sealed packets' keys. `None` where packets are plain.
    pub fn opener(&mut self) -> Option<&mut Opener> {
        match self {
            Self::Session(collector) => collector.opener(),
            Self::Iotup(_) => None,
        }
    }

    /// Whether packets that come now can be read; while not, they are best left in the socket's buffer.
    pub fn can_read(&self) -> bool {
        match self {
            Self::Session(collector) => collector.can_read(),
            Self::Iotup(_) => true,
        }
    }

    /// The number of packets that the kernel has dropped because a buffer was full.
    pub fn dropped(&self) -> u64 {
        match self {
            Self::Session(collector) => collector.dropped(),
            Self::Iotup(collector) => collector.receiver().dropped(),
        }
    }

    /// Packets whose seal was not right so far, or that came twice.
    pub fn refused(&self) -> Refused {
        match self {
            Self::Session(collector) => collector.refused(),
            Self::Iotup(_) => Refused::default(),
        }
    }

    /// The number of bytes that have been taken so far. A session counts the kernel's overhead, too.
    pub fn taken(&self) -> u64 {
        match self {
            Self::Session(collector) => collector.taken(),
            Self::Iotup(collector) => collector.taken(),
        }
    }

    /// Whether what one call to the kernel yields fits into the batch.
    pub fn fits(&self, batch: &Batch) -> bool {
        match self {
            Self::Session(collector) => collector.fits(batch),
            Self::Iotup(_) => batch.room() >= SUPER_PACKET_LEN,
        }
    }

    /// Takes what one call to the kernel yields. Returns false when nothing is there.
    pub fn receive(&mut self, batch: &mut Batch) -> io::Result<bool> {
        match self {
            Self::Session(collector) => collector.receive(batch),
            Self::Iotup(collector) => collector.receive(batch),
        }
    }

    /// Takes what one call to the kernel yields, and says who has sent it. `None` when nothing is there.
    pub fn receive_from(&mut self, batch: &mut Batch) -> io::Result<Option<SocketAddr>> {
        match self {
            Self::Session(collector) => collector.receive_from(batch),
            // Its frames come from the sender alone.
            Self::Iotup(_) => Ok(None),
        }
    }

    /// The items that the first frame has told about its file, once. They count before the blocks.
    pub fn take_items(&mut self) -> Vec<Item> {
        if let Self::Iotup(collector) = self { collector.take_items() } else { Vec::new() }
    }

    /// The numbers of the frames that have come, as a session's packets have them.
    pub fn take_arrivals(&mut self) -> Vec<(SessionId, Arrived)> {
        if let Self::Iotup(collector) = self { collector.take_arrivals() } else { Vec::new() }
    }

    /// The hash of what has come is not the frames'. Whether another kind of hash may be: frames do not say which theirs is.
    pub fn hashes_otherwise(&mut self) -> bool {
        match self {
            Self::Session(_) => false,
            Self::Iotup(collector) => collector.hashes_otherwise(),
        }
    }
}
