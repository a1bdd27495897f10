/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * The Xcast router (RFC 5058): a packet lists its destinations, and goes once to each next hop of those that are valid.
 * The rules are those of crates/proto/src/explicit/xcast/router, against which it is tested, and the header's those of
 * crates/wire/src/xcast.
 */
#ifndef TREECAST_XCAST_H
#define TREECAST_XCAST_H

#include "guard.h"
#include "options.h"
#include "send.h"

enum {
	XCAST_ROUTING_TYPE = 254,
	XCAST_HEADER_VERSION = 1,
	XCAST_FIXED_LEN = sizeof(struct xcast_header),
	XCAST_AT_FLAGS = __builtin_offsetof(struct xcast_header, flags),
};

/* Of the octet with the version. */
enum {
	XCAST_ANONYMITY = 0x08,
	XCAST_STAYS = 0x04,
	XCAST_DSCPS_BIT = 0x02,
	XCAST_RESERVED = 0x01,
};

/* Of the octet with the number of destinations. */
enum { XCAST_COUNT_BITS = 0x7f };

/* ff0x::114, of whatever scope. */
INLINE int is_all_xcast_routers(const mead_u32 *address)
{
	return (address[0] & network32(0xfff0ffff)) == network32(0xff000000) && !(address[1] | address[2]) &&
	       address[3] == network32(0x114);
}

/* The ones' complement sum of whole words, on top of another. */
INLINE mead_u32 sum_of(void *words, mead_u32 len, mead_u32 sum)
{
	return csum_diff(0, 0, words, len, sum);
}

INLINE mead_u16 fold(mead_u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* What the fixed part alone shows. Answers with a reason, or -1 when it is good. */
INLINE int check_xcast_fixed(const struct packet *packet)
{
	const struct xcast_header *header = &packet->xcast;

	if (header->flags >> 4 != XCAST_HEADER_VERSION)
		return XCAST_VERSION;
	if (header->flags & XCAST_DSCPS_BIT)
		return XCAST_DSCPS;
	if (packet->count == 0)
		return XCAST_NO_ADDRESS;
	if (packet->count > MEAD_MAX_ADDRESSES)
		return XCAST_TOO_MANY_ADDRESSES;
	if (header->len != 3 + 2 * packet->count)
		return XCAST_HEADER_LEN;
	return header->segments_left ? XCAST_SEGMENTS_LEFT : -1;
}

/* Reads the routing header. Answers with a reason, or -1 when it is good. */
INLINE int read_xcast(struct __sk_buff *skb, struct packet *packet, mead_u32 payload_len)
{
	struct look look = { .packet = packet };
	struct xcast_header *header = &packet->xcast;
	mead_u32 len;
	int wrong;

	if (payload_len < XCAST_FIXED_LEN || load(skb, AT_HEADER, header, XCAST_FIXED_LEN))
		return XCAST_TRUNCATED;
	packet->count = header->count & XCAST_COUNT_BITS;
	wrong = check_xcast_fixed(packet);
	if (wrong >= 0)
		return wrong;
	len = list_len(packet);
	packet->header_len = XCAST_FIXED_LEN + len;
	if (payload_len < XCAST_FIXED_LEN + len || load(skb, AT_HEADER + XCAST_FIXED_LEN, packet->addresses, len))
		return XCAST_TRUNCATED;
	packet->address_sum = sum_of(packet->addresses, len, 0);
	if (fold(sum_of(header, XCAST_FIXED_LEN, packet->address_sum)) != 0xffff)
		return XCAST_CHECKSUM;
	packet->delivery = network32(header->bitmap[0]);
	if (packet->delivery & ~list(packet) || header->bitmap[1])
		return XCAST_BITMAP_BEYOND_LIST;
	if (!packet->delivery)
		return XCAST_NOTHING_VALID;
	look.places = packet->delivery;
	repeat(packet->count, check_address, &look, 0);
	if (look.is_wrong)
		return XCAST_ADDRESS;
	if (look.is_twice)
		return XCAST_TWICE;
	packet->next_header = header->next_header;
	header->flags &= ~XCAST_RESERVED;
	header->count = packet->count;
	return -1;
}

/* One that has arrived: it is for this host, or, where the channel is a group, for those who listen to it here (Xcast+). */
INLINE void arrive(struct work *work, mead_u32 place)
{
	struct packet *packet = work->packet;

	if (((const mead_u8 *)packet->xcast.channel)[0] != 0xff) {
		work->served |= bit(place);
		work->local++;
	} else if (!work->is_designated) {
		work->is_designated = 1;
		work->designated = place;
	}
}

/* Lets the packets of the last next hop go with those of an earlier one, if both are the same router. */
static long join(mead_u32 index, struct work *work)
{
	struct next_hop *last = &work->packet->next_hops[work->ways & 31];
	struct next_hop *earlier = &work->packet->next_hops[index & 31];

	if (earlier->interface != last->interface || !is_same(earlier->address, last->address))
		return 0;
	earlier->members |= last->members;
	last->members = 0;
	return 1;
}

/*
 * Asks for the way to the destination at this place. Packets to hosts on a link of this router are for each alone. What came to all
 * routers on a link goes on by other links: who is behind that one, or has no route, is another router's or the sender's own.
 */
static long find_next_hop(mead_u32 place, struct work *work)
{
	struct packet *packet = work->packet;
	struct next_hop *next_hop = &packet->next_hops[work->ways & 31];
	mead_u32 *destination = packet->addresses[place & 31];
	struct bpf_fib_lookup route = {};
	long answer;
	int is_routed;

	if (!(packet->delivery & bit(place)))
		return 0;
	if (is_own(destination)) {
		arrive(work, place);
		return 0;
	}
	/* Of no length that could be too much for a link: that is asked when the packet goes there. */
	answer = find_route(work->skb, packet, destination, 1, &route);
	is_routed = answer == BPF_FIB_LKUP_RET_SUCCESS || answer == BPF_FIB_LKUP_RET_NO_NEIGH;
	if (packet->came_by_group && (!is_routed || route.ifindex == work->skb->ifindex))
		return 0;
	if (!is_routed) {
		work->served |= bit(place);
		work->unrouted++;
		return 0;
	}
	next_hop->members = bit(place);
	next_hop->interface = 0;
	__builtin_memcpy(next_hop->address, route.ipv6_dst, 16);
	if (!is_same(route.ipv6_dst, destination)) {
		next_hop->interface = route.ifindex;
		repeat(work->ways, join, work, 0);
	}
	if (next_hop->members)
		work->ways++;
	return 0;
}

/* Which of the copies become unicast here: those for one destination (X2U), and those for few (premature X2U). */
static long sort_copies(mead_u32 index, struct work *work)
{
	mead_u32 members = work->packet->next_hops[index & 31].members;
	int becomes_unicast = !(work->packet->xcast.flags & XCAST_STAYS);

	if (becomes_unicast && population(members) == 1)
		work->served |= members;
	else if (becomes_unicast && population(members) < work->settings->min_dsts)
		work->early |= members;
	else
		work->replicas |= bit(index);
	return 0;
}

/* Lists the addresses of a copy, and zeros for all others. Returns nothing of interest. */
CHECKED_ONCE int list_members(struct packet *packet, mead_u32 members)
{
	if (!packet)
		return 0;
	NO_UNROLL
	for (mead_u32 place = 0; place < MEAD_MAX_ADDRESSES; place++) {
		if (members & bit(place))
			__builtin_memcpy(packet->members[place], packet->addresses[place], MEAD_ADDRESS_LEN);
		else
			__builtin_memset(packet->members[place], 0, MEAD_ADDRESS_LEN);
	}
	return 0;
}

/* Writes the header over for some destinations. With the A bit, the addresses of all others are gone. */
INLINE void write_xcast(struct __sk_buff *skb, struct packet *packet, mead_u32 members)
{
	mead_u32 len = list_len(packet), sum = packet->address_sum;

	packet->xcast.bitmap[0] = network32(members);
	packet->xcast.checksum = 0;
	if (packet->xcast.flags & XCAST_ANONYMITY) {
		list_members(packet, members);
		sum = sum_of(packet->members, sizeof(packet->members), 0);
		store(skb, AT_HEADER + XCAST_FIXED_LEN, packet->members, len, BPF_F_RECOMPUTE_CSUM);
	}
	packet->xcast.checksum = ~fold(sum_of(&packet->xcast, XCAST_FIXED_LEN, sum));
	store(skb, AT_HEADER + XCAST_AT_FLAGS, (const mead_u8 *)&packet->xcast + XCAST_AT_FLAGS,
	      XCAST_FIXED_LEN - XCAST_AT_FLAGS, BPF_F_RECOMPUTE_CSUM);
}

/* A copy for those behind one router, which comes to the first of them if no router there knows Xcast. */
static long copy(mead_u32 index, struct work *work)
{
	struct packet *packet = work->packet;
	mead_u32 members = packet->next_hops[index & 31].members;

	if (!(work->replicas & bit(index)))
		return 0;
	work->replicas &= ~bit(index);
	write_xcast(work->skb, packet, members);
	readdress(work->skb, packet, packet->addresses[first_of(members) & 31]);
	work->answer = emit(work->skb, packet, work->settings,
			    !(work->replicas | work->served | work->early | work->lans));
	return 0;
}

/* Finds out who gets what. */
INLINE void sort_destinations(struct packet *packet, struct work *work)
{
	repeat(packet->count, find_next_hop, work, 0);
	repeat(work->ways, sort_copies, work, 0);
	if (work->is_designated) {
		__builtin_memcpy(packet->group, packet->xcast.channel, 16);
		find_listeners(packet, work);
	}
}

INLINE void count_xcast(const struct work *work)
{
	count(XCAST_DATA, 1);
	count(XCAST_LOCAL, work->local);
	count(XCAST_UNROUTED, work->unrouted);
	count(XCAST_COPIES, population(work->replicas));
	count(XCAST_UNICAST, population(work->served) - work->local - work->unrouted);
	count(XCAST_PREMATURE, population(work->early));
	count(XCAST_MULTICAST, work->lans);
}

INLINE int forward_xcast(struct __sk_buff *skb, struct packet *packet, struct mead_config *settings, mead_u32 len)
{
	struct work work = { .skb = skb, .packet = packet, .settings = settings, .answer = DROP };

	measure(skb, packet, len);
	sort_destinations(packet, &work);
	if (!may_copy(packet, settings, copies_of(&work)))
		return turn_away(XCAST_REFUSED, REFUSED_LIMITED);
	count_xcast(&work);
	if (!prepare(skb, packet, len))
		return drop(MEAD_NOT_REWRITTEN);
	if (!(work.replicas | work.served | work.early | work.lans))
		return drop(work.is_designated ? XCAST_NO_LISTENER : XCAST_FOR_OTHERS);
	repeat(work.ways, copy, &work, 0);
	return serve(skb, packet, &work);
}

/* What has an Xcast routing header. */
static __attribute__((noinline)) int route_xcast(struct __sk_buff *skb, struct packet *packet, struct mead_config *settings,
						 mead_u32 payload_len)
{
	mead_u32 rest;
	int wrong;

	if (!packet || !settings)
		return NEXT;
	wrong = read_xcast(skb, packet, payload_len);
	if (wrong >= 0)
		return drop(wrong);
	rest = packet->header_len;
	if (packet->next_header == DESTINATION_OPTIONS) {
		wrong = read_options(skb, packet, AT_HEADER + rest, payload_len - rest, 1);
		if (wrong >= 0)
			return drop(wrong == MEAD_OPTIONS ? XCAST_PORTS : XCAST_TRUNCATED);
	}
	if (find_upper(skb, packet, AT_HEADER + rest, AT_HEADER + payload_len))
		return drop(XCAST_SECOND_ROUTING_HEADER);
	wrong = refuse(skb, packet, settings, LIST_XCAST);
	if (wrong >= 0)
		return turn_away(XCAST_REFUSED, wrong);
	if (packet->ip.hop_limit <= 1)
		return packet->is_to_all || is_own(packet->ip.destination) ? drop(XCAST_HOP_LIMIT) : NEXT;
	return forward_xcast(skb, packet, settings, IP_LEN + payload_len);
}

#endif
