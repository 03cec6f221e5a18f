/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Inside of tier.h. */

#include <pthread.h>

#include "core/sum.h"
#include "sched/tier.h"

#define TIER_MAX_BATCHES 2            /* on their way */
#define TIER_PIECE_BYTES (256u << 10) /* stays in the second level of caches */
#define TIER_READERS     2

/* Sums that fade: what things take, lately. */
struct tier_pace {
    double n, usec;
};
static inline void tier_pace_add(struct tier_pace *p, double n, double usec)
{
    const double keep = 0.9;

    p->n = p->n * keep + n;
    p->usec = p->usec * keep + usec;
}

/* When failing calls are tried again. */
struct tier_pause {
    uint64_t usec, until_usec;
};

/* What became of a block that is loaded. */
enum tier_read {
    READ_NOT, /* nobody began */
    READ_AT_WORK,
    READ_WHOLE, /* and right */
    READ_BAD,
};

struct fetch {
    struct fetch *after; /* in the queue */
    struct tier *tier;
    struct tier_owner *owner;
    enum fetch_state state; /* under tier->lock, as all that follows */
    bool queued, at_work, orphan;
    uint32_t n, n_found;
    uint32_t first, n_loaded; /* of a load: where it begins, and how many came in order */
    uint32_t next, end;       /* those before next were begun; none from the end on is */
    uint32_t n_streams;       /* by which they come, each with every n-th block */
    uint8_t *reads;           /* [n]: enum tier_read */
    uint64_t begin_usec;
    double usec_a_block;
    void **to;                    /* [n]: those from first on are set */
    bool dropped;                 /* under the locks of all readers */
    struct kv_name *names;        /* [n] as they are stored */
    struct inf_tier_found *found; /* [n] */
    bool has_names;
};

/* Who reads blocks: of those that are loaded, every n-th for n readers. */
struct tier_reader {
    struct tier *tier;
    pthread_mutex_t copy; /* while bytes go into a block */
    struct sum *sum;
    int fd;        /* where the bytes come from; -1: nowhere */
    uint32_t next; /* block of this reader; under tier->lock */
};

struct used {
    struct used *next;
    struct tier_owner *owner;
    uint32_t n;
    struct kv_name names[];
};

enum tier_digest {
    DIGEST_NEW,     /* nobody was asked for it */
    DIGEST_HASHING, /* nobody remembers it */
    DIGEST_KNOWN,
    DIGEST_LOST, /* the files changed: nothing is found or kept any more */
};

struct tier {
    struct tier_params params;
    pthread_t thread;
    bool has_thread;
    atomic_bool busy;
    atomic_int digest_state; /* enum tier_digest; set by the thread */

    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop;
    struct fetch *fetches, **fetches_end; /* to find or load */
    struct used *used, **used_end;
    uint32_t n_used;
    struct tier_batch *batches, **batches_end; /* to put */
    struct tier_batch *over;
    struct tier_batch *spare;
    bool want_spare;
    uint32_t n_batches; /* from taking until they are over */
    struct tier_counts counts;
    struct tier_pace reading, keeping; /* usec for bytes, and CPU time for blocks */
    struct tier_pause find_pause, put_pause;

    /* Readers are the thread, and a helper while there is something to load. */
    struct tier_reader readers[TIER_READERS];
    uint32_t n_readers;
    pthread_t helper;
    pthread_cond_t help, helped;
    struct fetch *loading;
    bool is_helping;

    /* of the thread alone */
    uint8_t digest[SHA256_BYTES];
    struct sha256 all, file; /* digests of all files, and of the one that is read */
    size_t i_file;
    uint64_t offset;
    uint64_t hash_usec; /* when the next piece is due */
};

/* tier.c */
void tier_pause_note(struct tier *t, struct tier_pause *p, bool failed);
void tier_name(const struct tier *t, const struct kv_name *name, struct kv_name *ret_name);
struct inf_tier_origin tier_origin(const struct tier *t, const struct tier_owner *owner);

/* tier-digest.c: pieces of work on the thread. True when one was done. */
bool tier_work_digest(struct tier *t);
/* Whether the files are what they were, so that what was computed with them may be kept. */
bool tier_files_hold(struct tier *t);
/* Whether it is so near that answers had better wait for it. */
bool tier_digest_is_near(const struct tier *t);
/* tier-load.c */
void tier_work_fetch(struct tier *t, struct fetch *f);
/* tier-read.c */
int tier_readers_init(struct tier *t);
void tier_readers_done(struct tier *t);
/* Reads the blocks of @f from next to end, until one of them is bad or comes too slowly. */
void tier_read_blocks(struct tier *t, struct fetch *f);
/* Nothing is written to the blocks of @f afterwards. */
void tier_read_drop(struct tier *t, struct fetch *f);
bool tier_read_is_dropped(struct tier *t, struct fetch *f);
/* -errno. */
int tier_helper_start(struct tier *t);
/* Also says that the tier stops. */
void tier_helper_stop(struct tier *t);
/* tier-store.c */
void tier_work_batch(struct tier *t, struct tier_batch *b);
struct tier_batch *tier_batch_new(const struct tier *t);
