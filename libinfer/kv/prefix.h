/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Defines the names of KV blocks, and an index from names to blocks.
 *
 * The name of a full block depends on its tokens and on everything before them:
 *
 *   name = SHA-256(name of the previous block ‖ tokens of this block, 32-bit little-endian)
 *
 * The first block of a chain follows a root. The root is a hash of everything else that K and V
 * depend on (the model, their number formats, the kernels that computed them) and of the tenant and
 * the salt, which decide who may share the blocks. Blocks with the same name are therefore equal,
 * on any machine, and a name identifies a whole prefix.
 *
 * A model can have several groups of state (graph/state.h), and a pool has blocks of each group.
 * The blocks of all groups that belong to the same tokens have the same name, so a name together
 * with a group identifies a block. The name of a block of a RECURRENT group is the name of the last
 * block of tokens that the state includes.
 *
 * An index belongs to one pool. It finds blocks by group and name, and lists the idle blocks
 * (named, with a count of zero) of each group in the order in which they became idle. It allocates
 * memory only when it is created. Invariant: if a block of a FULL group is named, all blocks before
 * it in its chain are named. Tables drop their last block first, so the oldest idle block of a FULL
 * group is always the end of a chain.
 */

#include <stdint.h>
#include <string.h>

#include "core/macros.h"
#include "core/sha256.h"
#include "graph/state.h"

#define KV_NO_BLOCK UINT32_MAX

struct kv_name {
    uint8_t bytes[SHA256_BYTES];
};

/* Holds everything that the content of all blocks of an engine depends on. */
struct kv_origin {
    struct kv_name model;  /* digest of the model; includes the weights if names outlive the
                              engine */
    const char *numbers;   /* number formats of K and V: "q8_0:q4_0" */
    const char *device;    /* results of different devices and instruction sets differ in the last
                              bits */
    const char *isa;       /* may be NULL, like numbers and device */
    uint32_t block_tokens; /* 64 */
};

void kv_name_origin(const struct kv_origin *origin, struct kv_name *ret_name);
/* Makes the root for clients with the tenant @tenant (NULL: "") and the salt @salt. */
void kv_name_root(const struct kv_name *origin, const char *tenant, const char *salt,
                  size_t salt_len, struct kv_name *ret_root);
/* Names @n blocks that hold @tokens [n × block_tokens] and follow the block named @parent. */
void kv_name_blocks(const struct kv_name *parent, const int32_t *tokens, uint32_t block_tokens,
                    uint32_t n, struct kv_name *ret_names);
/* Makes the name of a block of group @i_group for places where names alone identify blocks. For
 * group 0 this is @name, else SHA-256(name ‖ "group" ‖ number of the group, 32-bit
 * little-endian). */
void kv_name_group(const struct kv_name *name, uint32_t i_group, struct kv_name *ret_name);
/* Converts the block name @name, made by kv_name_group(), to the name that is used outside the
 * engine. That name also depends on @digest, a digest of all weights, and on the text @format,
 * which identifies the meaning of the bytes. */
void kv_name_stored(const uint8_t digest[SHA256_BYTES], const char *format,
                    const struct kv_name *name, struct kv_name *ret_name);
static inline bool kv_name_equal(const struct kv_name *a, const struct kv_name *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

struct prefix_entry {
    struct kv_name name;
    bool named;
    uint32_t depth; /* number of the chain's blocks up to this one */
    uint32_t next_hash;
    uint32_t older, younger; /* links in the list of idle blocks */
};

/* The idle blocks of a group: named, with a count of zero. */
struct prefix_idle {
    uint32_t oldest, youngest, n;
};

struct kv_prefix {
    struct prefix_entry *entries; /* [n_blocks] by block number */
    uint32_t *heads;              /* [mask + 1] heads of the hash chains */
    uint32_t n_blocks, mask;
    uint32_t n_groups;
    uint32_t ends[STATE_GROUPS_MAX]; /* [n_groups] number after the last block of the group */
    struct prefix_idle idle[STATE_GROUPS_MAX];
    uint32_t n_named;
};

/* @n_blocks [n_groups]: blocks of each group. Returns 0 or -ENOMEM. */
int kv_prefix_init(struct kv_prefix *p, const uint32_t *n_blocks, uint32_t n_groups);
void kv_prefix_done(struct kv_prefix *p);

/* Returns the group of @block. */
static inline uint32_t kv_prefix_group(const struct kv_prefix *p, uint32_t block)
{
    uint32_t i = 0;

    while (block >= p->ends[i])
        i++;
    return i;
}
/* Returns the block of group @i_group with the name @name, or KV_NO_BLOCK. */
uint32_t kv_prefix_find(const struct kv_prefix *p, const struct kv_name *name, uint32_t i_group);
static inline bool kv_prefix_has(const struct kv_prefix *p, uint32_t block)
{
    return p->entries[block].named;
}
/* Gives @block the name @name of block @depth - 1 of a chain. The block must have no name, and no
 * other block of its group may have this name. */
void kv_prefix_put(struct kv_prefix *p, const struct kv_name *name, uint32_t depth, uint32_t block);
/* Removes the name of a block that is not idle. */
void kv_prefix_remove(struct kv_prefix *p, uint32_t block);
/* Makes a named block whose count has become zero the youngest idle block. */
void kv_prefix_rest(struct kv_prefix *p, uint32_t block);
/* Takes a block out of the idle list because its count is no longer zero. */
void kv_prefix_wake(struct kv_prefix *p, uint32_t block);
/* Removes the name of the oldest idle block of group @i_group and returns the block. There must be
 * an idle block in the group. */
uint32_t kv_prefix_evict(struct kv_prefix *p, uint32_t i_group);
