/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * How copies leave: by bpf_clone_redirect, the last one without a clone. Where the kernel has no neighbour's address, no
 * route, a smaller MTU or a receiver of its own, a copy is put back to where the packet came in, and takes the kernel's
 * own way from there: it asks for the neighbour, or tells the sender what is wrong. Super-packets stay whole.
 */
#ifndef TREECAST_SEND_H
#define TREECAST_SEND_H

#include "segment.h"

/* On a replica that has been put back, so that it is not replicated again. */
enum { DONE_MARK = 0x7ca57 };

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

/* Asks for the way to a destination, of a packet of this length. */
INLINE long find_route(struct __sk_buff *skb, struct packet *packet, mead_u32 *destination, mead_u16 len,
		       struct bpf_fib_lookup *route)
{
	route->family = 10;
	route->tot_len = len;
	route->ifindex = skb->ifindex;
	__builtin_memcpy(route->ipv6_src, packet->ip.source, 16);
	__builtin_memcpy(route->ipv6_dst, destination, 16);
	return fib_lookup(skb, route, sizeof(*route), 0);
}

/* Leaves the packet itself to the kernel, which forwards what came for this host by its Ethernet address. */
INLINE int leave_to_kernel(struct __sk_buff *skb, const struct packet *packet)
{
	if (packet->came_by_group)
		change_type(skb, TO_HOST);
	return NEXT;
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
	if (!settings->through_kernel &&
	    find_route(skb, packet, packet->destination, packet->segment_len, &route) == BPF_FIB_LKUP_RET_SUCCESS &&
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
			return leave_to_kernel(skb, packet);
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

/* Takes the routing header off, and our options with it. */
INLINE int strip(struct __sk_buff *skb, struct packet *packet)
{
	mead_u32 header = packet->header_len + packet->options_len;
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

/* How many copies leave. */
INLINE mead_u32 copies_of(const struct work *work)
{
	return population(work->replicas) + population(work->served) + population(work->early) + work->lans;
}

/* Finds the links with listeners to the packet's group; the one that it came from is not among them. */
INLINE void find_listeners(struct packet *packet, struct work *work)
{
	work->group = packet->may_multicast ? lookup(&groups, packet->group) : 0;
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
	readdress(skb, packet, packet->group);
	set_port(skb, packet, work->designated);
	repeat(MEAD_MAX_LANS, multicast, work, 0);
}

/* Sends what is left of the work without a routing header: to listeners, and to each receiver that is served. */
INLINE int serve(struct __sk_buff *skb, struct packet *packet, struct work *work)
{
	if (!(work->served | work->early | work->lans))
		return work->answer;
	if (strip(skb, packet))
		return drop(MEAD_NOT_REWRITTEN);
	work->served |= work->early;
	if (work->lans)
		serve_listeners(skb, packet, work);
	repeat(packet->count, deliver, work, 0);
	return work->answer;
}

#endif
