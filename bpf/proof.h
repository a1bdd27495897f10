/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * The proof that a sender of the domain has written an address list: SipHash-2-4 (Aumasson and Bernstein, 2012) over what
 * crates/proto/src/explicit/list_proof.rs says, and compares with it.
 */
#ifndef TREECAST_PROOF_H
#define TREECAST_PROOF_H

#include "packet.h"

/* What packets are; `Kind` in list_proof.rs. */
enum list_kind { LIST_MEAD = 0, LIST_REQUEST = 1, LIST_XCAST = 2 };

/* Octets before the addresses. */
enum { PROVED_FIXED_LEN = 16 + 16 + 8 + 8 };

struct siphash {
	mead_u64 v0, v1, v2, v3;
	const struct packet *packet;
};

/* Eight octets in memory, as SipHash reads them. */
INLINE mead_u64 little64(mead_u64 word)
{
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? word : __builtin_bswap64(word);
}

/* Two 32-bit words that stand side by side in memory. */
INLINE mead_u64 pair(const mead_u32 *words)
{
	mead_u64 first = words[0], second = words[1];

	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? first | second << 32 : little64(first << 32 | second);
}

INLINE mead_u64 rotate(mead_u64 word, int by)
{
	return word << by | word >> (64 - by);
}

INLINE void sip_round(struct siphash *hash)
{
	hash->v0 += hash->v1;
	hash->v1 = rotate(hash->v1, 13) ^ hash->v0;
	hash->v0 = rotate(hash->v0, 32);
	hash->v2 += hash->v3;
	hash->v3 = rotate(hash->v3, 16) ^ hash->v2;
	hash->v0 += hash->v3;
	hash->v3 = rotate(hash->v3, 21) ^ hash->v0;
	hash->v2 += hash->v1;
	hash->v1 = rotate(hash->v1, 17) ^ hash->v2;
	hash->v2 = rotate(hash->v2, 32);
}

INLINE void sip_word(struct siphash *hash, mead_u64 word)
{
	hash->v3 ^= word;
	sip_round(hash);
	sip_round(hash);
	hash->v0 ^= word;
}

INLINE void sip_address(struct siphash *hash, const mead_u32 *address)
{
	sip_word(hash, pair(address));
	sip_word(hash, pair(address + 2));
}

static long sip_listed(mead_u32 place, struct siphash *hash)
{
	struct siphash local = *hash;

	sip_address(&local, local.packet->addresses[place & 31]);
	*hash = local;
	return 0;
}

/* The code of a packet's list in an epoch. */
static __attribute__((noinline)) mead_u64 list_code(const struct packet *packet, const struct mead_config *settings,
						    mead_u32 kind, mead_u64 epoch)
{
	struct siphash hash = { .packet = packet };
	mead_u64 end = PROVED_FIXED_LEN + packet->count * MEAD_ADDRESS_LEN;
	mead_u32 routers = kind == LIST_MEAD ? packet->routers : 0;
	const mead_u32 *group = kind == LIST_XCAST ? packet->xcast.channel : packet->group;

	hash.v0 = settings->list_key[0] ^ 0x736f6d6570736575ull;
	hash.v1 = settings->list_key[1] ^ 0x646f72616e646f6dull;
	hash.v2 = settings->list_key[0] ^ 0x6c7967656e657261ull;
	hash.v3 = settings->list_key[1] ^ 0x7465646279746573ull;
	sip_address(&hash, packet->ip.source);
	sip_address(&hash, group);
	sip_word(&hash, __builtin_bswap64(epoch));
	sip_word(&hash, __builtin_bswap32(routers) | (mead_u64)kind << 32 | (mead_u64)packet->count << 56);
	repeat(packet->count, sip_listed, &hash, 0);
	sip_word(&hash, end << 56);
	hash.v2 ^= 0xff;
	for (int round = 0; round < 4; round++)
		sip_round(&hash);
	return hash.v0 ^ hash.v1 ^ hash.v2 ^ hash.v3;
}

/* Octets of the options, as they stand there. */
INLINE mead_u64 option_octets(const struct packet *packet, mead_u32 at, mead_u32 count)
{
	mead_u64 value = 0;

	NO_UNROLL
	for (mead_u32 octet = 0; octet < count; octet++)
		value |= (mead_u64)packet->options[(at + octet) & 255] << 8 * octet;
	return value;
}

/* Answers with why the packet's proof is none, or -1 when it is good. Epochs before and after this one are, too. */
INLINE int check_list_proof(const struct packet *packet, const struct mead_config *settings, mead_u32 kind)
{
	mead_u32 said;
	int ahead;

	if (!packet->proof_at)
		return REFUSED_UNPROVED;
	said = __builtin_bswap16(option_octets(packet, packet->proof_at, 2));
	ahead = (short)(mead_u16)(said - (mead_u32)settings->epoch);
	if (ahead < -1 || ahead > 1)
		return REFUSED_STALE;
	if (list_code(packet, settings, kind, settings->epoch + ahead) != option_octets(packet, packet->proof_at + 2, 8))
		return REFUSED_UNPROVED;
	return -1;
}

#endif
