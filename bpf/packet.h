/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/* A packet that has been read, the tables that the daemon fills and reads, and what is asked of addresses and maps. */
#ifndef TREECAST_PACKET_H
#define TREECAST_PACKET_H

#include "kernel.h"

enum {
	ETHERNET_LEN = 14,
	IP_LEN = 40,
	AT_IP = ETHERNET_LEN,
	AT_PAYLOAD_LEN = AT_IP + 4,
	AT_NEXT_HEADER = AT_IP + 6,
	AT_HOP_LIMIT = AT_IP + 7,
	AT_DESTINATION = AT_IP + 24,
	AT_HEADER = AT_IP + IP_LEN,
	AT_FLAGS = AT_HEADER + 5,
	AT_ADDRESSES = AT_HEADER + MEAD_FIXED_LEN,
};

enum {
	TCP = 6,
	UDP = 17,
	ROUTING = 43,
	FRAGMENT = 44,
	ICMPV6 = 58,
	NO_NEXT_HEADER = 59,
	DESTINATION_OPTIONS = 60,
};

struct ip_header {
	mead_u32 first;
	mead_u16 payload_len;
	mead_u8 next_header;
	mead_u8 hop_limit;
	mead_u32 source[4];
	mead_u32 destination[4];
};

/* Xcast's routing header before its destinations (RFC 5058, 9.3.2.1). */
struct xcast_header {
	mead_u8 next_header;
	mead_u8 len;
	mead_u8 routing_type;
	mead_u8 segments_left;
	mead_u8 flags;
	mead_u8 count;
	mead_u16 checksum;
	mead_u32 channel[4];
	mead_u32 bitmap[2];
};

/* Where one of Xcast's copies goes, and for which destinations. Interface 0: to a host on a link. */
struct next_hop {
	mead_u32 interface;
	mead_u32 address[4];
	mead_u32 members;
};

/* A packet that has been read, and the state of its copies. */
struct packet {
	mead_u32 addresses[MEAD_MAX_ADDRESSES][4];
	mead_u8 options[MEAD_MAX_OPTIONS_LEN];
	struct ip_header ip;
	/* Of Xcast. Members are the addresses of a copy; next hops are in the order of their first destinations. */
	struct xcast_header xcast;
	mead_u32 address_sum;
	mead_u32 members[MEAD_MAX_ADDRESSES][4];
	struct next_hop next_hops[MEAD_MAX_ADDRESSES];
	/* Destination and source, as they came. */
	mead_u8 ethernet[16];
	/* The last source and interface that were found to fit each other, and when. */
	struct mead_path path;
	mead_u64 path_checked_ns;
	/* All from here on is 0 before a packet is read. */
	mead_u32 count;
	/* Of the routing header. */
	mead_u32 header_len;
	mead_u32 hops;
	mead_u32 is_discovery;
	mead_u32 is_response;
	mead_u32 dont_replicate;
	/* In Xcast: the destinations that are valid. */
	mead_u32 delivery;
	mead_u32 routers;
	mead_u32 next_header;
	mead_u32 dialect;
	/* Whether it is for all Xcast routers on the link, and whether its Ethernet address is a group's, too. */
	mead_u32 is_to_all;
	mead_u32 came_by_group;
	/* Of the options header, if it is ours. */
	mead_u32 options_len;
	mead_u32 options_next;
	mead_u32 ports_at;
	mead_u32 ports;
	mead_u32 group_at;
	mead_u32 group[4];
	/* Where the epoch stands in the proof of the list; 0: there is none. */
	mead_u32 proof_at;
	/* Whether it may become multicast on links of this router. */
	mead_u32 may_multicast;
	/* Which kinds of addresses have been met (`check_address`). */
	mead_u64 seen[4];
	/* Upper layer: its kind and where its checksum and port stand; kind 0: there is none to correct. */
	mead_u32 upper;
	mead_u32 at_upper;
	/* As the copies are now. */
	mead_u32 len;
	mead_u32 segment_len;
	mead_u32 datagrams;
	mead_u32 destination[4];
	mead_u16 senders_port;
	mead_u16 port;
	mead_u32 is_stripped;
};

/* Word by word, not octet by octet. */
INLINE void forget(struct packet *packet)
{
	const mead_u32 kept = __builtin_offsetof(struct packet, count);

	__builtin_memset((mead_u32 *)packet + kept / sizeof(mead_u32), 0, sizeof(*packet) - kept);
}

enum { PATH_HOLDS_NS = 20000000 };

/* What loops over the address list share. Their bodies are callbacks, so that the verifier looks at each once. */
struct work {
	struct __sk_buff *skb;
	struct packet *packet;
	struct mead_config *settings;
	/* Routers that are this one, and that get replicas. In Xcast: next hops that get copies, of so many. */
	mead_u32 own_routers;
	mead_u32 replicas;
	mead_u32 ways;
	/* Receivers that get unicast: behind an own router, and behind one with few of them. In Xcast: those whose copies are
	 * for one, and for few. */
	mead_u32 served;
	mead_u32 early;
	/* How many of them are this host, and have no route. */
	mead_u32 local;
	mead_u32 unrouted;
	/* The first own router without receivers where a group is named, the group, and how many of its links are left. */
	mead_u32 designated;
	mead_u32 is_designated;
	struct mead_group *group;
	mead_u32 lans;
	int by_router;
	int is_wrong;
	int answer;
};

struct {
	int (*type)[BPF_MAP_TYPE_ARRAY];
	int (*max_entries)[1];
	mead_u32 *key;
	struct mead_config *value;
} config SECTION(".maps");

/* Until when the router acts, in nanoseconds of CLOCK_MONOTONIC. The daemon puts it off again and again while it lives. */
struct {
	int (*type)[BPF_MAP_TYPE_ARRAY];
	int (*max_entries)[1];
	mead_u32 *key;
	mead_u64 *value;
} acts_until SECTION(".maps");

struct {
	int (*type)[BPF_MAP_TYPE_HASH];
	int (*max_entries)[MEAD_MAX_OWN];
	mead_u32 (*key)[4];
	mead_u8 *value;
} own SECTION(".maps");

/* Ethernet addresses of interfaces. */
struct {
	int (*type)[BPF_MAP_TYPE_HASH];
	int (*max_entries)[MEAD_MAX_INTERFACES];
	mead_u32 *key;
	struct mead_mac *value;
} macs SECTION(".maps");

struct {
	int (*type)[BPF_MAP_TYPE_PERCPU_ARRAY];
	int (*max_entries)[MEAD_COUNTERS];
	mead_u32 *key;
	mead_u64 *value;
} counters SECTION(".maps");

struct {
	int (*type)[BPF_MAP_TYPE_LRU_HASH];
	int (*max_entries)[MEAD_MAX_NEIGHBOURS];
	struct mead_neighbour_key *key;
	struct mead_neighbour *value;
} neighbours SECTION(".maps");

struct {
	int (*type)[BPF_MAP_TYPE_PERCPU_ARRAY];
	int (*max_entries)[1];
	mead_u32 *key;
	struct packet *value;
} packets SECTION(".maps");

/* An entry that is replaced stays as it is for who has found it. */
struct {
	int (*type)[BPF_MAP_TYPE_HASH];
	int (*max_entries)[MEAD_MAX_GROUPS];
	int (*map_flags)[BPF_F_NO_PREALLOC];
	mead_u32 (*key)[4];
	struct mead_group *value;
} groups SECTION(".maps");

struct {
	int (*type)[BPF_MAP_TYPE_RINGBUF];
	int (*max_entries)[MEAD_REQUESTS_BYTES];
} requests SECTION(".maps");

INLINE mead_u16 network16(mead_u16 value)
{
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? __builtin_bswap16(value) : value;
}

INLINE mead_u32 network32(mead_u32 value)
{
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? __builtin_bswap32(value) : value;
}

INLINE void count(mead_u32 counter, mead_u64 more)
{
	mead_u64 *value = lookup(&counters, &counter);

	if (value)
		*value += more;
}

INLINE int drop(mead_u32 counter)
{
	count(counter, 1);
	return DROP;
}

INLINE int is_own(const mead_u32 *address)
{
	return lookup(&own, address) != 0;
}

/* Unicast, and of a scope that routers forward: `is_forwardable` in crates/wire/src/ipv6.rs. */
INLINE int is_forwardable(const mead_u32 *address)
{
	mead_u32 first = network32(address[0]);
	int is_low = (address[0] | address[1]) == 0;

	if (first >> 24 == 0xff || first >> 22 == 0xfe80 >> 6)
		return 0;
	if (is_low && address[2] == network32(0xffff))
		return 0;
	return !(is_low && address[2] == 0 && network32(address[3]) <= 1);
}

INLINE int is_same(const mead_u32 *one, const mead_u32 *other)
{
	return ((one[0] ^ other[0]) | (one[1] ^ other[1]) | (one[2] ^ other[2]) | (one[3] ^ other[3])) == 0;
}

/* The place's bit in a map: the first place is the highest bit. */
INLINE mead_u32 bit(mead_u32 place)
{
	return 0x80000000u >> (place & 31);
}

/* The highest bit that is set, and all below it. */
INLINE mead_u32 smear(mead_u32 map)
{
	map |= map >> 1;
	map |= map >> 2;
	map |= map >> 4;
	map |= map >> 8;
	return map | map >> 16;
}

INLINE mead_u32 population(mead_u32 map)
{
	map -= map >> 1 & 0x55555555;
	map = (map & 0x33333333) + (map >> 2 & 0x33333333);
	map = (map + (map >> 4)) & 0x0f0f0f0f;
	return map * 0x01010101 >> 24;
}

/* How long the address list is, 1 to 512 octets, in a way that verifiers since Linux 6.1 can see. */
INLINE mead_u32 list_len(const struct packet *packet)
{
	mead_u64 len = packet->count * MEAD_ADDRESS_LEN - 1;

	AS_IT_IS(len);
	return (len & (sizeof(packet->addresses) - 1)) + 1;
}

/* The first place whose bit is set. */
INLINE mead_u32 first_of(mead_u32 map)
{
	return population(~smear(map));
}

/* The places in the list. */
INLINE mead_u32 list(const struct packet *packet)
{
	return ~(mead_u32)(0xffffffffull >> (packet->count & 63));
}

/* What a look at the address list needs, and finds. */
struct look {
	struct packet *packet;
	/* The places that are looked at, and the one at hand. */
	mead_u32 places;
	mead_u32 place;
	int is_wrong;
	int is_twice;
};

/* Whether an earlier place has the address of the one at hand. */
static long find_same(mead_u32 earlier, struct look *look)
{
	struct packet *packet = look->packet;

	if (!(look->places & bit(earlier)) ||
	    !is_same(packet->addresses[earlier & 31], packet->addresses[look->place & 31]))
		return 0;
	look->is_twice = 1;
	return 1;
}

/*
 * Whether the address at a place can be forwarded to, and stands there for the first time. Addresses fall into 256 kinds; only
 * where one of its kind has been met are all before it compared.
 */
static long check_address(mead_u32 place, struct look *look)
{
	struct packet *packet = look->packet;
	const mead_u32 *address = packet->addresses[place & 31];
	mead_u32 kind = (address[0] ^ address[1] ^ address[2] ^ address[3]) * 0x9e3779b1u >> 24;
	mead_u64 mark = 1ull << (kind & 63), *seen = &packet->seen[kind >> 6 & 3];

	if (!(look->places & bit(place)))
		return 0;
	if (!is_forwardable(address)) {
		look->is_wrong = 1;
		return 1;
	}
	if (*seen & mark && !look->is_twice) {
		look->place = place;
		repeat(place, find_same, look, 0);
	}
	*seen |= mark;
	return 0;
}

#endif
