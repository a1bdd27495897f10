//! The TUN device that programs send to (meadcast-thesis-2024, 4.3.1, "Startup"), with a host route to it.
//!
//! It is created with `/dev/net/tun` and three requests to the kernel. The crate `tun-rs`, which DESIGN names,
//! serves many systems and async runtimes, and brings a netlink library. A device that is only read needs none
//! of that.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    mem,
    net::{Ipv6Addr, UdpSocket},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::fs::OpenOptionsExt,
    },
};

use thiserror::Error;

use crate::offload::{OFFLOAD_LEN, Offload};

const DEVICE: &str = "/dev/net/tun";

/// The default name. The kernel replaces `%d` by a free number.
const ANY_NAME: &str = "mead%d";

/// The smallest MTU. An interface with less has no IPv6 (RFC 8200, section 5).
pub const MIN_MTU: u32 = 1280;

/// The largest number of waiting packets. A program may send a burst. The kernel drops further packets.
const QUEUE_PACKETS: libc::c_int = 4096;

/// Offload flags of Linux's `if_tun.h`: checksums are left to the sender of the packet, and UDP super-packets
/// are not divided. IPv6 offload is only available together with IPv4's.
const TUN_F_CSUM: u32 = 0x01;
const TUN_F_USO4: u32 = 0x20;
const TUN_F_USO6: u32 = 0x40;

/// `sockios.h` of Linux.
const SIOCSIFTXQLEN: libc::c_ulong = 0x8943;

/// The field with the packets that were dropped on their way to a program, in a line of /proc/net/dev behind
/// the name.
const DROPPED_FIELD: usize = 11;

/// The metric of a route without a preference of its own (`IP6_RT_PRIO_USER`).
const ROUTE_METRIC: u32 = 1024;

/// `struct in6_rtmsg` of Linux's `ipv6_route.h`. The fields of libc's own type cannot be set.
#[repr(C)]
#[derive(Default)]
struct Route {
    destination: [u8; 16],
    source: [u8; 16],
    gateway: [u8; 16],
    kind: u32,
    destination_len: u16,
    source_len: u16,
    metric: u32,
    info: libc::c_ulong,
    flags: u32,
    interface: libc::c_int,
}

/// The reason why there is no TUN device.
#[derive(Debug, Error)]
pub enum TunError {
    #[error("cannot open {DEVICE}: {0}; be root, and load the kernel's module with `modprobe tun`")]
    Open(io::Error),
    #[error("cannot make the TUN device {name}: {error}")]
    Create { name: String, error: io::Error },
    #[error("the name {0:?} is no good for an interface: take up to 15 letters, digits, - and _")]
    Name(String),
    #[error("there is a route to {0} already")]
    Taken(Ipv6Addr),
    #[error("cannot configure the TUN device {name} ({what}): {error}; is IPv6 disabled here?")]
    Configure { name: String, what: &'static str, error: io::Error },
}

/// A TUN device. It and its route are removed when this is dropped, or the process ends.
#[derive(Debug)]
pub struct Tun {
    file: File,
    name: String,
}

impl Tun {
    /// Creates a device with a route to `address` only. Reading it does not wait.
    pub fn open(name: Option<&str>, address: Ipv6Addr, mtu: u32) -> Result<Self, TunError> {
        if has_host_route(address) {
            return Err(TunError::Taken(address));
        }
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(DEVICE);
        let file = file.map_err(TunError::Open)?;
        let wanted = name.unwrap_or(ANY_NAME);
        let mut request = interface_request(wanted).ok_or_else(|| TunError::Name(wanted.to_owned()))?;
        let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        control(&file, libc::TUNSETIFF as libc::c_ulong, &mut request)
            .map_err(|error| TunError::Create { name: wanted.to_owned(), error })?;
        let tun = Self { file, name: name_in(&request) };
        tun.take_super_packets();
        tun.configure(address, mtu)?;
        Ok(tun)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Asks for programs' super-packets in one piece. A kernel before Linux 6.2 divides them.
    fn take_super_packets(&self) {
        let offloads = libc::c_ulong::from(TUN_F_CSUM | TUN_F_USO4 | TUN_F_USO6);
        // SAFETY: the request takes a number.
        unsafe { libc::ioctl(self.file.as_raw_fd(), libc::TUNSETOFFLOAD as _, offloads) };
    }

    /// The next packet, and the work that is left to do on it. `None` if there is none now.
    pub fn read<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<(Offload, &'a mut [u8])>> {
        match (&self.file).read(buffer) {
            Ok(len) => {
                let packet = buffer[..len].split_first_chunk_mut::<OFFLOAD_LEN>();
                Ok(packet.map(|(offload, packet)| (Offload::parse(offload), packet)))
            }
            Err(error) if [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted].contains(&error.kind()) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The number of packets that came when the queue was full.
    pub fn dropped(&self) -> u64 {
        let text = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
        let mut lines =
            text.lines().filter_map(|line| line.trim().strip_prefix(&self.name)?.strip_prefix(':'));
        let field = lines.next().and_then(|line| line.split_whitespace().nth(DROPPED_FIELD));
        field.and_then(|field| field.parse().ok()).unwrap_or(0)
    }

    /// Sets the length of packets that the device takes, in bytes.
    pub fn set_mtu(&self, mtu: u32) -> Result<(), TunError> {
        let failed = |error| TunError::Configure { name: self.name.clone(), what: "MTU", error };
        let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).map_err(failed)?;
        let mut request = interface_request(&self.name).expect("the kernel's own name");
        request.ifr_ifru.ifru_mtu = mtu as libc::c_int;
        control(&socket, libc::SIOCSIFMTU as libc::c_ulong, &mut request).map_err(failed)
    }

    fn configure(&self, address: Ipv6Addr, mtu: u32) -> Result<(), TunError> {
        let failed = |what| move |error| TunError::Configure { name: self.name.clone(), what, error };
        let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).map_err(failed("no IPv6 socket"))?;
        self.set_mtu(mtu)?;
        let mut request = interface_request(&self.name).expect("the kernel's own name");
        // The union's member for it (`ifru_ivalue`) has the same layout as this one.
        request.ifr_ifru.ifru_metric = QUEUE_PACKETS;
        control(&socket, SIOCSIFTXQLEN, &mut request).map_err(failed("queue"))?;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        control(&socket, libc::SIOCSIFFLAGS as libc::c_ulong, &mut request).map_err(failed("up"))?;
        control(&socket, libc::SIOCGIFINDEX as libc::c_ulong, &mut request).map_err(failed("index"))?;
        let mut route = Route {
            destination: address.octets(),
            destination_len: 128,
            metric: ROUTE_METRIC,
            flags: u32::from(libc::RTF_UP | libc::RTF_HOST),
            // SAFETY: the kernel has just written the index.
            interface: unsafe { request.ifr_ifru.ifru_ifindex },
            ..Route::default()
        };
        control(&socket, libc::SIOCADDRT as libc::c_ulong, &mut route).map_err(failed("route"))
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Whether the kernel has a route to exactly this address.
fn has_host_route(address: Ipv6Addr) -> bool {
    let digits: String = address.octets().iter().map(|octet| format!("{octet:02x}")).collect();
    let routes = std::fs::read_to_string("/proc/net/ipv6_route").unwrap_or_default();
    routes.lines().any(|line| line.starts_with(&format!("{digits} 80 ")))
}

fn interface_request(name: &str) -> Option<libc::ifreq> {
    let is_good = |letter: u8| letter.is_ascii_alphanumeric() || b"-_%.".contains(&letter);
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || !name.bytes().all(is_good) {
        return None;
    }
    // SAFETY: the request is plain data for which zeroes are good.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Some(request)
}

fn name_in(request: &libc::ifreq) -> String {
    let letters = request.ifr_name.iter().take_while(|letter| **letter != 0);
    letters.map(|letter| char::from(*letter as u8)).collect()
}

fn control<T>(fd: &impl AsRawFd, what: libc::c_ulong, argument: &mut T) -> io::Result<()> {
    // SAFETY: callers pass the type that the request takes.
    match unsafe { libc::ioctl(fd.as_raw_fd(), what as _, std::ptr::from_mut(argument)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_interface_can_have_are_refused_before_anything_is_made() {
        for name in ["", "sixteen-letters-", "a b", "a/b"] {
            let error = Tun::open(Some(name), Ipv6Addr::LOCALHOST, MIN_MTU).map(drop);
            // Without the device there is the other error.
            assert!(
                matches!(error, Err(TunError::Name(_) | TunError::Open(_) | TunError::Taken(_))),
                "{name}"
            );
        }
        assert!(interface_request("sixteen-letters-").is_none());
        assert_eq!(interface_request(ANY_NAME).map(|request| name_in(&request)).as_deref(), Some(ANY_NAME));
    }
}
