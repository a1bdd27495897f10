//! The reports of a carousel's receivers about what they lack, by datagrams to a socket of the sender.
//!
//! Whoever has the ticket can report, and so can have everything sent again. Whoever has recorded a sealed report can send it again.
//! Neither keeps a whole loop away for ever (`treecast_proto::carousel`).

use std::net::SocketAddr;

use treecast_host::poller::{Interest, Poller};
use treecast_wire::{
    header::{FileId, SessionId},
    message::{Member, Message},
};

use super::{
    super::{Plan, SendError},
    MEMBERS,
};
use crate::{
    local::{Post, member, own_address},
    seal::Opener,
    udp::{Batch, Collector, Item},
};

/// The most calls to the kernel that read reports before packets leave again.
const READS_A_TURN: usize = 64;

#[derive(Debug)]
pub(super) struct Reports {
    at: SocketAddr,
    collector: Collector,
    batch: Batch,
}

impl Reports {
    /// Opens the socket for reports. `None` in a session without them.
    pub fn open(plan: &Plan, poller: &Poller) -> Result<Option<Self>, SendError> {
        if !plan.hears_reports() {
            return Ok(None);
        }
        let offload = plan.options.network.offload;
        let at = SocketAddr::new(own_address(&plan.group.interface, plan.group.group.ip()), 0);
        let post = Post::open(&plan.group, at, plan.options.network.hops, offload, (plan.block_len, None))?;
        let opener = plan.secret.clone().map(Opener::with_secret);
        let collector = Collector::new(post.ear()?, offload, plan.block_len, opener)?;
        poller.add(collector.socket(), MEMBERS, Interest::Read)?;
        Ok(Some(Self { at: post.me().0, collector, batch: Batch::default() }))
    }

    /// The address of the socket.
    pub fn at(&self) -> SocketAddr {
        self.at
    }

    /// Hands on what receivers of this session have reported.
    pub fn hear(
        &mut self,
        session: SessionId,
        mut reported: impl FnMut(Member, FileId, Message),
    ) -> Result<(), SendError> {
        for _ in 0..READS_A_TURN {
            let Some(from) = self.collector.receive_from(&mut self.batch)? else { break };
            let items = self.batch.take_items();
            self.batch.clear();
            for item in items {
                if let Item::Message { file, message: message @ Message::Lacking(_) } = item
                    && file.session() == session
                {
                    reported(member(from), file, message);
                }
            }
        }
        Ok(())
    }
}
