/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/* The upper layer of a packet: where it is, and how it stays right for another destination or port. */
#ifndef TREECAST_SEGMENT_H
#define TREECAST_SEGMENT_H

#include "packet.h"

/* Finds the upper layer whose checksum covers the addresses: behind two Destination Options headers and the
 * Fragment header of a first fragment. Answers whether another routing header is there, or a fragment in a fragment,
 * which may hide one: without the first one, copies would be copied again. */
INLINE int find_upper(struct __sk_buff *skb, struct packet *packet, mead_u32 at, mead_u32 end)
{
	mead_u32 next = packet->next_header, checksum;
	mead_u8 head[4];

	NO_UNROLL
	for (int headers = 0; headers < 2; headers++) {
		if (next != DESTINATION_OPTIONS)
			break;
		if (at + 2 > end || load(skb, at, head, 2))
			return 0;
		next = head[0];
		at += (head[1] + 1) * 8;
	}
	if (next == FRAGMENT) {
		if (at + 8 > end || load(skb, at, head, 4) || head[2] || head[3] >> 3)
			return 0;
		next = head[0];
		at += 8;
	}
	if (next == ROUTING || next == FRAGMENT)
		return 1;
	checksum = next == UDP ? 6 : next == TCP ? 16 : 2;
	if ((next != UDP && next != TCP && next != ICMPV6) || at + checksum + 2 > end)
		return 0;
	packet->upper = next;
	packet->at_upper = at;
	if (next == UDP)
		load(skb, at + 2, &packet->senders_port, 2);
	packet->port = packet->senders_port;
	return 0;
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

/* Before copies are made of what has been measured. Without the padding of a short frame, which would stand behind the payload of each. */
INLINE int prepare(struct __sk_buff *skb, struct packet *packet, mead_u32 len)
{
	if (skb->len > ETHERNET_LEN + len && change_tail(skb, ETHERNET_LEN + len, 0))
		return 0;
	normalise(skb, packet);
	return 1;
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

#endif
