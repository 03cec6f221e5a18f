/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Implements a tier (a store of KV blocks outside of an engine, see infer/tier.h) in memory. The
 * tier can inject faults.
 *
 * Blocks are stored in one memfd. The tier checks what the engine passes to it: seals, checksums,
 * and that a block comes after its parent. Only one thread calls the tier, as infer/tier.h
 * requires; other threads read the counts.
 */

#include <stdatomic.h>

#include <infer/tier.h>

#include "core/map.h"
#include "core/rng.h"

/* Each fault happens once in this number of calls or blocks; 0: never. */
struct fake_lies {
    uint32_t wrong_byte;   /* a stored byte changes before it is read */
    uint32_t wrong_sum;    /* the checksum does not match the bytes */
    uint32_t wrong_size;   /* the reported size of a block is wrong */
    uint32_t other_block;  /* another block is sent */
    uint32_t short_stream; /* the stream ends too early */
    uint32_t stall;        /* the stream delivers one byte, and then no more */
    uint32_t count;        /* more blocks are reported as found than were requested */
    uint32_t fail_find, fail_read, fail_put, half_put, fail_recall;
    uint32_t forget; /* drops blocks */
    uint32_t usec;   /* the longest delay of each call */
};

struct fake_block;

struct fake_tier {
    struct inf_tier base;
    struct fake_lies lies;
    struct rng rng;
    int fd;
    int stalled; /* the other end of a stream that delivers no more bytes; -1: none */
    uint64_t size;
    struct map map;
    struct fake_block **blocks; /* [n_blocks] */
    uint32_t n_blocks, cap;
    struct inf_tier_file files[8]; /* [n_remembered] */
    uint8_t remembered[8][32];
    uint32_t n_remembered;
    atomic_uint n_finds, n_puts, n_put_blocks, n_used, n_rejects, n_recalls;
    char session[64], tenant[64]; /* of the last put */
};

void fake_tier_init(struct fake_tier *t, uint64_t seed);
void fake_tier_done(struct fake_tier *t);
