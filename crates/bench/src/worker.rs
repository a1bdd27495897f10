//! The processes that measure the floor: one only sends and receives, one only writes a file, one only hashes.

use std::{
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    os::unix::fs::FileExt,
    path::Path,
    time::Duration,
};

use treecast_driver::{
    files::TargetFolder,
    receive::RECEIVE_BUFFER_BYTES,
    udp::{
        DEFAULT_MULTICAST_HOPS, DatagramReceiver, GroupAddress, Offload, Transmitter, blocks_in_super_packet,
        open_group_receiver, open_group_sender,
    },
};
use treecast_host::{
    interface::Interface,
    poller::{Interest, Poller},
};
use treecast_wire::{
    header::{FileId, HEADER_LEN, Header, PacketType},
    message::{Attributes, ModificationTime, ObjectKind},
};

use super::{attack, stage::Result};

/// The bytes of a block behind IPv6, UDP and the header, at an MTU of 1500.
const BLOCK_LEN: usize = 1420;

/// The beginning of the line that reports lost packets. Nothing is repaired, so a loss ends the measurement.
pub(super) const LOST: &str = "packets were lost";

const RUN_LEN: usize = 256 * 1024;

/// The number of bytes after which a receiver sends an acknowledgement.
const ACKNOWLEDGED_BYTES: u64 = 1 << 19;

/// The number of bytes by which the sender may run ahead of the slowest receiver. Receive buffers and the
/// queues between the namespaces surely hold them.
const WINDOW_BYTES: u64 = RECEIVE_BUFFER_BYTES as u64 / 2;

/// The longest time for the last packets.
const LAST_PACKETS: Duration = Duration::from_secs(2);

/// Does the part of a measurement that a worker process is started for. `args` names it.
///
/// # Errors
/// One line if there is no such worker, or if it fails.
pub fn run(args: &[String]) -> Result<()> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["send", interface, group, receivers, bytes] => {
            send(&group_address(interface, group)?, receivers.parse()?, bytes.parse()?)
        }
        ["receive", interface, group, control, bytes] => {
            receive(&group_address(interface, group)?, control.parse()?, bytes.parse()?)
        }
        ["write", path, bytes] => write(path, bytes.parse()?),
        ["hash", bytes] => hash(bytes.parse()?),
        ["attack", interface, ticket] => attack::run(interface, ticket.as_ref()),
        ["create", folder, files, bytes] => create(folder.as_ref(), files.parse()?, bytes.parse()?),
        _ => Err("no such worker".into()),
    }
}

fn group_address(interface: &str, group: &str) -> Result<GroupAddress> {
    let interface = Interface::named(interface)?;
    Ok(GroupAddress { group: group.parse()?, source: None, interface })
}

/// Sends super-packets to all receivers, no further ahead than their buffers hold.
fn send(address: &GroupAddress, receivers: usize, bytes: u64) -> Result<()> {
    let socket = open_group_sender(address, DEFAULT_MULTICAST_HOPS)?;
    let mut transmitter = Transmitter::new(socket, Offload::SuperPackets);
    let listener = TcpListener::bind((IpAddr::from([0_u16; 8]), 0))?;
    wait_for_go(&listener.local_addr()?.port().to_string())?;
    let mut acknowledged = Vec::new();
    for _ in 0..receivers {
        let (stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(LAST_PACKETS))?;
        acknowledged.push((stream, 0_u64));
    }
    let run = vec![7; blocks_in_super_packet(BLOCK_LEN) * BLOCK_LEN];
    let mut first =
        Header { file_id: FileId(0), sequence: 0, payload_len: 0, kind: PacketType::Data, number: 0 };
    while first.sequence < bytes {
        let end = first.sequence + run.len() as u64;
        for (stream, taken) in &mut acknowledged {
            while end.saturating_sub(*taken) > WINDOW_BYTES {
                stream.read_exact(&mut [0]).map_err(|error| format!("{LOST}: {error}"))?;
                *taken += ACKNOWLEDGED_BYTES;
            }
        }
        transmitter.send_blocks(address.scoped(), first, BLOCK_LEN, &run)?;
        first.sequence = end;
    }
    Ok(())
}

/// Receives super-packets, and discards them.
fn receive(address: &GroupAddress, control: SocketAddr, bytes: u64) -> Result<()> {
    let (socket, _) = open_group_receiver(address, RECEIVE_BUFFER_BYTES)?;
    let mut receiver = DatagramReceiver::new(socket, Offload::SuperPackets);
    let mut poller = Poller::new()?;
    poller.add(receiver.socket(), 0, Interest::Read)?;
    let mut stream = TcpStream::connect(control)?;
    stream.set_nodelay(true)?;
    poller.add(&stream, 1, Interest::Read)?;
    wait_for_go("")?;
    let (mut taken, mut acknowledged) = (0, 0);
    let mut ready = Vec::new();
    let mut timeout = None;
    while taken < bytes {
        ready.clear();
        poller.wait(timeout, &mut ready)?;
        if timeout.is_some() && ready.is_empty() {
            return Err(format!("{LOST}: {} bytes", bytes - taken).into());
        }
        // The sender sends no data on the connection. Its end makes it readable.
        if ready.iter().any(|event| event.token == 1) {
            poller.remove(&stream)?;
            timeout = Some(LAST_PACKETS);
        }
        let mut add = |_, datagram: &[u8]| taken += (datagram.len() - HEADER_LEN) as u64;
        while receiver.receive(&mut add)? {}
        while taken - acknowledged >= ACKNOWLEDGED_BYTES {
            // The sender may have ended already.
            let _ = stream.write_all(&[1]);
            acknowledged += ACKNOWLEDGED_BYTES;
        }
    }
    Ok(())
}

fn write(path: &str, bytes: u64) -> Result<()> {
    let file = std::fs::File::create(path)?;
    let buffer = vec![7; RUN_LEN];
    wait_for_go("")?;
    for position in (0..bytes).step_by(RUN_LEN) {
        let len = (bytes - position).min(RUN_LEN as u64) as usize;
        file.write_all_at(&buffer[..len], position)?;
    }
    Ok(())
}

fn hash(bytes: u64) -> Result<()> {
    let buffer = vec![7; RUN_LEN];
    let mut hasher = blake3::Hasher::new();
    wait_for_go("")?;
    for position in (0..bytes).step_by(RUN_LEN) {
        hasher.update(&buffer[..(bytes - position).min(RUN_LEN as u64) as usize]);
    }
    // The hash must be used, or the compiler would not compute it.
    super::answer(&hasher.finalize().to_hex())?;
    Ok(())
}

/// Creates files like a receiver: each appears under its name complete, with its mode and time.
fn create(folder: &Path, files: u32, bytes: usize) -> Result<()> {
    let content = vec![7; bytes];
    let folder = TargetFolder::open(folder)?;
    let modified = ModificationTime { seconds: 1_000_000_000, nanoseconds: 0 };
    let attributes = Attributes { kind: ObjectKind::File, mode: 0o644, modified };
    wait_for_go("")?;
    for number in 0..files {
        folder.make_file(&number.to_string(), attributes, &content)?;
    }
    Ok(())
}

fn wait_for_go(note: &str) -> Result<()> {
    super::answer(&format!("ready {note}"))?;
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}
