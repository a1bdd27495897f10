//! Somebody who writes false things to the group: announcements, ends and blocks, of objects that exist and of
//! others. Everybody who hears the group can do that, because the packets of this simulation are not sealed.

use std::{rc::Rc, time::Duration};

use rand::{Rng as _, RngExt};
use rand_chacha::ChaCha8Rng;
use treecast_wire::{
    header::FileId,
    message::{BeginOfFile, Message, SymbolsSent, TransferType},
};

use super::{
    Scenario,
    scenario::millis,
    sender_node::{Packet, session},
};
use crate::network::generator;

const PACKETS: usize = 150;

/// No forged block lies behind this position.
const CONTENT_LEN: usize = 300_000;

/// Forged packets, each with the time and the receiver that it comes to.
pub(super) fn packets(scenario: &Scenario) -> Vec<(Duration, usize, Packet)> {
    let mut random = generator(scenario.seed, 2);
    let mut content = vec![0; CONTENT_LEN];
    random.fill_bytes(&mut content);
    let content: Rc<[u8]> = content.into();
    let mut packets = Vec::new();
    for _ in 0..PACKETS {
        let (time, packet) = (millis(random.random_range(0..900)), packet(&mut random, scenario, &content));
        for receiver in 0..scenario.receivers.len() {
            if random.random_bool(0.8) {
                packets.push((time, receiver, packet.clone()));
            }
        }
    }
    packets
}

fn packet(random: &mut ChaCha8Rng, scenario: &Scenario, content: &Rc<[u8]>) -> Packet {
    let file = FileId::new(session(scenario), index(random, scenario));
    if scenario.fec.is_some() && random.random_bool(0.3) {
        return symbols(random, scenario, file, content);
    }
    let message = match random.random_range(0..4) {
        0 => Message::EndOfFile,
        1 => announcement(random, scenario, file.index()),
        _ => {
            let block_len = usize::from(scenario.block_len);
            let start = random.random_range(0..CONTENT_LEN / block_len) * block_len;
            let end = (start + random.random_range(1..20) * block_len).min(CONTENT_LEN);
            return Packet::Blocks { file, range: start as u64..end as u64, content: Rc::clone(content) };
        }
    };
    Packet::Message(message.to_packet(file).into())
}

/// Returns forged repair symbols, or a forged message that symbols have run out.
fn symbols(random: &mut ChaCha8Rng, scenario: &Scenario, file: FileId, content: &Rc<[u8]>) -> Packet {
    let source_block = random.random_range(0..3);
    let first: u32 = random.random_range(0..2_200);
    if random.random_bool(0.2) {
        let message = Message::SymbolsSent(SymbolsSent { source_block, next: first });
        return Packet::Message(message.to_packet(file).into());
    }
    let (block_len, start) = (u64::from(scenario.block_len), u64::from(source_block << 16 | first));
    let positions = start * block_len..(start + random.random_range(1..20)) * block_len;
    Packet::Symbols { file, positions, content: Rc::clone(content) }
}

/// Draws an object's index: mostly of an object that exists or may exist, and sometimes one far ahead.
fn index(random: &mut ChaCha8Rng, scenario: &Scenario) -> u32 {
    if random.random_bool(0.1) {
        return random.random_range(1..4) * 65_535;
    }
    random.random_range(0..scenario.objects.len() as u32 + 3)
}

/// Returns a forged announcement: with the object's size and another name, or with another size.
fn announcement(random: &mut ChaCha8Rng, scenario: &Scenario, index: u32) -> Message {
    let size = scenario.objects.get(index as usize).map_or(1_000, |object| object.size as u64);
    let size = match random.random_range(0..5) {
        0 => size,
        1 => u64::MAX,
        2 => 0,
        _ => random.random_range(0..CONTENT_LEN as u64),
    };
    BeginOfFile::new(TransferType::DiskToDisk, size, "forged")
        .map_or(Message::EndOfFile, Message::BeginOfFile)
}
