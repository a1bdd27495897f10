/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * The MEADcast router: forwards what arrives at an Ethernet interface with MEADcast's routing header. The rules
 * are those of crates/proto/src/mead/router, against which it is tested; here is how they are kept to in a kernel.
 *
 * Copies leave by bpf_clone_redirect, the last one without a clone. Where the kernel has no neighbour's address, no
 * route, a smaller MTU or a receiver of its own, a copy is put back to where the packet came in, and takes the kernel's
 * own way from there: it asks for the neighbour, or tells the sender what is wrong. Super-packets stay whole.
 *
 * The helpers are declared here rather than taken from libbpf's headers, as in loss.bpf.c. Route lookups are for programs
 * under the GPL alone, so this one may be had under it, too.
 */
#include <linux/bpf.h>

#include "mead.h"

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define NO_UNROLL _Pragma("clang loop unroll(disable)")

static void *(*lookup)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*update)(void *map, const void *key, const void *value, mead_u64 flags) = (void *)BPF_FUNC_map_update_elem;
static mead_u64 (*now_ns)(void) = (void *)BPF_FUNC_ktime_get_coarse_ns;
static long (*load)(const void *packet, mead_u32 at, void *to, mead_u32 len) = (void *)BPF_FUNC_skb_load_bytes;
static long (*store)(void *packet, mead_u32 at, const void *from, mead_u32 len, mead_u64 flags) = (void *)BPF_FUNC_skb_store_bytes;
static long (*pull)(void *packet, mead_u32 len) = (void *)BPF_FUNC_skb_pull_data;
static long (*change_tail)(void *packet, mead_u32 len, mead_u64 flags) = (void *)BPF_FUNC_skb_change_tail;
static long (*adjust_room)(void *packet, int len, mead_u32 mode, mead_u64 flags) = (void *)BPF_FUNC_skb_adjust_room;
static mead_u64 (*csum_diff)(void *from, mead_u32 from_len, void *to, mead_u32 to_len, mead_u32 seed) = (void *)BPF_FUNC_csum_diff;
static long (*l4_csum_replace)(void *packet, mead_u32 at, mead_u64 from, mead_u64 to, mead_u64 flags) = (void *)BPF_FUNC_l4_csum_replace;
static long (*repeat)(mead_u32 turns, void *callback, void *context, mead_u64 flags) = (void *)BPF_FUNC_loop;
static long (*fib_lookup)(void *packet, struct bpf_fib_lookup *parameters, int len, mead_u32 flags) = (void *)BPF_FUNC_fib_lookup;
static long (*clone_redirect)(void *packet, mead_u32 interface, mead_u64 flags) = (void *)BPF_FUNC_clone_redirect;
static long (*redirect)(mead_u32 interface, mead_u64 flags) = (void *)BPF_FUNC_redirect;
static void *(*reserve)(void *ring, mead_u64 len, mead_u64 flags) = (void *)BPF_FUNC_ringbuf_reserve;
static void (*submit)(void *data, mead_u64 flags) = (void *)BPF_FUNC_ringbuf_submit;
static void (*discard)(void *data, mead_u64 flags) = (void *)BPF_FUNC_ringbuf_discard;

/* What a classifier answers (linux/pkt_cls.h): let the next one see it, or drop it. */
enum { NEXT = -1, DROP = 2 };

/* On a replica that has been put back, so that it is not replicated again. */
enum { DONE_MARK = 0x7ca57 };

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

/* What stands between the fourth octet of the header and its router map. */
struct change {
	mead_u8 flags;
	mead_u8 reserved;
	mead_u8 dont_replicate;
	mead_u8 delivery[4];
};

/* A packet that has been read, and the state of its copies. */
struct packet {
	mead_u32 addresses[MEAD_MAX_ADDRESSES][4];
	mead_u8 options[MEAD_MAX_OPTIONS_LEN];
	struct ip_header ip;
	/* Destination and source, as they came. */
	mead_u8 ethernet[16];
	mead_u32 count;
	mead_u32 hops;
	mead_u32 is_response;
	mead_u32 dont_replicate;
	mead_u32 delivery;
	mead_u32 routers;
	mead_u32 next_header;
	mead_u32 dialect;
	/* Of the options header, if it is ours. */
	mead_u32 options_len;
	mead_u32 options_next;
	mead_u32 ports_at;
	mead_u32 ports;
	mead_u32 group_at;
	mead_u32 group[4];
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

/* What loops over the address list share. Their bodies are callbacks, so that the verifier looks at each once. */
struct work {
	struct __sk_buff *skb;
	struct packet *packet;
	struct mead_config *settings;
	/* Routers that are this one, and that get replicas. */
	mead_u32 own_routers;
	mead_u32 replicas;
	/* Receivers that get unicast: behind an own router, and behind one with few of them. */
	mead_u32 served;
	mead_u32 early;
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

struct {
	int (*type)[BPF_MAP_TYPE_HASH];
	int (*max_entries)[MEAD_MAX_OWN];
	mead_u32 (*key)[4];
	mead_u8 *value;
} own SECTION(".maps");

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

/* Maps are in network order, or, from the other dialect, in little-endian order. */
INLINE mead_u32 map_order(mead_u32 dialect, mead_u32 value)
{
	mead_u32 is_swapped = (dialect == MEAD_RFC) == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

	return is_swapped ? __builtin_bswap32(value) : value;
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

/* The places in the list. */
INLINE mead_u32 list(const struct packet *packet)
{
	return ~(mead_u32)(0xffffffffull >> (packet->count & 63));
}

/* The receivers between the router at this place and the next one. */
INLINE mead_u32 receivers_of(const struct packet *packet, mead_u32 place)
{
	mead_u32 behind = 0x7fffffffu >> (place & 31);

	return behind & list(packet) & ~smear(packet->routers & behind);
}

/* Our options, and whether all is well with those of others. */
INLINE int read_option(struct packet *packet, mead_u32 kind, mead_u32 at, mead_u32 len)
{
	mead_u32 body = len - 1;

	if (kind != 0x1e || len == 0)
		return kind >> 6 == 0;
	switch (packet->options[at & 255]) {
	case 1:
		if (body & 1 || body > 2 * MEAD_MAX_ADDRESSES)
			return 0;
		packet->ports_at = at + 1;
		packet->ports = body / 2;
		break;
	case 2:
		if (body != 16)
			return 0;
		break;
	case 3:
		if (body != 32)
			return 0;
		break;
	case 4:
		if (body != 16 || packet->options[(at + 1) & 255] != 0xff)
			return 0;
		packet->group_at = at + 1;
		break;
	default:
		return 1;
	}
	packet->options_len = 1;
	return 1;
}

struct walk {
	struct packet *packet;
	mead_u32 at;
	mead_u32 len;
	int is_wrong;
};

/* One option. A callback, so that the verifier looks at it once and not in each of its turns. */
static long read_next_option(mead_u32 turn, struct walk *walk)
{
	struct packet *packet = walk->packet;
	mead_u32 kind, body;

	(void)turn;
	if (walk->at >= walk->len)
		return 1;
	kind = packet->options[walk->at++ & 255];
	if (kind == 0)
		return 0;
	walk->is_wrong = 1;
	if (walk->at >= walk->len)
		return 1;
	body = packet->options[walk->at++ & 255];
	if (walk->at + body > walk->len || !read_option(packet, kind, walk->at, body))
		return 1;
	walk->is_wrong = 0;
	walk->at += body;
	return 0;
}

/* The Destination Options header behind the routing header. Answers with a reason, or -1 when it is good. */
INLINE int read_options(struct __sk_buff *skb, struct packet *packet, mead_u32 at_rest, mead_u32 rest)
{
	struct walk walk = { .packet = packet, .at = 2 };
	mead_u8 head[2];
	mead_u32 len;

	if (rest < 2 || load(skb, at_rest, head, 2))
		return MEAD_TRUNCATED;
	len = (head[1] + 1) * 8;
	if (len > MEAD_MAX_OPTIONS_LEN)
		return MEAD_OPTIONS;
	if (rest < len || load(skb, at_rest, packet->options, len))
		return MEAD_TRUNCATED;
	walk.len = len;
	repeat(MEAD_MAX_OPTIONS_LEN, read_next_option, &walk, 0);
	if (walk.is_wrong)
		return MEAD_OPTIONS;
	packet->options_len = packet->options_len ? len : 0;
	packet->options_next = head[0];
	return -1;
}

/* Finds the upper layer whose checksum covers the addresses: behind two Destination Options headers and the
 * Fragment header of a first fragment. */
INLINE void find_upper(struct __sk_buff *skb, struct packet *packet, mead_u32 at, mead_u32 end)
{
	mead_u32 next = packet->next_header, checksum;
	mead_u8 head[4];

	NO_UNROLL
	for (int headers = 0; headers < 2; headers++) {
		if (next != DESTINATION_OPTIONS)
			break;
		if (at + 2 > end || load(skb, at, head, 2))
			return;
		next = head[0];
		at += (head[1] + 1) * 8;
	}
	if (next == FRAGMENT) {
		if (at + 8 > end || load(skb, at, head, 4) || head[2] || head[3] >> 3)
			return;
		next = head[0];
		at += 8;
	}
	checksum = next == UDP ? 6 : next == TCP ? 16 : 2;
	if ((next != UDP && next != TCP && next != ICMPV6) || at + checksum + 2 > end)
		return;
	packet->upper = next;
	packet->at_upper = at;
	if (next == UDP)
		load(skb, at + 2, &packet->senders_port, 2);
	packet->port = packet->senders_port;
}

/* What the maps must be like. */
INLINE int check_data(const struct packet *packet)
{
	if ((packet->delivery | packet->routers) & ~list(packet))
		return MEAD_MAP_BEYOND_LIST;
	if (packet->delivery & ~packet->routers)
		return MEAD_DELIVERY_OF_RECEIVER;
	if (!(packet->routers & bit(0)))
		return MEAD_RECEIVER_WITHOUT_ROUTER;
	return -1;
}

static long check_address(mead_u32 place, struct work *work)
{
	if (is_forwardable(work->packet->addresses[place & 31]))
		return 0;
	work->is_wrong = 1;
	return 1;
}

INLINE int check_addresses(struct packet *packet)
{
	struct work work = { .packet = packet };

	repeat(packet->count, check_address, &work, 0);
	return work.is_wrong ? MEAD_ADDRESS : -1;
}

/* Reads the routing header, whose first octets are there. */
INLINE int read_header(struct __sk_buff *skb, struct packet *packet, mead_u32 payload_len, int *is_discovery)
{
	mead_u32 len, maps[2];
	mead_u8 fixed[8];
	int wrong;

	if (payload_len < MEAD_FIXED_LEN || load(skb, AT_HEADER, fixed, 8) || load(skb, AT_HEADER + 8, maps, 8))
		return MEAD_TRUNCATED;
	packet->count = fixed[4];
	if (packet->count == 0)
		return MEAD_NO_ADDRESS;
	if (packet->count > MEAD_MAX_ADDRESSES)
		return MEAD_TOO_MANY_ADDRESSES;
	if (fixed[1] != 1 + 2 * packet->count)
		return MEAD_HEADER_LEN;
	if (fixed[3])
		return MEAD_SEGMENTS_LEFT;
	len = packet->count * MEAD_ADDRESS_LEN;
	if (len < MEAD_ADDRESS_LEN || len > sizeof(packet->addresses))
		return MEAD_TRUNCATED;
	if (payload_len < MEAD_FIXED_LEN + len || load(skb, AT_ADDRESSES, packet->addresses, len))
		return MEAD_TRUNCATED;
	if (packet->dialect == MEAD_RFC) {
		*is_discovery = fixed[5] >> 7;
		packet->is_response = fixed[5] >> 6 & 1;
		packet->hops = fixed[5] & MEAD_MAX_HOPS;
	} else {
		*is_discovery = fixed[5] & 1;
		packet->is_response = fixed[5] >> 1 & 1;
		packet->hops = fixed[5] >> 2;
	}
	if (packet->is_response && !*is_discovery)
		return MEAD_FLAGS;
	packet->next_header = fixed[0];
	packet->dont_replicate = fixed[7];
	packet->delivery = map_order(packet->dialect, maps[0]);
	packet->routers = map_order(packet->dialect, maps[1]);
	if (*is_discovery) {
		if (packet->count != 1)
			return MEAD_DISCOVERY_OF_MANY;
		if (packet->next_header != NO_NEXT_HEADER && packet->next_header != DESTINATION_OPTIONS)
			return MEAD_DISCOVERY_WITH_PAYLOAD;
	} else {
		wrong = check_data(packet);
		if (wrong >= 0)
			return wrong;
	}
	return check_addresses(packet);
}

INLINE mead_u8 flags_octet(const struct packet *packet, mead_u32 hops, mead_u32 is_discovery)
{
	return packet->dialect == MEAD_RFC ? is_discovery << 7 | hops : is_discovery | hops << 2;
}

/* Gives the daemon a copy, and lets the kernel pass it on with one more hop. */
INLINE int pass_on_request(struct __sk_buff *skb, struct packet *packet, mead_u32 len)
{
	struct mead_request *request;
	mead_u8 octets[2] = { flags_octet(packet, packet->hops + 1, 1), 0 };

	if (packet->hops >= MEAD_MAX_HOPS || len > MEAD_MAX_REQUEST_LEN || is_own(packet->ip.destination))
		return NEXT;
	count(MEAD_REQUESTS, 1);
	request = reserve(&requests, sizeof(*request), 0);
	if (request) {
		request->interface = skb->ifindex;
		request->len = len;
		if (len < IP_LEN || len > MEAD_MAX_REQUEST_LEN || load(skb, AT_IP, request->packet, len))
			discard(request, 0);
		else
			submit(request, 0);
	} else {
		count(MEAD_REQUESTS_UNHEARD, 1);
	}
	store(skb, AT_FLAGS, octets, 2, BPF_F_RECOMPUTE_CSUM);
	return NEXT;
}

/* Where the checksum stands in a segment of this kind. */
INLINE mead_u32 checksum_at(const struct packet *packet)
{
	return packet->at_upper + (packet->upper == UDP ? 6 : packet->upper == TCP ? 16 : 2);
}

/* Writes 0xffff as 0, which is the same number in all but UDP, so that a copy does not depend on those before it. */
INLINE void normalise(struct __sk_buff *skb, const struct packet *packet)
{
	mead_u16 checksum = 0;

	if (!packet->upper || packet->upper == UDP || load(skb, checksum_at(packet), &checksum, 2) || checksum != 0xffff)
		return;
	checksum = 0;
	store(skb, checksum_at(packet), &checksum, 2, 0);
}

/* Has the checksum cover this destination, and the packet be addressed to it. */
INLINE void readdress(struct __sk_buff *skb, struct packet *packet, mead_u32 *destination)
{
	mead_u64 flags = BPF_F_PSEUDO_HDR | (packet->upper == UDP ? BPF_F_MARK_MANGLED_0 : 0);

	if (is_same(packet->destination, destination))
		return;
	if (packet->upper) {
		mead_u64 difference = csum_diff(packet->destination, 16, destination, 16, 0);

		l4_csum_replace(skb, checksum_at(packet), 0, difference, flags);
	}
	store(skb, AT_DESTINATION, destination, 16, 0);
	__builtin_memcpy(packet->destination, destination, 16);
}

/* Gives a UDP segment its receiver's port: the sender's, when there is none in the list. */
INLINE void set_port(struct __sk_buff *skb, struct packet *packet, mead_u32 place)
{
	mead_u32 at = packet->ports_at + 2 * place;
	mead_u16 port = 0;

	if (packet->upper != UDP || !packet->ports)
		return;
	if (place < packet->ports)
		port = network16(packet->options[at & 255] << 8 | packet->options[(at + 1) & 255]);
	if (!port)
		port = packet->senders_port;
	if (port == packet->port)
		return;
	l4_csum_replace(skb, checksum_at(packet), packet->port, port, BPF_F_MARK_MANGLED_0 | 2);
	store(skb, packet->at_upper + 2, &port, 2, 0);
	packet->port = port;
}

/* Counts a copy to this neighbour. Answers whether the kernel is to see to the neighbour again. */
INLINE int count_neighbour(const struct mead_config *settings, struct packet *packet, struct bpf_fib_lookup *route)
{
	struct mead_neighbour_key key = { .interface = route->ifindex };
	struct mead_neighbour *neighbour;
	mead_u64 now = now_ns();

	__builtin_memcpy(key.address, route->ipv6_dst, 16);
	neighbour = lookup(&neighbours, &key);
	if (!neighbour) {
		struct mead_neighbour fresh = { packet->datagrams, packet->len, now };

		update(&neighbours, &key, &fresh, BPF_ANY);
		return settings->refresh_ns != 0;
	}
	__sync_fetch_and_add(&neighbour->packets, packet->datagrams);
	__sync_fetch_and_add(&neighbour->bytes, packet->len);
	if (settings->refresh_ns == 0 || now - neighbour->refreshed_ns < settings->refresh_ns)
		return 0;
	neighbour->refreshed_ns = now;
	return 1;
}

/* Sends the packet as it is now. The last copy is the packet itself: what is answered is the program's answer. */
static __attribute__((noinline)) int emit(struct __sk_buff *skb, struct packet *packet, struct mead_config *settings, int is_last)
{
	struct bpf_fib_lookup route = {};
	mead_u8 hop_limit;
	mead_u32 mark;
	long answer;

	if (!packet || !settings)
		return DROP;
	hop_limit = packet->ip.hop_limit;
	route.family = 10;
	route.tot_len = packet->segment_len;
	route.ifindex = skb->ifindex;
	__builtin_memcpy(route.ipv6_src, packet->ip.source, 16);
	__builtin_memcpy(route.ipv6_dst, packet->destination, 16);
	if (!settings->through_kernel && fib_lookup(skb, &route, sizeof(route), 0) == BPF_FIB_LKUP_RET_SUCCESS &&
	    !count_neighbour(settings, packet, &route)) {
		hop_limit--;
		store(skb, AT_HOP_LIMIT, &hop_limit, 1, 0);
		/* Destination and source stand side by side, in the packet and in the answer the other way round. */
		store(skb, 0, route.dmac, 6, 0);
		store(skb, 6, route.smac, 6, 0);
		if (is_last)
			return redirect(route.ifindex, 0);
		answer = clone_redirect(skb, route.ifindex, 0);
	} else {
		count(MEAD_BY_KERNEL, 1);
		store(skb, AT_HOP_LIMIT, &hop_limit, 1, 0);
		store(skb, 0, packet->ethernet, 12, 0);
		if (is_last)
			return NEXT;
		mark = skb->mark;
		if (!packet->is_stripped)
			skb->mark = DONE_MARK;
		answer = clone_redirect(skb, skb->ifindex, BPF_F_INGRESS);
		skb->mark = mark;
	}
	if (answer)
		count(MEAD_NOT_SENT, 1);
	return DROP;
}

INLINE int emit_mead(struct __sk_buff *skb, struct packet *packet, struct mead_config *settings, mead_u32 delivery,
		     mead_u32 dont_replicate, mead_u32 *destination, int is_last)
{
	mead_u32 hops = packet->hops + 1 > MEAD_MAX_HOPS ? MEAD_MAX_HOPS : packet->hops + 1;
	struct change change = { .flags = flags_octet(packet, hops, 0), .dont_replicate = dont_replicate };

	delivery = map_order(packet->dialect, delivery);
	__builtin_memcpy(change.delivery, &delivery, 4);
	store(skb, AT_FLAGS, &change, sizeof(change), BPF_F_RECOMPUTE_CSUM);
	readdress(skb, packet, destination);
	return emit(skb, packet, settings, is_last);
}

/* Takes the routing header off, and our options with it. */
INLINE int strip(struct __sk_buff *skb, struct packet *packet)
{
	mead_u32 header = MEAD_FIXED_LEN + packet->count * MEAD_ADDRESS_LEN + packet->options_len;
	mead_u8 next = packet->options_len ? packet->options_next : packet->next_header;
	mead_u16 payload_len = network16(packet->len - IP_LEN - header);

	if (adjust_room(skb, -(int)header, BPF_ADJ_ROOM_NET, BPF_F_ADJ_ROOM_FIXED_GSO))
		return -1;
	store(skb, AT_PAYLOAD_LEN, &payload_len, 2, BPF_F_RECOMPUTE_CSUM);
	store(skb, AT_NEXT_HEADER, &next, 1, BPF_F_RECOMPUTE_CSUM);
	packet->at_upper -= header;
	packet->len -= header;
	packet->segment_len -= header;
	packet->is_stripped = 1;
	return 0;
}

static long find_router(mead_u32 place, struct work *work)
{
	struct packet *packet = work->packet;

	if (!(packet->routers & bit(place)) || !is_same(packet->addresses[place & 31], packet->ip.destination))
		return 0;
	work->by_router = 1;
	return 1;
}

/* Where a copy for the router at this place goes. */
INLINE mead_u32 *target(struct packet *packet, mead_u32 place, int by_router)
{
	if (!by_router && receivers_of(packet, place))
		place++;
	return packet->addresses[place & 31];
}

/* Lengths as routes know them: of the packet, or of one of a super-packet's datagrams. */
INLINE void measure(struct __sk_buff *skb, struct packet *packet, mead_u32 len)
{
	mead_u32 heads = packet->at_upper - AT_IP + (packet->upper == UDP ? 8 : 60);

	packet->len = len;
	packet->segment_len = len;
	packet->datagrams = 1;
	if (skb->gso_size) {
		packet->segment_len = heads + skb->gso_size;
		packet->datagrams = (len - heads + skb->gso_size - 1) / skb->gso_size;
	}
}

/* What is to be done about the router at this place. */
static long classify(mead_u32 place, struct work *work)
{
	struct packet *packet = work->packet;
	mead_u32 receivers;

	if (!(packet->delivery & bit(place)))
		return 0;
	receivers = receivers_of(packet, place);
	if (is_own(packet->addresses[place & 31])) {
		work->own_routers |= bit(place);
		work->served |= receivers;
		if (!receivers && packet->group_at && !work->is_designated) {
			work->is_designated = 1;
			work->designated = place;
		}
	} else if (receivers && population(receivers) < work->settings->min_dsts) {
		work->early |= receivers;
	} else if (receivers || packet->group_at) {
		work->replicas |= bit(place);
	}
	return 0;
}

static long replicate(mead_u32 place, struct work *work)
{
	if (!(work->replicas & bit(place)))
		return 0;
	work->replicas &= ~bit(place);
	work->answer = emit_mead(work->skb, work->packet, work->settings, bit(place), 0,
				 target(work->packet, place, work->by_router),
				 !(work->replicas | work->served | work->early | work->lans));
	return 0;
}

static long deliver(mead_u32 place, struct work *work)
{
	if (!(work->served & bit(place)))
		return 0;
	work->served &= ~bit(place);
	readdress(work->skb, work->packet, work->packet->addresses[place & 31]);
	set_port(work->skb, work->packet, place);
	work->answer = emit(work->skb, work->packet, work->settings, !work->served);
	return 0;
}

/* All that is not own, in one packet. */
INLINE void forward_whole(struct __sk_buff *skb, struct packet *packet, struct mead_config *settings, struct work *work,
			  int is_here)
{
	mead_u32 others = packet->delivery & ~work->own_routers;
	mead_u32 first = population(~smear(others));
	mead_u32 *destination = packet->ip.destination;

	work->early = 0;
	if (!others)
		return;
	count(MEAD_WHOLE, 1);
	if (is_here || work->own_routers)
		destination = target(packet, first, work->by_router);
	work->answer = emit_mead(skb, packet, settings, others, packet->dont_replicate - 1, destination,
				 !(work->served | work->lans));
}

INLINE const struct mead_lan *other_lan(const struct work *work, mead_u32 index)
{
	const struct mead_group *group = work->group;
	const struct mead_lan *lan;

	if (!group || index >= group->count)
		return 0;
	lan = &group->lans[index & (MEAD_MAX_LANS - 1)];
	return lan->interface != work->skb->ifindex ? lan : 0;
}

static long count_lan(mead_u32 index, struct work *work)
{
	work->lans += other_lan(work, index) != 0;
	return 0;
}

/* Finds the links with listeners; the one that the packet came from is not among them. */
INLINE void find_listeners(struct packet *packet, struct work *work)
{
	mead_u8 *octets = (mead_u8 *)packet->group;

	NO_UNROLL
	for (mead_u32 at = 0; at < 16; at++)
		octets[at & 15] = packet->options[(packet->group_at + at) & 255];
	work->group = lookup(&groups, packet->group);
	if (work->group)
		repeat(MEAD_MAX_LANS, count_lan, work, 0);
}

/* Sends the packet to all listeners on a link. */
static long multicast(mead_u32 index, struct work *work)
{
	const struct mead_lan *lan = other_lan(work, index);
	struct packet *packet = work->packet;
	mead_u8 hop_limit = packet->ip.hop_limit - 1, ethernet[12] = { 0x33, 0x33 };

	if (!lan)
		return 0;
	__builtin_memcpy(ethernet + 2, &packet->group[3], 4);
	__builtin_memcpy(ethernet + 6, lan->mac, 6);
	store(work->skb, AT_HOP_LIMIT, &hop_limit, 1, 0);
	store(work->skb, 0, ethernet, 12, 0);
	work->lans--;
	if (!(work->lans | work->served))
		work->answer = redirect(lan->interface, 0);
	else if (clone_redirect(work->skb, lan->interface, 0))
		count(MEAD_NOT_SENT, 1);
	return 0;
}

/* To the group, with the port of the designated router's place. */
INLINE void serve_listeners(struct __sk_buff *skb, struct packet *packet, struct work *work)
{
	count(MEAD_MULTICAST, work->lans);
	readdress(skb, packet, packet->group);
	set_port(skb, packet, work->designated);
	repeat(MEAD_MAX_LANS, multicast, work, 0);
}

INLINE int forward_data(struct __sk_buff *skb, struct packet *packet, struct mead_config *settings, mead_u32 len)
{
	int is_here = is_own(packet->ip.destination);
	struct work work = { .skb = skb, .packet = packet, .settings = settings, .by_router = is_here, .answer = DROP };
	mead_u32 others;

	if (!packet->delivery)
		return drop(MEAD_NOTHING_TO_DELIVER);
	if (packet->ip.hop_limit <= 1)
		return is_here ? drop(MEAD_HOP_LIMIT) : NEXT;
	count(MEAD_DATA, 1);
	measure(skb, packet, len);
	if (skb->len > ETHERNET_LEN + len && change_tail(skb, ETHERNET_LEN + len, 0))
		return drop(MEAD_NOT_REWRITTEN);
	normalise(skb, packet);
	repeat(packet->count, classify, &work, 0);
	if (work.is_designated)
		find_listeners(packet, &work);
	if (!is_here)
		repeat(packet->count, find_router, &work, 0);

	others = packet->dont_replicate ? packet->delivery & ~work.own_routers : work.replicas;
	if (packet->dont_replicate) {
		forward_whole(skb, packet, settings, &work, is_here);
	} else if (work.replicas) {
		count(MEAD_REPLICAS, population(work.replicas));
		repeat(packet->count, replicate, &work, 0);
	}
	if (!(work.served | work.early | work.lans)) {
		if (work.is_designated && !others)
			count(MEAD_NO_LISTENER, 1);
		return work.answer;
	}
	if (strip(skb, packet))
		return drop(MEAD_NOT_REWRITTEN);
	count(MEAD_UNICAST, population(work.served));
	count(MEAD_PREMATURE, population(work.early));
	work.served |= work.early;
	if (work.lans)
		serve_listeners(skb, packet, &work);
	repeat(packet->count, deliver, &work, 0);
	return work.answer;
}

/* A function of its own, so that what all other traffic passes stays short. */
static __attribute__((noinline)) int route(struct __sk_buff *skb)
{
	mead_u32 zero = 0, payload_len, rest;
	struct mead_config *settings = lookup(&config, &zero);
	struct packet *packet = lookup(&packets, &zero);
	int is_discovery = 0, wrong;
	mead_u8 routing_type;

	if (!settings || !packet || !settings->is_enabled)
		return NEXT;
	if (skb->mark == DONE_MARK) {
		skb->mark = 0;
		return NEXT;
	}
	/* 0: for this host by its Ethernet address. A packet of a VLAN comes again, at the VLAN's interface. */
	if (skb->pkt_type != 0 || skb->vlan_present)
		return NEXT;
	__builtin_memset((char *)packet + __builtin_offsetof(struct packet, count), 0,
			 sizeof(*packet) - __builtin_offsetof(struct packet, count));
	if (load(skb, AT_IP, &packet->ip, IP_LEN) || load(skb, 0, packet->ethernet, 12))
		return NEXT;
	payload_len = network16(packet->ip.payload_len);
	if (network32(packet->ip.first) >> 28 != 6 || skb->len < AT_HEADER + payload_len || payload_len < 3 ||
	    load(skb, AT_HEADER + 2, &routing_type, 1) || (routing_type != 253 && routing_type != 254) ||
	    !is_forwardable(packet->ip.source) || !is_forwardable(packet->ip.destination))
		return NEXT;
	__builtin_memcpy(packet->destination, packet->ip.destination, 16);
	packet->dialect = settings->dialect;
	wrong = read_header(skb, packet, payload_len, &is_discovery);
	if (wrong >= 0)
		return drop(wrong);
	if (packet->is_response) {
		count(MEAD_RESPONSES, 1);
		return NEXT;
	}
	rest = MEAD_FIXED_LEN + packet->count * MEAD_ADDRESS_LEN;
	if (packet->next_header == DESTINATION_OPTIONS) {
		wrong = read_options(skb, packet, AT_HEADER + rest, payload_len - rest);
		if (wrong >= 0)
			return drop(wrong);
	}
	if (is_discovery)
		return pass_on_request(skb, packet, IP_LEN + payload_len);
	find_upper(skb, packet, AT_HEADER + rest, AT_HEADER + payload_len);
	return forward_data(skb, packet, settings, IP_LEN + payload_len);
}

/* The one look that all other traffic costs. */
SECTION("classifier")
int mead_router(struct __sk_buff *skb)
{
	const mead_u8 *start = (void *)(long)skb->data;

	if (skb->protocol != network16(0x86dd))
		return NEXT;
	if (start + AT_HEADER > (const mead_u8 *)(long)skb->data_end) {
		if (pull(skb, AT_HEADER))
			return NEXT;
		start = (void *)(long)skb->data;
		if (start + AT_HEADER > (const mead_u8 *)(long)skb->data_end)
			return NEXT;
	}
	return start[AT_NEXT_HEADER] == ROUTING ? route(skb) : NEXT;
}

const char licence[] SECTION("license") = "Dual MIT/GPL";
