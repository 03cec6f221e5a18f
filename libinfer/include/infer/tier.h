/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_TIER_H
#define INFER_TIER_H

/*
 * Tier: storage for KV blocks (the computed keys and values of some tokens) beyond the memory of
 * one engine
 *
 * The library opens no socket and no file to store blocks. Instead, the creator of an engine may
 * pass a tier: a table of functions that find and store blocks by name. A name identifies, on any
 * machine, the bytes of a block and everything that the bytes depend on. One thread of the engine
 * calls the functions, one call at a time. The functions may block briefly. If a function fails,
 * the engine proceeds as if the blocks were not stored. The engine does not trust a tier: it
 * rejects bytes that do not match the checksum in struct inf_tier_found, and computes the block
 * instead.
 */

#include <infer/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define INF_TIER_NAME_BYTES 32
/* Limits: names in one call of find(), read() and used(); blocks in one call of put(). */
#define INF_TIER_MAX_NAMES  512
#define INF_TIER_MAX_BLOCKS 64

/* Describes where blocks come from, for quotas and for people. The origin is not part of a block's
 * name. */
struct inf_tier_origin {
    const char *model;   /* name of the model */
    const char *codec;   /* number format and layout of the bytes: "f16/f16 cpu" */
    const char *tenant;  /* "": no tenant */
    const char *session; /* NULL: none */
    bool is_guess; /* for find(): it is not known whether the names were ever stored, so a name that
                      the tier does not have does not count as a miss */
};

/* A stored block. */
struct inf_tier_found {
    uint64_t size; /* bytes */
    uint64_t sum;  /* XXH3-64 of these bytes, with seed 0 */
};

/* A block to store. */
struct inf_tier_block {
    uint8_t name[INF_TIER_NAME_BYTES];
    uint8_t parent[INF_TIER_NAME_BYTES]; /* name of the block before this block in the text; zeros:
                                            this block is the first of the text */
    uint32_t index;                      /* position in the text, in blocks, from 0 */
    uint64_t offset, size;               /* place of the block's bytes in the memfd */
    uint64_t sum;                        /* XXH3-64 of the bytes, with seed 0 */
};

/* Identifies a file until its content changes. */
struct inf_tier_file {
    uint64_t dev, ino, size;
    int64_t mtime_ns, ctime_ns;
};

struct inf_tier;

struct inf_tier_ops {
    /* Looks for the blocks @names [n] in order, up to the first one that is not stored. Describes
     * the blocks before it in @ret_found [n], and returns their number, or a negative errno. */
    int (*find)(struct inf_tier *t, const struct inf_tier_origin *origin,
                const uint8_t (*names)[INF_TIER_NAME_BYTES], uint32_t n,
                struct inf_tier_found *ret_found);
    /* Requests the bytes of the first @n blocks of @names [n + n_ahead], one block after another,
     * and announces that the last @n_ahead blocks will be requested next. The caller owns *ret_fd,
     * reads the bytes from it and may close it at any time. This call does not block; poll() says
     * when bytes are available. If the stream ends early, the remaining bytes are not available at
     * present. Returns 0, or a negative errno; -ENOENT: the first block is no longer stored. */
    int (*read)(struct inf_tier *t, const uint8_t (*names)[INF_TIER_NAME_BYTES], uint32_t n,
                uint32_t n_ahead, int *ret_fd);
    /* Stores blocks. @fd: a memfd sealed against writing, shrinking and growing; borrowed. The tier
     * may accept only some blocks from the beginning of the list. Returns the number of accepted
     * blocks; -ENOSPC and -EDQUOT: try later; or another negative errno. */
    int (*put)(struct inf_tier *t, const struct inf_tier_origin *origin, int fd,
               const struct inf_tier_block *blocks, uint32_t n);
    /* Reports blocks that the engine used without reading them from the tier, so that the tier
     * counts them as recently used. */
    void (*used)(struct inf_tier *t, const struct inf_tier_origin *origin,
                 const uint8_t (*names)[INF_TIER_NAME_BYTES], uint32_t n);
    /* Removes the block @name, because its bytes are not those that were stored. */
    void (*reject)(struct inf_tier *t, const uint8_t name[INF_TIER_NAME_BYTES]);
    /* Finds the digest that remember() stored for exactly this identity of a file. Returns 1 and
     * sets *ret_digest; 0 if the file is unknown; or a negative errno. */
    int (*recall)(struct inf_tier *t, const struct inf_tier_file *file, uint8_t ret_digest[32]);
    /* Stores the digest of a file's content. Returns 0 or a negative errno. */
    int (*remember)(struct inf_tier *t, const struct inf_tier_file *file, const uint8_t digest[32]);
};

/* A tier: an implementation embeds this struct as the first member of its own struct. */
struct inf_tier {
    const struct inf_tier_ops *ops;
};

#ifdef __cplusplus
}
#endif
#endif
