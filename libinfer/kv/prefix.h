/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names of KV blocks, and which block has which
 *
 * A full block is named by what it holds and by all that stands before it:
 *
 *   name = SHA-256(name of the block before ‖ its tokens as 32-bit little-endian)
 *
 * Before the first block stands a root, made of all else that K and V depend on (the model, the
 * numbers that they are stored as, the kernels that computed them) and of who may share them. So
 * blocks of one name are equal, on any machine, and a name stands for a whole prefix.
 *
 * The index is of one pool: blocks by name, and those that nobody counts on by age. It never
 * allocates after it was made. Invariant: the blocks before a block that is named are named. Tables
 * drop blocks from their end, so the oldest block that nobody counts on is the end of a chain.
 */

#include <stdint.h>
#include <string.h>

#include "core/macros.h"
#include "core/sha256.h"

#define KV_NO_BLOCK UINT32_MAX

struct kv_name {
    uint8_t bytes[SHA256_BYTES];
};

/* What all blocks of an engine depend on. */
struct kv_origin {
    struct kv_name model;  /* a digest; of weights too where names outlive the engine */
    const char *numbers;   /* of K and V: "q8_0:q4_0" */
    const char *device;    /* kernels of different devices and rungs differ in the last bits */
    const char *isa;       /* may be NULL, as the two above */
    uint32_t block_tokens; /* 64 */
};

void kv_name_origin(const struct kv_origin *origin, struct kv_name *ret_name);
/* The root of those who say the same @tenant (NULL: "") and @salt. */
void kv_name_root(const struct kv_name *origin, const char *tenant, const char *salt,
                  size_t salt_len, struct kv_name *ret_root);
/* Names of @n blocks with @tokens [n × block_tokens] behind the one named @parent. */
void kv_name_blocks(const struct kv_name *parent, const int32_t *tokens, uint32_t block_tokens,
                    uint32_t n, struct kv_name *ret_names);
/* The name of the block @name where names outlive engines: there the model is known by the @digest
 * of all of its weights, and what the bytes mean by the text @format. */
void kv_name_stored(const uint8_t digest[SHA256_BYTES], const char *format,
                    const struct kv_name *name, struct kv_name *ret_name);
static inline bool kv_name_equal(const struct kv_name *a, const struct kv_name *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

struct prefix_entry {
    struct kv_name name;
    bool named;
    uint32_t next_hash;
    uint32_t older, younger; /* among the idle */
};

struct kv_prefix {
    struct prefix_entry *entries; /* [n_blocks] by number of block */
    uint32_t *heads;              /* [mask + 1] of chains by hash of the name */
    uint32_t n_blocks, mask;
    uint32_t oldest, youngest; /* idle blocks: named, and nobody counts on them */
    uint32_t n_idle, n_named;
};

int kv_prefix_init(struct kv_prefix *p, uint32_t n_blocks);
void kv_prefix_done(struct kv_prefix *p);

/* The block of that name, or KV_NO_BLOCK. */
uint32_t kv_prefix_find(const struct kv_prefix *p, const struct kv_name *name);
static inline bool kv_prefix_has(const struct kv_prefix *p, uint32_t block)
{
    return p->entries[block].named;
}
/* Names a block that has no name; no other block has this one. */
void kv_prefix_put(struct kv_prefix *p, const struct kv_name *name, uint32_t block);
/* Takes the name of a block that is not idle. */
void kv_prefix_remove(struct kv_prefix *p, uint32_t block);
/* A named block that nobody counts on any more becomes the youngest idle one. */
void kv_prefix_rest(struct kv_prefix *p, uint32_t block);
/* And ends to be idle. */
void kv_prefix_wake(struct kv_prefix *p, uint32_t block);
/* Takes the name of the oldest idle block, of which there must be one, and gives it away. */
uint32_t kv_prefix_evict(struct kv_prefix *p);
