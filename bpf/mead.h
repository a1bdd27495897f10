/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * What the MEADcast router's program and its daemon share. crates/dataplane/src/explicit/shared.rs has the same
 * in Rust and, like this file, asserts its layout when compiled.
 */
#ifndef TREECAST_MEAD_H
#define TREECAST_MEAD_H

typedef unsigned char mead_u8;
typedef unsigned short mead_u16;
typedef unsigned int mead_u32;
typedef unsigned long long mead_u64;

enum {
	MEAD_MAX_ADDRESSES = 32,
	MEAD_MAX_HOPS = 63,
	MEAD_FIXED_LEN = 16,
	MEAD_ADDRESS_LEN = 16,
	MEAD_MAX_OPTIONS_LEN = 256,
	/* IPv6 header, routing header with one address, options. */
	MEAD_MAX_REQUEST_LEN = 40 + 32 + MEAD_MAX_OPTIONS_LEN,
	/* Own addresses of a router. */
	MEAD_MAX_OWN = 4096,
	MEAD_MAX_NEIGHBOURS = 1024,
	/* Groups that are listened to on a router's links, and links of a group. */
	MEAD_MAX_GROUPS = 4096,
	MEAD_MAX_LANS = 32,
	/* Interfaces whose Ethernet addresses are known. */
	MEAD_MAX_INTERFACES = 4096,
	MEAD_REQUESTS_BYTES = 1 << 20,
	/* Prefixes of sources for which copies are made. */
	MEAD_MAX_ALLOWED = 1024,
	/* Networks whose copies are counted. */
	MEAD_MAX_SOURCES = 4096,
};

enum mead_dialect {
	MEAD_RFC = 0,
	MEAD_LINUX_6_5 = 1,
};

enum mead_mode {
	/* What comes is passed on as if there were no router. */
	MEAD_OFF = 0,
	MEAD_ACTS = 1,
	/* Discovery requests are passed on as if there were no router. */
	MEAD_LEAVES = 2,
};

/* Which sources are believed by the way that their packets came. */
enum mead_reverse_path {
	MEAD_RPF_OFF = 0,
	MEAD_RPF_LOOSE = 1,
	MEAD_RPF_STRICT = 2,
};

/* One entry of the table `config`. */
struct mead_config {
	mead_u32 mode;
	mead_u32 min_dsts;
	mead_u32 dialect;
	/* Whether all copies go the kernel's own way, past its firewall and policies. */
	mead_u32 through_kernel;
	/* After this long a neighbour is given a packet by the kernel's own way, so that it stays checked; 0: never. */
	mead_u64 refresh_ns;
	enum mead_reverse_path reverse_path;
	/* Whether copies are made for those in `allowed` alone. */
	mead_u32 has_allowed;
	/* Whether address lists must carry a proof. */
	mead_u32 needs_proof;
	/* For the sources of one network (/64); 0: any number. */
	mead_u32 copies_per_second;
	/* The key of proofs, and the number of the epoch. */
	mead_u64 list_key[2];
	mead_u64 epoch;
};

/* A key of the table `allowed`. */
struct mead_prefix {
	mead_u32 len;
	mead_u8 address[16];
};

/* A source, and by where its packets come. */
struct mead_path {
	mead_u32 source[4];
	mead_u32 interface;
};

/* Places in the table `counters`. The first ones are wire's `mead::Reason`: malformed packets, by what is wrong. */
enum mead_counter {
	MEAD_TRUNCATED = 0,
	MEAD_NO_ADDRESS = 1,
	MEAD_TOO_MANY_ADDRESSES = 2,
	MEAD_HEADER_LEN = 3,
	MEAD_SEGMENTS_LEFT = 4,
	MEAD_FLAGS = 5,
	MEAD_DISCOVERY_OF_MANY = 6,
	MEAD_DISCOVERY_WITH_PAYLOAD = 7,
	MEAD_MAP_BEYOND_LIST = 8,
	MEAD_DELIVERY_OF_RECEIVER = 9,
	MEAD_RECEIVER_WITHOUT_ROUTER = 10,
	MEAD_ADDRESS = 11,
	MEAD_OPTIONS = 12,
	MEAD_SECOND_ROUTING_HEADER = 13,
	MEAD_TWICE = 14,
	/* Other packets that end here. */
	MEAD_HOP_LIMIT = 15,
	MEAD_NOTHING_TO_DELIVER = 16,
	MEAD_NOT_REWRITTEN = 17,
	/* Packets in. */
	MEAD_DATA = 18,
	MEAD_REQUESTS = 19,
	MEAD_RESPONSES = 20,
	/* Requests that the daemon was too busy for; they were passed on. */
	MEAD_REQUESTS_UNHEARD = 21,
	/* Packets out. */
	MEAD_REPLICAS = 22,
	MEAD_WHOLE = 23,
	MEAD_UNICAST = 24,
	MEAD_PREMATURE = 25,
	/* Copies among them that went the kernel's own way. */
	MEAD_BY_KERNEL = 26,
	/* Copies among them that the device did not take. */
	MEAD_NOT_SENT = 27,
	/* Packets out to the listeners on a link. */
	MEAD_MULTICAST = 28,
	/* Packets that end here because nobody listens. */
	MEAD_NO_LISTENER = 29,
	/* Packets of which no copies were made, by why (`mead_refused`). */
	MEAD_REFUSED = 30,
	/* Xcast. The first ones are wire's `xcast::Reason`. */
	XCAST_TRUNCATED = 35,
	XCAST_VERSION = 36,
	XCAST_DSCPS = 37,
	XCAST_NO_ADDRESS = 38,
	XCAST_TOO_MANY_ADDRESSES = 39,
	XCAST_HEADER_LEN = 40,
	XCAST_SEGMENTS_LEFT = 41,
	XCAST_CHECKSUM = 42,
	XCAST_BITMAP_BEYOND_LIST = 43,
	XCAST_NOTHING_VALID = 44,
	XCAST_ADDRESS = 45,
	XCAST_PORTS = 46,
	XCAST_SECOND_ROUTING_HEADER = 47,
	XCAST_TWICE = 48,
	XCAST_HOP_LIMIT = 49,
	XCAST_NO_LISTENER = 50,
	/* Packets in. */
	XCAST_DATA = 51,
	/* Packets out: still Xcast, for the last destination, for one of too few, for the router itself, without a route, for listeners. */
	XCAST_COPIES = 52,
	XCAST_UNICAST = 53,
	XCAST_PREMATURE = 54,
	XCAST_LOCAL = 55,
	XCAST_UNROUTED = 56,
	XCAST_MULTICAST = 57,
	/* Packets to all Xcast routers on a link that end here because others serve all of whom they are for. */
	XCAST_FOR_OTHERS = 58,
	/* As MEAD_REFUSED. */
	XCAST_REFUSED = 59,
	/* Malformed packets that are right in the other dialect. */
	MEAD_OTHER_DIALECT = 64,
	MEAD_COUNTERS = 65,
};

/* Why no copies are made of a packet: proto's `mead::router::Refused`. */
enum mead_refused {
	REFUSED_REVERSE_PATH = 0,
	REFUSED_NOT_ALLOWED = 1,
	REFUSED_UNPROVED = 2,
	REFUSED_STALE = 3,
	REFUSED_LIMITED = 4,
};

/* One entry of the table `macs`. */
struct mead_mac {
	mead_u8 octets[6];
	mead_u16 unused;
};

/* A link with listeners, and the Ethernet address that the router has there. */
struct mead_lan {
	mead_u32 interface;
	mead_u8 mac[6];
	mead_u16 unused;
};

/* One entry of the table `groups`. */
struct mead_group {
	mead_u32 count;
	struct mead_lan lans[MEAD_MAX_LANS];
};

struct mead_neighbour_key {
	mead_u32 interface;
	mead_u8 address[16];
};

struct mead_neighbour {
	mead_u64 packets;
	mead_u64 bytes;
	mead_u64 refreshed_ns;
};

/* A discovery request for the daemon, as it came in. */
struct mead_request {
	mead_u32 interface;
	mead_u32 len;
	mead_u8 packet[MEAD_MAX_REQUEST_LEN];
};

_Static_assert(sizeof(struct mead_config) == 64, "as in shared.rs");
_Static_assert(__builtin_offsetof(struct mead_config, refresh_ns) == 16, "as in shared.rs");
_Static_assert(__builtin_offsetof(struct mead_config, list_key) == 40, "as in shared.rs");
_Static_assert(sizeof(struct mead_prefix) == 20, "as in shared.rs");
_Static_assert(sizeof(struct mead_mac) == 8, "as in shared.rs");
_Static_assert(sizeof(struct mead_lan) == 12, "as in shared.rs");
_Static_assert(__builtin_offsetof(struct mead_lan, mac) == 4, "as in shared.rs");
_Static_assert(sizeof(struct mead_group) == 4 + 12 * MEAD_MAX_LANS, "as in shared.rs");
_Static_assert(sizeof(struct mead_neighbour_key) == 20, "as in shared.rs");
_Static_assert(sizeof(struct mead_neighbour) == 24, "as in shared.rs");
_Static_assert(sizeof(struct mead_request) == 336, "as in shared.rs");
_Static_assert(__builtin_offsetof(struct mead_request, packet) == 8, "as in shared.rs");

#endif
