/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the lab and its loss program share: one entry for each interface, found by the interface's
 * number, which is unique in a lab. crates/lab/src/loss.rs has the same structure in Rust and, like
 * this file, asserts its layout when compiled.
 */
#ifndef TREECAST_LOSS_H
#define TREECAST_LOSS_H

typedef unsigned int loss_u32;
typedef unsigned long long loss_u64;

/* Probabilities are counted in 2^-31, so that "always" has a number, too. */
#define LOSS_ALWAYS 0x80000000u

/*
 * The two-state model of Gilbert (1960) and Elliott (1963). Uniform loss never leaves the good state.
 */
struct loss_entry {
	loss_u32 in_good; /* loss in the good state */
	loss_u32 in_bad;  /* loss in the bad state */
	loss_u32 to_bad;  /* leaving the good state, before each packet */
	loss_u32 to_good; /* leaving the bad state, before each packet */
	loss_u32 is_bad;  /* the state */
	loss_u32 firewall; /* not 0: IPv6 packets with a routing header are lost */
	loss_u64 passed;  /* packets that went through */
	loss_u64 dropped; /* packets that did not */
};

_Static_assert(sizeof(struct loss_entry) == 40, "crates/lab/src/loss.rs has 40 bytes");
_Static_assert(__builtin_offsetof(struct loss_entry, is_bad) == 16, "as in crates/lab/src/loss.rs");
_Static_assert(__builtin_offsetof(struct loss_entry, passed) == 24, "as in crates/lab/src/loss.rs");
_Static_assert(__builtin_offsetof(struct loss_entry, dropped) == 32, "as in crates/lab/src/loss.rs");

#endif
