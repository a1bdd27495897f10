//! Why a packet with MEADcast's routing header is not forwarded.

use std::net::Ipv6Addr;

use crate::malformed::malformed;

malformed! {
    options: Options;

    "truncated" "packet: {have} bytes are there, {need} are needed" Truncated { have: usize, need: usize };
    "no-address" "number of destinations: 0 found, expected 1 to 32" NoAddress;
    "too-many-addresses" "number of destinations: {0} found, expected 1 to 32" TooManyAddresses(u8);
    "header-length"
        "header extension length: {found} found, expected {expected} for this number of destinations"
        HeaderLen { found: u8, expected: u8 };
    "segments-left" "segments left: {0} found, expected 0" SegmentsLeft(u8);
    "flags" "flags: {0:#04b} found, expected 00, 10 or 11" Flags(u8);
    "discovery-of-many" "number of destinations: {0} found, expected 1 in discovery" DiscoveryOfMany(u8);
    "discovery-with-payload"
        "next header: {0} found, expected 59 (none) or 60 (options before it) in discovery"
        DiscoveryWithPayload(u8);
    "map-beyond-list" "maps: a bit beyond the {0} addresses found, expected none" MapBeyondList(u8);
    "delivery-of-receiver"
        "delivery map: the bit of a receiver found, expected bits of routers only"
        DeliveryOfReceiver;
    "receiver-without-router"
        "router map: the first address is a receiver, expected a router before each receiver"
        ReceiverWithoutRouter;
    "address" "address list: {0} found, expected unicast addresses that can be forwarded to" Address(Ipv6Addr);
    "options" "options: {0}" Options(&'static str);
    "second-routing-header"
        "next header: a second routing header (43) found, expected none"
        SecondRoutingHeader;
    "address-twice" "address list: {0} found twice, expected each address once" Twice(Ipv6Addr);
}
