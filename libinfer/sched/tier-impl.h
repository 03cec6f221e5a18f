/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Internals of tier.h, shared by the tier-*.c files of its thread. */

#include <pthread.h>

#include "core/loop-thread.h"
#include "core/sum.h"
#include "sched/tier.h"

#define TIER_MAX_BATCHES 2            /* batches that are being stored */
#define TIER_PIECE_BYTES (256u << 10) /* fits in the second-level cache */
#define TIER_READERS     2

/* Decaying sums of recent times. */
struct tier_pace {
    double n, usec;
};
static inline void tier_pace_add(struct tier_pace *p, double n, double usec)
{
    const double keep = 0.9;

    p->n = p->n * keep + n;
    p->usec = p->usec * keep + usec;
}

/* When to retry after failed calls. */
struct tier_pause {
    uint64_t usec, until_usec;
};

/* State of loading a block. */
enum tier_read {
    READ_NOT, /* not started */
    READ_AT_WORK,
    READ_WHOLE, /* complete and correct */
    READ_BAD,
};

struct fetch {
    struct fetch *after; /* link in the queue */
    struct tier *tier;
    struct tier_owner *owner;
    enum fetch_state state; /* under the lock of tier->thread, like the members below */
    bool queued, at_work, orphan;
    uint32_t n, n_found;
    uint32_t first, n_loaded; /* during a load: its first block, and how many blocks have arrived
                                 in order */
    uint32_t next, end;       /* blocks before next were started; no block from end on will be */
    uint32_t n_streams;       /* number of streams; each brings every n_streams-th block */
    uint8_t *reads;           /* [n] of enum tier_read */
    uint64_t begin_usec;
    double usec_a_block;
    void **to;                    /* [n] targets, set from first on */
    bool dropped;                 /* under the locks of all readers */
    struct kv_name *names;        /* [n] names in the tier */
    struct inf_tier_found *found; /* [n] */
    bool has_names;
};

/* A thread that reads blocks: with n readers, every n-th block of a load. */
struct tier_reader {
    struct tier *tier;
    pthread_mutex_t copy; /* held while bytes are written to a block */
    struct sum *sum;
    int fd;        /* source of the bytes; -1: none */
    uint32_t next; /* next block of this reader; under the lock of tier->thread */
};

struct used {
    struct used *next;
    struct tier_owner *owner;
    uint32_t n;
    struct kv_name names[];
};

enum tier_digest {
    DIGEST_NEW,     /* the tier was not asked */
    DIGEST_HASHING, /* the tier does not remember it */
    DIGEST_KNOWN,
    DIGEST_LOST, /* the files changed: nothing is found or stored any more */
};

struct tier {
    struct tier_params params;
    atomic_bool busy;
    atomic_int digest_state; /* enum tier_digest; the thread sets it */

    struct loop_thread thread;            /* its lock protects all members up to is_helping */
    struct fetch *fetches, **fetches_end; /* to find or to load */
    struct used *used, **used_end;
    uint32_t n_used;
    struct tier_batch *batches, **batches_end; /* to store */
    struct tier_batch *over;
    struct tier_batch *spare;
    bool want_spare;
    uint32_t n_batches; /* batches from tier_take_batch() until they are over */
    struct tier_counts counts;
    struct tier_pace reading, keeping; /* time per byte, and CPU time per block */
    struct tier_pause find_pause, put_pause;

    /* The readers are the tier's thread and, during a load, a helper. */
    struct tier_reader readers[TIER_READERS];
    uint32_t n_readers;
    pthread_t helper;
    pthread_cond_t help, helped;
    struct fetch *loading;
    bool is_helping;

    /* Used only by the thread. */
    uint8_t digest[SHA256_BYTES];
    struct sha256 all, file; /* digests of all files and of the file that is being read */
    size_t i_file;
    uint64_t offset;
    uint64_t hash_usec; /* time of the next piece */
};

/* tier.c */
void tier_pause_note(struct tier *t, struct tier_pause *p, bool failed);
void tier_name(const struct tier *t, const struct kv_name *name, struct kv_name *ret_name);
struct inf_tier_origin tier_origin(const struct tier *t, const struct tier_owner *owner);

/* tier-digest.c: one piece of work on the thread. Returns true if there was one. */
bool tier_work_digest(struct tier *t);
/* Whether the files are unchanged, so that blocks computed from them may be stored. */
bool tier_files_hold(struct tier *t);
/* Whether the digest is so nearly complete that requests should wait for it. */
bool tier_digest_is_near(const struct tier *t);
/* tier-load.c */
void tier_work_fetch(struct tier *t, struct fetch *f);
/* tier-read.c */
int tier_readers_init(struct tier *t);
void tier_readers_done(struct tier *t);
/* Reads the blocks of @f from next to end, until one is bad or arrives too slowly. */
void tier_read_blocks(struct tier *t, struct fetch *f);
/* After this call nothing is written to the blocks of @f. */
void tier_read_drop(struct tier *t, struct fetch *f);
bool tier_read_is_dropped(struct tier *t, struct fetch *f);
/* Returns 0 or -errno. */
int tier_helper_start(struct tier *t);
/* Marks the tier as stopping, and waits for the helper to end. */
void tier_helper_stop(struct tier *t);
/* tier-store.c */
void tier_work_batch(struct tier *t, struct tier_batch *b);
struct tier_batch *tier_batch_new(const struct tier *t);
