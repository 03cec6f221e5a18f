/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Inside of tier.h. */

#include <pthread.h>

#include "core/sum.h"
#include "sched/tier.h"

#define TIER_MAX_BATCHES 2            /* on their way */
#define TIER_PIECE_BYTES (256u << 10) /* stays in the second level of caches */

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

struct fetch {
    struct fetch *next; /* in the queue */
    struct tier *tier;
    struct tier_owner *owner;
    enum fetch_state state; /* under tier->lock, as all that follows */
    bool queued, at_work, orphan;
    uint32_t n, n_found, first, n_loaded;
    double usec_a_block;
    void **to;                     /* [n_found - first] */
    uint64_t serial;               /* of the find() that gave the places */
    bool dropped;                  /* under tier->copy */
    struct kv_name *names;         /* [n] as they are stored */
    struct inf_tier_place *places; /* [n] */
    bool has_names;
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

    pthread_mutex_t copy; /* while bytes go into blocks */

    /* of the thread alone */
    uint64_t serial; /* of find() */
    uint8_t digest[SHA256_BYTES];
    struct sha256 all, file; /* digests of all files, and of the one that is read */
    size_t i_file;
    uint64_t offset;
    uint64_t hash_usec; /* when the next piece is due */
    struct sum *sum;
    uint8_t *piece;
};

/* tier.c */
void tier_pause_note(struct tier *t, struct tier_pause *p, bool failed);
void tier_name(const struct tier *t, const struct kv_name *name, struct kv_name *ret_name);
struct inf_tier_origin tier_origin(const struct tier *t, const struct tier_owner *owner);

/* tier_digest.c: pieces of work on the thread. True when one was done. */
bool tier_work_digest(struct tier *t);
/* Whether it is so near that answers had better wait for it. */
bool tier_digest_is_near(const struct tier *t);
/* tier_load.c */
void tier_work_fetch(struct tier *t, struct fetch *f);
/* tier_keep.c */
void tier_work_batch(struct tier *t, struct tier_batch *b);
struct tier_batch *tier_batch_new(const struct tier *t);
