/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * The MEADcast router: forwards what arrives at an Ethernet interface with MEADcast's routing header, and, in xcast.h, with
 * Xcast's. The rules are those of crates/proto/src/explicit/mead/router, against which it is tested; here is how they are kept to in a
 * kernel.
 */
#include "guard.h"
#include "options.h"
#include "segment.h"
#include "send.h"
#include "xcast.h"

/* The one of MEADcast's in both dialects. */
enum { MEAD_ROUTING_TYPE = 253 };

/* What stands between the fourth octet of the header and its router map. */
struct change {
	mead_u8 flags;
	mead_u8 reserved;
	mead_u8 dont_replicate;
	mead_u8 delivery[4];
};

/* Maps are in network order, or, from the other dialect, in little-endian order. */
INLINE mead_u32 map_order(mead_u32 dialect, mead_u32 value)
{
	mead_u32 is_swapped = (dialect == MEAD_RFC) == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

	return is_swapped ? __builtin_bswap32(value) : value;
}

/* The receivers between the router at this place and the next one. */
INLINE mead_u32 receivers_of(const struct packet *packet, mead_u32 place)
{
	mead_u32 behind = 0x7fffffffu >> (place & 31);

	return behind & list(packet) & ~smear(packet->routers & behind);
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

INLINE int check_addresses(struct packet *packet)
{
	struct look look = { .packet = packet, .places = list(packet) };

	/* The list may be read a second time, in the other dialect. */
	__builtin_memset(packet->seen, 0, sizeof(packet->seen));
	repeat(packet->count, check_address, &look, 0);
	if (look.is_wrong)
		return MEAD_ADDRESS;
	return look.is_twice ? MEAD_TWICE : -1;
}

/*
 * Reads what stands otherwise in each dialect, and checks all that is in the header. Answers with a reason, or -1 when it is good.
 * A function of its own, so that reading it in the other dialect takes no second one.
 */
static __attribute__((noinline)) int interpret(struct packet *packet, const mead_u8 *fixed, const mead_u32 *maps, mead_u32 dialect)
{
	int wrong;

	if (!packet || !fixed || !maps)
		return MEAD_TRUNCATED;
	if (dialect == MEAD_RFC) {
		packet->is_discovery = fixed[5] >> 7;
		packet->is_response = fixed[5] >> 6 & 1;
		packet->hops = fixed[5] & MEAD_MAX_HOPS;
	} else {
		packet->is_discovery = fixed[5] & 1;
		packet->is_response = fixed[5] >> 1 & 1;
		packet->hops = fixed[5] >> 2;
	}
	if (packet->is_response && !packet->is_discovery)
		return MEAD_FLAGS;
	packet->delivery = map_order(dialect, maps[0]);
	packet->routers = map_order(dialect, maps[1]);
	if (packet->is_discovery) {
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

/* Reads the routing header, whose first octets are there. */
INLINE int read_header(struct __sk_buff *skb, struct packet *packet, mead_u32 payload_len)
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
	len = list_len(packet);
	packet->header_len = MEAD_FIXED_LEN + len;
	if (payload_len < MEAD_FIXED_LEN + len || load(skb, AT_ADDRESSES, packet->addresses, len))
		return MEAD_TRUNCATED;
	packet->next_header = fixed[0];
	packet->dont_replicate = fixed[7];
	wrong = interpret(packet, fixed, maps, packet->dialect);
	/* The second routing type is MEADcast's in the other dialect alone. */
	if (wrong >= 0 && fixed[2] == MEAD_ROUTING_TYPE && interpret(packet, fixed, maps, !packet->dialect) < 0)
		count(MEAD_OTHER_DIALECT, 1);
	return wrong;
}

INLINE mead_u8 flags_octet(const struct packet *packet, mead_u32 hops, mead_u32 is_discovery)
{
	return packet->dialect == MEAD_RFC ? is_discovery << 7 | hops : is_discovery | hops << 2;
}

/* Gives the daemon a copy, and lets the kernel pass it on with one more hop. */
INLINE int pass_on_request(struct __sk_buff *skb, struct packet *packet, mead_u32 mode, mead_u32 len)
{
	struct mead_request *request;
	mead_u64 checked = len;
	mead_u8 octets[2] = { flags_octet(packet, packet->hops + 1, 1), 0 };

	if (mode == MEAD_LEAVES || packet->hops >= MEAD_MAX_HOPS || len > MEAD_MAX_REQUEST_LEN ||
	    is_own(packet->ip.destination))
		return NEXT;
	count(MEAD_REQUESTS, 1);
	request = reserve(&requests, sizeof(*request), 0);
	if (request) {
		request->interface = skb->ifindex;
		request->len = len;
		AS_IT_IS(checked);
		if (checked < IP_LEN || checked > MEAD_MAX_REQUEST_LEN || load(skb, AT_IP, request->packet, checked))
			discard(request, 0);
		else
			submit(request, 0);
	} else {
		count(MEAD_REQUESTS_UNHEARD, 1);
	}
	store(skb, AT_FLAGS, octets, 2, BPF_F_RECOMPUTE_CSUM);
	return NEXT;
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

/* All that is not own, in one packet. */
INLINE void forward_whole(struct __sk_buff *skb, struct packet *packet, struct mead_config *settings, struct work *work,
			  int is_here)
{
	mead_u32 others = packet->delivery & ~work->own_routers;
	mead_u32 first = first_of(others);
	mead_u32 *destination = packet->ip.destination;

	if (!others)
		return;
	count(MEAD_WHOLE, 1);
	if (is_here || work->own_routers)
		destination = target(packet, first, work->by_router);
	work->answer = emit_mead(skb, packet, settings, others, packet->dont_replicate - 1, destination,
				 !(work->served | work->lans));
}

/* The group of the packet's options. */
INLINE void find_group(struct packet *packet)
{
	mead_u8 *octets = (mead_u8 *)packet->group;

	NO_UNROLL
	for (mead_u32 at = 0; at < 16; at++)
		octets[at & 15] = packet->options[(packet->group_at + at) & 255];
}

/* Finds out who gets what. */
INLINE void sort_routers(struct packet *packet, struct work *work)
{
	repeat(packet->count, classify, work, 0);
	if (work->is_designated)
		find_listeners(packet, work);
	if (!work->by_router)
		repeat(packet->count, find_router, work, 0);
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
	measure(skb, packet, len);
	sort_routers(packet, &work);
	others = packet->dont_replicate ? packet->delivery & ~work.own_routers : work.replicas;
	if (packet->dont_replicate)
		work.replicas = work.early = 0;
	if (!may_copy(packet, settings, copies_of(&work) + (packet->dont_replicate && others)))
		return turn_away(MEAD_REFUSED, REFUSED_LIMITED);
	count(MEAD_DATA, 1);
	if (!prepare(skb, packet, len))
		return drop(MEAD_NOT_REWRITTEN);
	if (packet->dont_replicate) {
		forward_whole(skb, packet, settings, &work, is_here);
	} else if (work.replicas) {
		count(MEAD_REPLICAS, population(work.replicas));
		repeat(packet->count, replicate, &work, 0);
	}
	if (work.is_designated && !(work.served | work.early | work.lans | others))
		count(MEAD_NO_LISTENER, 1);
	count(MEAD_UNICAST, population(work.served));
	count(MEAD_PREMATURE, population(work.early));
	count(MEAD_MULTICAST, work.lans);
	return serve(skb, packet, &work);
}

/* What has a MEADcast routing header. */
static __attribute__((noinline)) int route_mead(struct __sk_buff *skb, struct packet *packet, struct mead_config *settings,
						mead_u32 payload_len)
{
	int wrong;
	mead_u32 rest;

	if (!packet || !settings)
		return NEXT;
	packet->dialect = settings->dialect;
	wrong = read_header(skb, packet, payload_len);
	if (wrong >= 0)
		return drop(wrong);
	if (packet->is_response) {
		count(MEAD_RESPONSES, 1);
		return NEXT;
	}
	rest = packet->header_len;
	if (packet->next_header == DESTINATION_OPTIONS) {
		wrong = read_options(skb, packet, AT_HEADER + rest, payload_len - rest, 0);
		if (wrong >= 0)
			return drop(wrong);
	}
	if (find_upper(skb, packet, AT_HEADER + rest, AT_HEADER + payload_len))
		return drop(MEAD_SECOND_ROUTING_HEADER);
	if (packet->group_at)
		find_group(packet);
	wrong = refuse(skb, packet, settings, packet->is_discovery ? LIST_REQUEST : LIST_MEAD);
	if (wrong >= 0)
		return turn_away(MEAD_REFUSED, wrong);
	if (packet->is_discovery)
		return pass_on_request(skb, packet, settings->mode, IP_LEN + payload_len);
	return forward_data(skb, packet, settings, IP_LEN + payload_len);
}

/*
 * Whether the packet is for routers by its addresses. Only what is for all Xcast routers may have come to a group; what the
 * kernel is to forward of it has to be addressed to this host.
 */
INLINE int is_to_routers(struct __sk_buff *skb, struct packet *packet, int is_xcast)
{
	packet->is_to_all = is_xcast && is_all_xcast_routers(packet->ip.destination);
	if (!is_forwardable(packet->ip.source) || !(packet->is_to_all || is_forwardable(packet->ip.destination)))
		return 0;
	if (skb->pkt_type == TO_GROUP) {
		mead_u32 interface = skb->ifindex;
		const struct mead_mac *mac = lookup(&macs, &interface);

		if (!mac || !packet->is_to_all)
			return 0;
		packet->came_by_group = 1;
		__builtin_memcpy(packet->ethernet, mac->octets, 6);
	}
	return 1;
}

/* A function of its own, so that what all other traffic passes stays short. */
static __attribute__((noinline)) int route(struct __sk_buff *skb)
{
	mead_u32 zero = 0, payload_len;
	struct mead_config *settings = lookup(&config, &zero);
	struct packet *packet = lookup(&packets, &zero);
	const mead_u64 *until = lookup(&acts_until, &zero);
	mead_u8 routing_type;
	int is_xcast;

	if (!settings || !packet || settings->mode == MEAD_OFF || !until || *until <= now_ns())
		return NEXT;
	if (skb->mark == DONE_MARK) {
		skb->mark = 0;
		return NEXT;
	}
	/* A packet of a VLAN comes again, at the VLAN's interface. */
	if ((skb->pkt_type != TO_HOST && skb->pkt_type != TO_GROUP) || skb->vlan_present)
		return NEXT;
	forget(packet);
	if (load(skb, AT_IP, &packet->ip, IP_LEN) || load(skb, 0, packet->ethernet, 12))
		return NEXT;
	payload_len = network16(packet->ip.payload_len);
	if (network32(packet->ip.first) >> 28 != 6 || skb->len < AT_HEADER + payload_len || payload_len < 3 ||
	    load(skb, AT_HEADER + 2, &routing_type, 1) || (routing_type != MEAD_ROUTING_TYPE && routing_type != XCAST_ROUTING_TYPE))
		return NEXT;
	is_xcast = routing_type == XCAST_ROUTING_TYPE && settings->dialect == MEAD_RFC;
	if (!is_to_routers(skb, packet, is_xcast))
		return NEXT;
	__builtin_memcpy(packet->destination, packet->ip.destination, 16);
	return is_xcast ? route_xcast(skb, packet, settings, payload_len) : route_mead(skb, packet, settings, payload_len);
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
