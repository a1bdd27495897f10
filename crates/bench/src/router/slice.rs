//! One measurement: frames are sent as fast as possible for a while, and arrivals are counted.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use serde::Serialize;
use treecast_host::packet::BATCH_LEN;
use treecast_measure::sample::own_cpu_ns;

use super::{Result, frames::Flow, network::Network};

/// The time in which packets on their way arrive after the sender has stopped.
const LAST_PACKETS: Duration = Duration::from_millis(5);

/// The result of sending for a while.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Slice {
    pub seconds: f64,
    /// Processor time in seconds: the sender's, and the kernel's for the packets up to the receivers' sockets.
    pub cpu_seconds: f64,
    pub packets_in: u64,
    /// The number of packets at all receivers together. A super-packet counts as one.
    pub packets_out: u64,
    pub bytes_out: u64,
    /// The number of copies that did not arrive.
    pub packets_lost: u64,
}

impl Slice {
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes_out as f64 / self.seconds
    }

    pub fn packets_per_second(&self) -> f64 {
        self.packets_out as f64 / self.seconds
    }

    pub fn cpu_per_packet_in(&self) -> f64 {
        self.cpu_seconds / self.packets_in.max(1) as f64
    }

    pub fn cpu_per_byte_out(&self) -> f64 {
        self.cpu_seconds / self.bytes_out.max(1) as f64
    }

    /// Processor time of router and receivers for each packet out, in seconds. The cost of sending, which
    /// `stray` shows, is subtracted.
    pub fn cpu_per_packet_out(&self, stray: &Slice) -> f64 {
        let forwarding = self.cpu_seconds - stray.cpu_per_packet_in() * self.packets_in as f64;
        forwarding / self.packets_out.max(1) as f64
    }
}

/// Sends a flow for this time.
pub(super) fn send(network: &mut Network, flow: &Flow, duration: Duration) -> Result<Slice> {
    network.lab.go_on()?;
    let frames: Vec<&[u8]> = flow.frames.iter().map(Vec::as_slice).cycle().take(BATCH_LEN).collect();
    let before = network.arrived();
    let (start, cpu_ns) = (Instant::now(), own_cpu_ns());
    let mut packets_in = 0;
    while start.elapsed() < duration {
        packets_in += network.frames.send_all(&frames)? as u64;
    }
    let (elapsed, cpu_ns) = (start.elapsed(), own_cpu_ns() - cpu_ns);
    std::thread::sleep(LAST_PACKETS);
    let after = network.arrived();
    let packets_out = after.packets - before.packets;
    Ok(Slice {
        seconds: elapsed.as_secs_f64(),
        cpu_seconds: cpu_ns as f64 * 1e-9,
        packets_in,
        packets_out,
        bytes_out: after.bytes - before.bytes,
        packets_lost: (packets_in * flow.copies as u64).saturating_sub(packets_out),
    })
}

/// A TCP connection through the router. Its far end is read as fast as possible.
pub struct Connection {
    near: TcpStream,
    read: Arc<AtomicU64>,
    reader: Option<JoinHandle<()>>,
}

impl Connection {
    pub fn open(network: &Network) -> Result<Self> {
        let (near, mut far) = network.connect()?;
        let read = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&read);
        let reader = std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 20];
            while let Ok(len @ 1..) = far.read(&mut buffer) {
                counter.fetch_add(len as u64, Ordering::Relaxed);
            }
        });
        Ok(Self { near, read, reader: Some(reader) })
    }

    /// Sends for this time. The processor time includes both processes.
    pub fn send(&mut self, network: &Network, duration: Duration) -> Result<Slice> {
        network.lab.go_on()?;
        let buffer = vec![0; 256 * 1024];
        let before = self.read.load(Ordering::Relaxed);
        let (start, cpu_ns) = (Instant::now(), own_cpu_ns());
        let mut bytes_in = 0;
        while start.elapsed() < duration {
            bytes_in += self.near.write(&buffer)? as u64;
        }
        let (elapsed, bytes_out) = (start.elapsed(), self.read.load(Ordering::Relaxed) - before);
        let cpu_seconds = (own_cpu_ns() - cpu_ns) as f64 * 1e-9;
        // Bytes that wait in the buffers must not count in the next measurement.
        while self.read.load(Ordering::Relaxed) - before < bytes_in {
            network.lab.go_on()?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Slice { seconds: elapsed.as_secs_f64(), cpu_seconds, bytes_out, ..Slice::default() })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A broken connection need not be ended.
        let _ = self.near.shutdown(Shutdown::Both);
        let _ = self.reader.take().map(JoinHandle::join);
    }
}
