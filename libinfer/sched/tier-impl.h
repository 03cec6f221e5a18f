/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the internals of struct tier and struct fetch, which tier.c, tier-digest.c, tier-load.c,
 * tier-read.c and tier-store.c share. tier.h explains tiers and fetches, graph/state.h the groups
 * of the state, and kv/prefix.h the chains of blocks. */

#include <pthread.h>

#include "core/loop-thread.h"
#include "core/sum.h"
#include "sched/tier.h"

#define TIER_MAX_BATCHES 2            /* limit of n_batches */
#define TIER_PIECE_BYTES (256u << 10) /* fits into the second-level cache of the CPU */
#define TIER_READERS     2

/* Holds two decaying sums: the amount of recent work, and the time that it took. */
struct tier_pace {
    double n, usec;
};
static inline void tier_pace_add(struct tier_pace *p, double n, double usec)
{
    const double keep = 0.9;

    p->n = p->n * keep + n;
    p->usec = p->usec * keep + usec;
}

/* Holds the length of the pause after failed calls of the tier, and when the pause ends. */
struct tier_pause {
    uint64_t usec, until_usec;
};

/* The states of one block during a load. */
enum tier_read {
    READ_NOT, /* the block was not read completely */
    READ_AT_WORK,
    READ_WHOLE, /* the block is complete and correct */
    READ_BAD,
};

struct fetch {
    struct fetch *after; /* link in the queue */
    struct tier *tier;
    struct tier_owner *owner;
    enum fetch_state state; /* under the lock of tier->thread, like the members below */
    bool queued, at_work, orphan;
    uint32_t n, n_found;
    uint32_t first, n_loaded; /* during a load: the first block of the load, and how many blocks
                                 from this block on have arrived */
    uint32_t next, end;       /* readers have started to read all blocks before `next`; no reader
                                 will start a block from `end` on */
    uint32_t n_streams;       /* number of streams; a stream brings every n_streams-th block */
    uint8_t *reads;           /* [cap] of enum tier_read */
    uint64_t begin_usec;
    double usec_a_block;
    void **to;    /* [cap] target addresses, set for the blocks of the load */
    bool dropped; /* may be set only with the `copy` locks of all readers */
    /* [first_block + n] names of the chain in the pool; the fetch asks for the last n of them. */
    struct kv_name *chain;
    uint32_t first_block;
    uint32_t mark;            /* number of the chain's blocks up to the last found one */
    bool has_chain;           /* the tier has all n FULL blocks */
    uint32_t cap;             /* size of the arrays of the list of blocks, which the tier's thread
                                 makes */
    struct fetch_item *items; /* [cap] */
    struct kv_name *names;    /* [cap] names in the tier */
    struct inf_tier_found *found; /* [cap] */
};

static inline bool tier_is_plain(const struct tier_params *p)
{
    return p->layout->n_groups == 1 && p->layout->groups[0].rule == STATE_FULL;
}

/* Describes a thread that reads blocks. Each of n readers reads every n-th block of a load. */
struct tier_reader {
    struct tier *tier;
    pthread_mutex_t copy; /* held while bytes are written to a block */
    struct sum *sum;
    int fd;        /* the stream of blocks; -1: none */
    uint32_t next; /* next block of this reader; under the lock of tier->thread */
};

struct used {
    struct used *next;
    struct tier_owner *owner;
    uint32_t n, i_group;
    struct kv_name names[];
};

enum tier_digest {
    DIGEST_NEW,     /* the tier has not yet answered whether it remembers the digest */
    DIGEST_HASHING, /* the tier does not remember the digest, so it is being computed */
    DIGEST_KNOWN,
    DIGEST_LOST, /* the files changed: no block is found or stored any more */
};

struct tier {
    struct tier_params params;
    atomic_bool busy;
    atomic_int digest_state; /* enum tier_digest; the thread sets it */

    struct loop_thread thread;            /* the lock in it protects the members down to
                                             is_helping */
    struct fetch *fetches, **fetches_end; /* queue of fetches to find or to load */
    struct used *used, **used_end;
    uint32_t n_used;
    struct tier_batch *batches, **batches_end; /* queue of batches to store */
    struct tier_batch *over;
    struct tier_batch *spare;
    bool want_spare;
    uint32_t n_batches; /* batches from tier_take_batch() until they are over */
    struct tier_counts counts;
    struct tier_pace reading, keeping; /* reading: bytes and time; keeping: stored blocks and CPU
                                          time */
    struct tier_pause find_pause, put_pause;

    /* The readers are the tier's thread and, during a load, a helper. */
    struct tier_reader readers[TIER_READERS];
    uint32_t n_readers;
    pthread_t helper;
    pthread_cond_t help, helped;
    struct fetch *loading;
    bool is_helping;

    /* Only the tier's thread uses the members below. */
    uint8_t digest[SHA256_BYTES];
    struct sha256 all, file; /* hash states: of all files, and of the file that is being read */
    size_t i_file;
    uint64_t offset;
    uint64_t hash_usec; /* time when the next piece may be read */
};

/* tier.c */
void tier_pause_note(struct tier *t, struct tier_pause *p, bool failed);
/* Makes the name in the tier of the block of group @i_group with the name @name in the pool. */
void tier_name(const struct tier *t, const struct kv_name *name, uint32_t i_group,
               struct kv_name *ret_name);
struct inf_tier_origin tier_origin(const struct tier *t, const struct tier_owner *owner);

/* tier-digest.c. Does one piece of work for the digest; the tier's thread calls it. Returns true if
 * there was a piece to do. */
bool tier_work_digest(struct tier *t);
/* Returns whether the files are unchanged, so that blocks computed from them may be stored. If not,
 * sets the state DIGEST_LOST. */
bool tier_files_hold(struct tier *t);
/* Returns whether so few bytes of the files are left to read that requests should wait for the
 * digest. */
bool tier_digest_is_near(const struct tier *t);
/* tier-load.c */
void tier_work_fetch(struct tier *t, struct fetch *f);
/* tier-read.c */
int tier_readers_init(struct tier *t);
void tier_readers_done(struct tier *t);
/* Reads the blocks f->next … f->end - 1, until a block is bad or arrives too slowly. */
void tier_read_blocks(struct tier *t, struct fetch *f);
/* Marks @f as dropped: after this call the readers write nothing to its blocks. */
void tier_read_drop(struct tier *t, struct fetch *f);
bool tier_read_is_dropped(struct tier *t, struct fetch *f);
/* Returns 0 or -errno. */
int tier_helper_start(struct tier *t);
/* Marks the tier as stopping, and waits for the helper to end. */
void tier_helper_stop(struct tier *t);
/* tier-store.c */
void tier_work_batch(struct tier *t, struct tier_batch *b);
struct tier_batch *tier_batch_new(const struct tier *t);
