//! Control messages of `sendmsg` and `recvmsg`: the segment size of a super-packet and the drop counter.

use std::mem;

/// Room for the control messages that this crate sends and receives, aligned as the kernel wants it.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(super) struct ControlBuffer([u8; Self::LEN]);

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
    // SAFETY: the buffer is aligned and larger than CMSG_SPACE(2); `message` points at it while the
    // header and the value are written through pointers that libc computes inside it.
    unsafe {
        message.msg_control = control.as_mut_ptr();
        message.msg_controllen = libc::CMSG_SPACE(mem::size_of::<u16>() as u32) as usize;
        let header = libc::CMSG_FIRSTHDR(message);
        (*header).cmsg_level = libc::SOL_UDP;
        (*header).cmsg_type = libc::UDP_SEGMENT;
        (*header).cmsg_len = libc::CMSG_LEN(mem::size_of::<u16>() as u32) as usize;
        libc::CMSG_DATA(header).cast::<u16>().write_unaligned(segment_len);
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
