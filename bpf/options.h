/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/* The Destination Options header behind a routing header (crates/wire/src/mead/options.rs). */
#ifndef TREECAST_OPTIONS_H
#define TREECAST_OPTIONS_H

#include "packet.h"

enum { OUR_OPTION = 0x1e, XCAST_PORTS_OPTION = 0x5e };

/* A proof among our options, and how long it is behind that. */
enum { LIST_PROOF_KIND = 5, LIST_PROOF_LEN = 10 };

/* Our options, and whether all is well with those of others. */
INLINE int read_option(struct packet *packet, mead_u32 kind, mead_u32 at, mead_u32 len)
{
	mead_u32 body = len - 1;

	if (kind != OUR_OPTION || len == 0)
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
	case LIST_PROOF_KIND:
		if (body != LIST_PROOF_LEN)
			return 0;
		packet->proof_at = at + 1;
		break;
	default:
		return 1;
	}
	packet->options_len = 1;
	return 1;
}

/* Xcast's list of ports (RFC 5058, 9.3.2.2), our proof, and the same of others. */
INLINE int read_xcast_option(struct packet *packet, mead_u32 kind, mead_u32 at, mead_u32 len)
{
	if (kind == OUR_OPTION && len > 0 && packet->options[at & 255] == LIST_PROOF_KIND) {
		if (len - 1 != LIST_PROOF_LEN)
			return 0;
		packet->proof_at = at + 1;
		packet->options_len = 1;
		return 1;
	}
	if (kind != XCAST_PORTS_OPTION)
		return kind >> 6 == 0;
	if (len != 2 * packet->count)
		return 0;
	packet->ports_at = at;
	packet->ports = packet->count;
	packet->options_len = 1;
	return 1;
}

struct walk {
	struct packet *packet;
	int is_xcast;
	mead_u32 at;
	mead_u32 len;
	int is_wrong;
};

/* One option. A callback, so that the verifier looks at it once and not in each of its turns. */
static long read_next_option(mead_u32 turn, struct walk *walk)
{
	struct packet *packet = walk->packet;
	mead_u32 kind, body;
	int is_good;

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
	if (walk->at + body > walk->len)
		return 1;
	if (walk->is_xcast)
		is_good = read_xcast_option(packet, kind, walk->at, body);
	else
		is_good = read_option(packet, kind, walk->at, body);
	if (!is_good)
		return 1;
	walk->is_wrong = 0;
	walk->at += body;
	return 0;
}

/* The Destination Options header behind the routing header. Answers with a reason, or -1 when it is good. */
INLINE int read_options(struct __sk_buff *skb, struct packet *packet, mead_u32 at_rest, mead_u32 rest, int is_xcast)
{
	struct walk walk = { .packet = packet, .is_xcast = is_xcast, .at = 2 };
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

#endif
