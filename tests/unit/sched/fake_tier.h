/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A tier in memory, which can be told to lie
 *
 * Blocks lie in one memfd. What the engine hands over is checked: seals, sums, and that a block
 * comes after its parent. One thread calls it, as the contract says; counts are read by others.
 */

#include <stdatomic.h>

#include <infer/tier.h>

#include "core/map.h"
#include "core/rng.h"

/* Each happens once in so many calls, or blocks; 0: never. */
struct fake_lies {
    uint32_t wrong_byte;   /* a stored byte changes before it is read */
    uint32_t wrong_sum;    /* a sum is not that of the bytes */
    uint32_t wrong_size;   /* a block is said to have another size */
    uint32_t other_block;  /* another block is sent */
    uint32_t short_stream; /* the stream ends, in the middle of what was sent */
    uint32_t stall;        /* a byte comes by the stream, and no more */
    uint32_t count;        /* more is said to be found than was asked for */
    uint32_t fail_find, fail_read, fail_put, half_put, fail_recall;
    uint32_t forget; /* blocks */
    uint32_t usec;   /* that each call takes, at most */
};

struct fake_block;

struct fake_tier {
    struct inf_tier base;
    struct fake_lies lies;
    struct rng rng;
    int fd;
    int stalled; /* the other end of a stream; -1: none */
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
