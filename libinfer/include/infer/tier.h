/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_TIER_H
#define INFER_TIER_H

/*
 * Where KV blocks are kept beyond the memory of one engine
 *
 * The library opens no socket and no file for that: whoever makes an engine may give it a tier, a
 * table of functions that finds and keeps blocks by name. A name stands for a block's bytes and for
 * all that they depend on, on any machine. One thread of the engine calls the functions, one at a
 * time; they may block, shortly, and whatever fails there is a miss. What they say is not believed:
 * bytes that do not have the sum that was told are rejected and computed.
 */

#include <infer/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define INF_TIER_NAME_BYTES 32
/* Names in one call of find(), read() and used(), and blocks in one of put(), at most. */
#define INF_TIER_MAX_NAMES  512
#define INF_TIER_MAX_BLOCKS 64

/* For quotas and for people; none of it takes part in what a name stands for. */
struct inf_tier_origin {
    const char *model;   /* its name */
    const char *codec;   /* numbers and layout of the bytes: "f16/f16 cpu" */
    const char *tenant;  /* "": nobody's */
    const char *session; /* NULL: none */
};

/* A block that is kept. */
struct inf_tier_found {
    uint64_t size; /* of its bytes */
    uint64_t sum;  /* XXH3-64 of them, of seed 0 */
};

/* A block that is to be kept. */
struct inf_tier_block {
    uint8_t name[INF_TIER_NAME_BYTES];
    uint8_t parent[INF_TIER_NAME_BYTES]; /* of the block before; zeros: the first of its chain */
    uint32_t index;                      /* in its chain, from 0 */
    uint64_t offset, size;               /* of its bytes in the memfd */
    uint64_t sum;                        /* as above */
};

/* A file, until its content changes. */
struct inf_tier_file {
    uint64_t dev, ino, size;
    int64_t mtime_ns, ctime_ns;
};

struct inf_tier;

struct inf_tier_ops {
    /* How many of the first of @names [n] are kept, and what they are: @ret_found [n]. The count,
     * or a negative errno. */
    int (*find)(struct inf_tier *t, const struct inf_tier_origin *origin,
                const uint8_t (*names)[INF_TIER_NAME_BYTES], uint32_t n,
                struct inf_tier_found *ret_found);
    /* Has the bytes of the first @n of @names [n + n_ahead] sent, one block after the other, and
     * prepares for those after them to be asked for next. *ret_fd is the caller's, who reads the
     * bytes from it and closes it at any time. It does not block, and poll() tells when there is
     * more. Where it ends early, the rest cannot be had now. 0, or a negative errno; -ENOENT: the
     * first of them is kept no more. */
    int (*read)(struct inf_tier *t, const uint8_t (*names)[INF_TIER_NAME_BYTES], uint32_t n,
                uint32_t n_ahead, int *ret_fd);
    /* @fd: a memfd that is sealed against writing, shrinking and growing; borrowed. The count of
     * those that were taken, which are the first; -ENOSPC and -EDQUOT: not now; other negative
     * errnos. */
    int (*put)(struct inf_tier *t, const struct inf_tier_origin *origin, int fd,
               const struct inf_tier_block *blocks, uint32_t n);
    /* Blocks that were used without being read from here: keeps them young. */
    void (*used)(struct inf_tier *t, const struct inf_tier_origin *origin,
                 const uint8_t (*names)[INF_TIER_NAME_BYTES], uint32_t n);
    /* What was found under @name is not what was put: removes it. */
    void (*reject)(struct inf_tier *t, const uint8_t name[INF_TIER_NAME_BYTES]);
    /* The digest of a file's content, if somebody remembered it under exactly this identity.
     * 1 and *ret_digest, 0, or a negative errno. */
    int (*recall)(struct inf_tier *t, const struct inf_tier_file *file, uint8_t ret_digest[32]);
    int (*remember)(struct inf_tier *t, const struct inf_tier_file *file, const uint8_t digest[32]);
};

/* Implementations begin with it. */
struct inf_tier {
    const struct inf_tier_ops *ops;
};

#ifdef __cplusplus
}
#endif
#endif
