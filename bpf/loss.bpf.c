/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Loses packets that arrive at an interface. Attached by the lab to the ingress of a node's end of a
 * cable; the other end cuts super-packets, so that each datagram is lost or not by itself.
 *
 * The helpers are declared here rather than taken from libbpf's headers, which would be one more
 * package to install. Their numbers are part of the kernel's interface (linux/bpf.h).
 */
#include <linux/bpf.h>

#include "loss.h"

#define SECTION(name) __attribute__((section(name), used))

static void *(*lookup)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static loss_u32 (*random32)(void) = (void *)BPF_FUNC_get_prandom_u32;
static long (*load)(const void *packet, loss_u32 offset, void *to, loss_u32 length) = (void *)BPF_FUNC_skb_load_bytes;

/* The lab sets the number of entries when it loads the program. */
struct {
	int (*type)[BPF_MAP_TYPE_ARRAY];
	int (*max_entries)[1];
	loss_u32 *key;
	struct loss_entry *value;
} losses SECTION(".maps");

/* What a classifier answers (linux/pkt_cls.h): let the next one see it (a MEADcast router), or drop it. */
enum { ACCEPT = -1, DROP = 2 };

static int happens(loss_u32 probability)
{
	return (random32() >> 1) < probability;
}

/*
 * Whether a routing header is among an IPv6 packet's extension headers, as `-m ipv6header --header ipv6-route --soft` of
 * ip6tables asks (meadcast-thesis-2024, listing A.5). Only options stand before one (RFC 8200, 4.1).
 */
static int has_routing_header(struct __sk_buff *packet)
{
	enum { IPV6 = 0x86dd, AT_NEXT = 14 + 6, AT_REST = 14 + 40, HOP_BY_HOP = 0, ROUTING = 43, OPTIONS = 60 };
	const unsigned char is_ipv6[2] = { IPV6 >> 8, IPV6 & 0xff };
	unsigned char kind[2], next, head[2];
	loss_u32 at = AT_REST;
	int i;

	if (load(packet, 12, kind, 2) || kind[0] != is_ipv6[0] || kind[1] != is_ipv6[1])
		return 0;
	if (load(packet, AT_NEXT, &next, 1))
		return 0;
	for (i = 0; i < 3; i++) {
		if (next == ROUTING)
			return 1;
		if ((next != HOP_BY_HOP && next != OPTIONS) || load(packet, at, head, 2))
			return 0;
		next = head[0];
		at += 8 + 8 * head[1];
	}
	return next == ROUTING;
}

SECTION("classifier")
int lose(struct __sk_buff *packet)
{
	loss_u32 key = packet->ifindex;
	struct loss_entry *entry = lookup(&losses, &key);

	if (!entry)
		return ACCEPT;
	/* Two processors may both change the state: the model is of chance anyway. */
	if (happens(entry->is_bad ? entry->to_good : entry->to_bad))
		entry->is_bad = !entry->is_bad;
	if (happens(entry->is_bad ? entry->in_bad : entry->in_good) || (entry->firewall && has_routing_header(packet))) {
		__sync_fetch_and_add(&entry->dropped, 1);
		return DROP;
	}
	__sync_fetch_and_add(&entry->passed, 1);
	return ACCEPT;
}

const char licence[] SECTION("license") = "MIT OR Apache-2.0";
