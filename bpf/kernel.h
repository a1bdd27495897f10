/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * What the routers' program asks of the kernel.
 *
 * The helpers are declared here rather than taken from libbpf's headers, as in loss.bpf.c. Route lookups are for programs
 * under the GPL alone, so this one may be had under it, too.
 */
#ifndef TREECAST_KERNEL_H
#define TREECAST_KERNEL_H

#include <linux/bpf.h>

#include "mead.h"

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
/* Has the compiler compare this number where it is said to, for the verifier, and not only what it was made of. */
#define AS_IT_IS(number) __asm__ volatile("" : "+r"(number))
/* The verifier looks at it once, whoever calls it: all that it knows of what it is given are the types. Of those, kernels without
 * type information of their own (CONFIG_DEBUG_INFO_BTF) do not know the packet's. */
#define CHECKED_ONCE __attribute__((noinline))
#define NO_UNROLL _Pragma("clang loop unroll(disable)")

static void *(*lookup)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*update)(void *map, const void *key, const void *value, mead_u64 flags) = (void *)BPF_FUNC_map_update_elem;
static mead_u64 (*now_ns)(void) = (void *)BPF_FUNC_ktime_get_coarse_ns;
static long (*load)(const void *packet, mead_u32 at, void *to, mead_u32 len) = (void *)BPF_FUNC_skb_load_bytes;
static long (*store)(void *packet, mead_u32 at, const void *from, mead_u32 len, mead_u64 flags) = (void *)BPF_FUNC_skb_store_bytes;
static long (*pull)(void *packet, mead_u32 len) = (void *)BPF_FUNC_skb_pull_data;
static long (*change_tail)(void *packet, mead_u32 len, mead_u64 flags) = (void *)BPF_FUNC_skb_change_tail;
static long (*change_type)(void *packet, mead_u32 type) = (void *)BPF_FUNC_skb_change_type;
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

/* For whom a packet is by its Ethernet address (linux/if_packet.h). */
enum { TO_HOST = 0, TO_GROUP = 2 };

#endif
