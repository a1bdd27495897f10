//! Why a packet with Xcast's routing header is not forwarded. Its reasons are counted behind MEADcast's.

use std::net::Ipv6Addr;

use crate::malformed::malformed;

malformed! {
    options: Ports;

    "truncated" "packet: {have} bytes are there, {need} are needed" Truncated { have: usize, need: usize };
    "version" "version: {0} found, expected 1" Version(u8);
    "dscps" "D bit: 1 found, expected 0: a code point for each destination is not supported" Dscps;
    "no-address" "number of destinations: 0 found, expected 1 to 32" NoAddress;
    "too-many-addresses" "number of destinations: {0} found, expected 1 to 32" TooManyAddresses(u8);
    "header-length"
        "header extension length: {found} found, expected {expected} for this number of destinations"
        HeaderLen { found: u8, expected: u8 };
    "segments-left" "fourth octet: {0} found, expected 0" SegmentsLeft(u8);
    "checksum" "checksum: {found:#06x} found, expected {expected:#06x}" Checksum { found: u16, expected: u16 };
    "bitmap-beyond-list" "bitmap: a bit beyond the {0} destinations found, expected none" BitmapBeyondList(u8);
    "nothing-valid" "bitmap: no bit found, expected one of a destination at least" NothingValid;
    "address"
        "list of addresses: {0} found, expected unicast addresses that can be forwarded to"
        Address(Ipv6Addr);
    "ports" "list of ports: {0}" Ports(&'static str);
    "second-routing-header"
        "next header: a second routing header (43) found, expected none"
        SecondRoutingHeader;
    "address-twice" "list of addresses: {0} found twice, expected each destination once" Twice(Ipv6Addr);
}
