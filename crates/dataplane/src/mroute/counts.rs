//! The counts of packets that the kernel's multicast router keeps. Both address families ask for them by the same requests. The
//! structures differ only in their addresses (linux/mroute.h, linux/mroute6.h).

use std::{io, os::fd::AsFd};

use treecast_host::plain::{self, Plain};

use super::Slot;

/// SIOCGETVIFCNT, and SIOCGETMIFCNT_IN6.
const SIOCGETVIFCNT: libc::c_ulong = 0x89e0;
/// SIOCGETSGCNT, and SIOCGETSGCNT_IN6.
const SIOCGETSGCNT: libc::c_ulong = 0x89e1;

/// Counts of the packets that an entry has matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    pub packets: u64,
    pub bytes: u64,
    /// The number of these packets that arrived at another interface than the entry names, and were dropped.
    pub wrong_interface: u64,
}

/// struct sioc_sg_req, and struct sioc_sg_req6.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct EntryRequest<Address> {
    source: Address,
    group: Address,
    packets: libc::c_ulong,
    bytes: libc::c_ulong,
    wrong_interface: libc::c_ulong,
}

/// struct sioc_vif_req, and struct sioc_mif_req6.
#[derive(Clone, Copy)]
#[repr(C)]
struct InterfaceRequest {
    slot: u16,
    padding: [u8; size_of::<libc::c_ulong>() - 2],
    packets_in: libc::c_ulong,
    packets_out: libc::c_ulong,
    bytes_in: libc::c_ulong,
    bytes_out: libc::c_ulong,
}

const _: () = assert!(size_of::<InterfaceRequest>() == 5 * size_of::<libc::c_ulong>());

// SAFETY: integers and arrays of integers only.
unsafe impl Plain for InterfaceRequest {}

/// Asks for the counts of an entry.
pub(super) fn of_entry<Address>(router: &impl AsFd, source: Address, group: Address) -> io::Result<Counters>
where
    EntryRequest<Address>: Plain,
{
    let mut request = EntryRequest { source, group, packets: 0, bytes: 0, wrong_interface: 0 };
    // SAFETY: the request is about this structure.
    unsafe { plain::ioctl(router, SIOCGETSGCNT, &mut request) }?;
    let EntryRequest { packets, bytes, wrong_interface, .. } = request;
    Ok(Counters { packets, bytes, wrong_interface })
}

/// Asks how many multicast packets came in by an interface and were routed, and how many were routed out by it.
pub(super) fn of_interface(router: &impl AsFd, slot: Slot) -> io::Result<(u64, u64)> {
    let (packets_in, packets_out, bytes_in, bytes_out) = (0, 0, 0, 0);
    let padding = [0; size_of::<libc::c_ulong>() - 2];
    let mut request = InterfaceRequest { slot, padding, packets_in, packets_out, bytes_in, bytes_out };
    // SAFETY: the request is about this structure.
    unsafe { plain::ioctl(router, SIOCGETVIFCNT, &mut request) }?;
    Ok((request.packets_in, request.packets_out))
}
