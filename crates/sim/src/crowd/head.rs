//! The sender of a crowd.

use std::sync::Arc;

use treecast_proto::{
    Instant, Step,
    local::{Sender, SenderConfig},
    object::{Address, Destination, Lane, SenderEvent, SenderInput, SenderTransmit},
    policy::local_window_bytes,
};
use treecast_wire::{
    header::FileId,
    message::{BeginOfFile, TransferType},
};

use super::{Broadcast, Content, Crowd, Packet, Post, SESSION, To, place, sender};
use crate::schedule::Schedule;

/// The value that stands for the hash of the object.
pub(super) const HASH: [u8; 32] = [1; 32];

#[derive(Debug)]
pub(super) struct Head {
    pub machine: Sender,
    schedule: Schedule<Due>,
    wake: Option<Instant>,
    pub is_closed: bool,
    pub sent_bytes: u64,
    /// Packets of data that were sent again.
    pub repairs: u64,
}

#[derive(Debug)]
enum Due {
    Wake,
    Packet(Arc<Packet>),
}

impl Head {
    pub fn new(plan: &Crowd) -> Self {
        let config = SenderConfig {
            session: SESSION,
            block_len: plan.block_len,
            me: sender(),
            mode: plan.mode,
            max_run_len: plan.max_run_len,
            rate_bps: plan.rate_bps,
            shares_link: false,
            minimum_rate_bps: 0,
            window_bytes: local_window_bytes(plan.rate_bps),
            settling: plan.delay * 20,
            wait_for: None,
            named: Some(plan.receivers as u32),
            copies: None,
            tuning: plan.tuning.clone(),
        };
        let object = BeginOfFile::new(TransferType::DiskToDisk, plan.size_bytes, "object");
        let mut machine = Sender::new(config, object.into_iter().collect());
        machine.handle(Instant::ZERO, SenderInput::Hashed { file: FileId::new(SESSION, 0), hash: HASH });
        let mut schedule = Schedule::default();
        schedule.at(Instant::ZERO, Due::Wake);
        Self { machine, schedule, wake: Some(Instant::ZERO), is_closed: false, sent_bytes: 0, repairs: 0 }
    }

    pub fn post(&mut self, at: Instant, packet: Arc<Packet>) {
        self.schedule.at(at, Due::Packet(packet));
    }

    pub fn next(&self) -> Option<Instant> {
        self.schedule.next()
    }

    pub fn run_until(&mut self, plan: &Crowd, end: Instant, broadcasts: &mut Vec<Broadcast>) -> Vec<Post> {
        let mut posts = Vec::new();
        while self.schedule.next().is_some_and(|next| next < end)
            && let Some(due) = self.schedule.take()
        {
            let now = self.schedule.now();
            match due {
                Due::Wake if self.wake != Some(now) => continue,
                Due::Wake => self.wake = None,
                Due::Packet(packet) => {
                    if let Packet { from, file, content: Content::Message(message), .. } = &*packet {
                        let (from, file, message) = (*from, *file, message.clone());
                        self.machine.handle(now, SenderInput::Local { from, file, message });
                    }
                }
            }
            self.poll(plan, now, broadcasts, &mut posts);
        }
        posts
    }

    fn poll(&mut self, plan: &Crowd, now: Instant, broadcasts: &mut Vec<Broadcast>, posts: &mut Vec<Post>) {
        loop {
            let (to, packet) = match self.machine.poll(now, Lane::Group) {
                Step::Transmit(SenderTransmit::Message { to, file, message }) => {
                    (to, Packet::message(sender(), file, message))
                }
                Step::Transmit(SenderTransmit::Blocks { to, file, range, .. }) => {
                    (to, Packet::blocks(sender(), file, range, plan.block_len))
                }
                Step::Transmit(_) => continue,
                Step::Event(event) => {
                    self.is_closed |= event == SenderEvent::Closed;
                    continue;
                }
                Step::Wait(deadline, _) => {
                    let deadline = deadline.filter(|at| self.wake.is_none_or(|wake| *at < wake));
                    if let Some(at) = deadline {
                        self.wake = Some(at);
                        self.schedule.at(at, Due::Wake);
                    }
                    return;
                }
            };
            self.sent_bytes += packet.bytes;
            let at = now + plan.delay;
            let to = match to {
                Destination::Group => {
                    broadcasts.push(Broadcast { at, packet });
                    continue;
                }
                Destination::Local(Address::Group(group)) => To::Group(group.0 as usize - 1),
                Destination::Local(Address::Member(member)) => match place(member) {
                    Some((site, place)) => To::Receiver(site, place),
                    None => continue,
                },
                _ => continue,
            };
            self.repairs += if matches!(packet.content, Content::Blocks(_)) { packet.count } else { 0 };
            posts.push(Post { at, to, packet });
        }
    }
}
