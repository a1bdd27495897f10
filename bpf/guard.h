/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/* Decides for which sources a router makes copies. The model is crates/proto/src/explicit/mead/router/guard.rs. */
#ifndef TREECAST_GUARD_H
#define TREECAST_GUARD_H

#include "proof.h"

enum { SECOND_NS = 1000000000 };

/* Networks for whose sources copies are made, when the router was started with --allow-source. Empty otherwise. */
struct {
	int (*type)[BPF_MAP_TYPE_LPM_TRIE];
	int (*max_entries)[MEAD_MAX_ALLOWED];
	int (*map_flags)[BPF_F_NO_PREALLOC];
	struct mead_prefix *key;
	mead_u8 *value;
} allowed SECTION(".maps");

/* Time, for each network (/64), until which the copies already made have used up the network's share. */
struct {
	int (*type)[BPF_MAP_TYPE_LRU_HASH];
	int (*max_entries)[MEAD_MAX_SOURCES];
	mead_u64 *key;
	mead_u64 *value;
} paid SECTION(".maps");

/*
 * Whether the packet's source may have sent it here. Asked for by this interface, the kernel takes it where several ways are
 * equal. An answer is good for the next packets of that source here, too, which mostly follow one another.
 */
static __attribute__((noinline)) int is_on_path(struct __sk_buff *skb, struct packet *packet, mead_u32 mode)
{
	struct bpf_fib_lookup route = { .family = 10, .tot_len = 1 };
	struct mead_path path = { .interface = skb->ifindex };
	mead_u64 now = now_ns();
	int is_routed;
	long answer;

	if (!packet)
		return 0;
	__builtin_memcpy(path.source, packet->ip.source, 16);
	if (is_same(path.source, packet->path.source) && path.interface == packet->path.interface &&
	    now - packet->path_checked_ns < PATH_HOLDS_NS) {
		packet->may_multicast = 1;
		return 1;
	}
	route.ifindex = path.interface;
	__builtin_memcpy(route.ipv6_dst, path.source, 16);
	answer = fib_lookup(skb, &route, sizeof(route), BPF_FIB_LOOKUP_OUTPUT);
	is_routed = answer == BPF_FIB_LKUP_RET_SUCCESS || answer == BPF_FIB_LKUP_RET_NO_NEIGH;
	if (is_routed && route.ifindex == path.interface) {
		packet->path = path;
		packet->path_checked_ns = now;
		packet->may_multicast = 1;
		return 1;
	}
	packet->may_multicast = 0;
	return mode == MEAD_RPF_LOOSE && (is_routed || answer == BPF_FIB_LKUP_RET_UNSUPP_LWT);
}

INLINE int is_allowed(const struct packet *packet)
{
	struct mead_prefix key = { .len = 128 };

	__builtin_memcpy(key.address, packet->ip.source, 16);
	return lookup(&allowed, &key) != 0;
}

/* Answers with why no copies are made of a packet, or -1 when they are. */
INLINE int refuse(struct __sk_buff *skb, struct packet *packet, const struct mead_config *settings, mead_u32 kind)
{
	packet->may_multicast = 1;
	if (settings->reverse_path && !is_on_path(skb, packet, settings->reverse_path))
		return REFUSED_REVERSE_PATH;
	if (settings->has_allowed && !is_allowed(packet))
		return REFUSED_NOT_ALLOWED;
	return settings->needs_proof ? check_list_proof(packet, settings, kind) : -1;
}

/* Counts a packet that no copies are made of. What comes by a wrong way ends here. */
INLINE int turn_away(mead_u32 first_counter, mead_u32 why)
{
	count(first_counter + why, 1);
	return why == REFUSED_REVERSE_PATH ? DROP : NEXT;
}

/* Whether so many more copies may be made for the packet's source, which are then counted. Processors that ask at the same time
 * may both be told so. */
INLINE int may_copy(const struct packet *packet, const struct mead_config *settings, mead_u32 copies)
{
	mead_u64 network, now, until, cost, *known;

	if (!settings->copies_per_second || !copies)
		return 1;
	cost = (mead_u64)copies * packet->datagrams * SECOND_NS / settings->copies_per_second;
	network = pair(packet->ip.source);
	now = now_ns();
	known = lookup(&paid, &network);
	until = (known && *known > now ? *known : now) + cost;
	if (until > now + SECOND_NS)
		return 0;
	if (known)
		*known = until;
	else
		update(&paid, &network, &until, BPF_ANY);
	return 1;
}

#endif
