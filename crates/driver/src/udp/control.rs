//! Control messages of `sendmsg` and `recvmsg`: the segment size of a super-packet, the drop counter, and the source.

use std::{mem, net::Ipv6Addr};

/// Room for the control messages that this crate sends and receives, aligned as the kernel wants it.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(crate) struct ControlBuffer([u8; Self::LEN]);

impl ControlBuffer {
    pub const LEN: usize = 128;

    pub fn new() -> Self {
        Self([0; Self::LEN])
    }

    pub fn as_mut_ptr(&mut self) -> *mut libc::c_void {
        self.0.as_mut_ptr().cast()
    }
}

/// The two lowest bits of the traffic class (RFC 3168, 5).
const ECN_MASK: u8 = 3;
const CONGESTION_EXPERIENCED: u8 = 3;

/// What the kernel told about one received message.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ancillary {
    /// Length of each datagram but the last in a super-packet, in bytes; none for a single datagram.
    pub segment_len: Option<usize>,
    /// Datagrams dropped at this socket so far, modulo 2^32; none when nothing was.
    pub dropped: Option<u32>,
    /// Congestion was experienced on the way (RFC 3168, 5).
    pub is_marked: bool,
}

/// Makes `message` a super-packet of datagrams of `segment_len` bytes.
pub(super) fn set_segment_len(message: &mut libc::msghdr, control: &mut ControlBuffer, segment_len: u16) {
    set(message, control, libc::SOL_UDP, libc::UDP_SEGMENT, segment_len);
}

/// Has `message` leave by this interface, from `source`, instead of from the address that the kernel would choose (RFC 3542, 6).
pub(crate) fn set_source(
    message: &mut libc::msghdr,
    control: &mut ControlBuffer,
    source: Ipv6Addr,
    interface: u32,
) {
    let ipi6_addr = libc::in6_addr { s6_addr: source.octets() };
    let info = libc::in6_pktinfo { ipi6_addr, ipi6_ifindex: interface as _ };
    set(message, control, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
}

/// Gives `message` one control message, with a value that has room in the buffer.
fn set<T: Copy>(message: &mut libc::msghdr, control: &mut ControlBuffer, level: i32, kind: i32, value: T) {
    const { assert!(mem::size_of::<T>() <= ControlBuffer::LEN / 2, "with its header it has room") };
    // SAFETY: the buffer is aligned and larger than CMSG_SPACE of the value; `message` points at it while the
    // header and the value are written through pointers that libc computes inside it.
    unsafe {
        message.msg_control = control.as_mut_ptr();
        message.msg_controllen = libc::CMSG_SPACE(mem::size_of::<T>() as u32) as usize;
        let header = libc::CMSG_FIRSTHDR(message);
        (*header).cmsg_level = level;
        (*header).cmsg_type = kind;
        (*header).cmsg_len = libc::CMSG_LEN(mem::size_of::<T>() as u32) as usize;
        libc::CMSG_DATA(header).cast::<T>().write_unaligned(value);
    }
}

/// Reads what `recvmsg` left in the control buffer that `message` points at.
///
/// # Safety
/// `message` must have been filled by a successful `recvmsg`, and its control buffer must still live.
pub(super) unsafe fn read(message: &libc::msghdr) -> Ancillary {
    let mut ancillary = Ancillary::default();
    // SAFETY: the caller vouches for `message`; the CMSG functions stay inside its control buffer.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while let Some(current) = header.as_ref() {
            let data = libc::CMSG_DATA(header);
            match (current.cmsg_level, current.cmsg_type) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let len = data.cast::<libc::c_int>().read_unaligned();
                    ancillary.segment_len = usize::try_from(len).ok();
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    ancillary.dropped = Some(data.cast::<u32>().read_unaligned());
                }
                (libc::IPPROTO_IP, libc::IP_TOS) => {
                    ancillary.is_marked = data.read() & ECN_MASK == CONGESTION_EXPERIENCED;
                }
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    let class = data.cast::<libc::c_int>().read_unaligned();
                    ancillary.is_marked = class as u8 & ECN_MASK == CONGESTION_EXPERIENCED;
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    ancillary
}
