/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The thread that speaks to the tier
 *
 * The engine thread asks for blocks, has them loaded, and hands over copies of blocks that are to
 * be kept; nothing here waits for the tier but the thread "infer-tier" and a second one that reads
 * blocks along with it. Answers are seen by looking; news() is called when there may be some.
 * Blocks go into the pool's memory in pieces, and only as long as the fetch was not dropped:
 * whoever drops one may give its blocks to others at once.
 *
 * Until the digest of all weights is known nothing is found or kept. It is recalled by what the
 * files' times and sizes are, or made by reading them, slowly while the engine computes.
 */

#include <stdatomic.h>

#include "core/file.h"
#include "core/macros.h"
#include "kv/prefix.h"

struct tier;
struct fetch;

/* Whose blocks are. Shared by requests and blocks; both texts are in one piece of memory. */
struct tier_owner {
    atomic_uint n_refs;
    const char *tenant;  /* "": nobody's */
    const char *session; /* NULL: none */
    char text[];
};
/* NULL when out of memory. */
struct tier_owner *tier_owner_new(const char *tenant, const char *session);
struct tier_owner *tier_owner_ref(struct tier_owner *o);
struct tier_owner *tier_owner_unref(struct tier_owner *o);

struct tier_params {
    struct inf_tier *impl; /* borrowed, as are files and texts */
    /* [n_files]: those with the weights; none: only of tests, the digest is zeros. */
    const struct file_map *const *files;
    size_t n_files;
    const char *model, *codec; /* for people */
    const char *format;        /* what bytes mean; part of the names */
    uint64_t block_bytes;
    void (*news)(void *data); /* on the tier's thread, without locks */
    void *data;
};

struct tier_counts {
    uint64_t n_asked, n_found;       /* blocks */
    uint64_t n_loaded, loaded_bytes; /* blocks that came, and were right */
    uint64_t n_bad;                  /* and those that were short, wrong or unreadable */
    uint64_t n_kept, kept_bytes;     /* blocks that were taken */
    uint64_t n_failed;               /* calls that failed */
};

/* -ENOMEM. */
int tier_new(const struct tier_params *params, struct tier **ret_tier);
/* Starts the thread; without one, tier_work() does its work. */
int tier_start(struct tier *t);
/* Ends the thread after what it does at the moment; what waits is forgotten. */
struct tier *tier_free(struct tier *t);
DEFINE_CLEANUP(struct tier *, tier_free);
/* One piece of work; false when there was none. */
bool tier_work(struct tier *t);
void tier_count(struct tier *t, struct tier_counts *ret_counts);
/* Whether steps run: then what has time is done slowly. */
void tier_set_busy(struct tier *t, bool busy);
/* Whether it is of use to ask. */
bool tier_is_ready(struct tier *t);
/* About what reading a block takes, and what keeping one costs this thread. */
double tier_load_usec(struct tier *t);
double tier_keep_usec(struct tier *t);

/* fetches */

enum fetch_state {
    FETCH_ASKED,
    FETCH_FOUND,
    FETCH_LOADING,
    FETCH_LOADED,
};

/* Asks for the blocks @names [n], INF_TIER_MAX_NAMES at most. NULL when out of memory. */
struct fetch *tier_ask(struct tier *t, struct tier_owner *owner, const struct kv_name *names,
                       uint32_t n);
/* How many of the first were found, from FETCH_FOUND on; how many came in order, when LOADING. */
enum fetch_state fetch_look(const struct fetch *f, uint32_t *ret_n_found, uint32_t *ret_n_loaded);
/* FETCH_FOUND, or FETCH_LOADED to go on. Loads @n of the blocks that were found, from @first on, to
 * @to [n], as long as that is faster than @usec a block. */
void fetch_load(struct fetch *f, uint32_t first, uint32_t n, void *const *to, double usec);
/* Nothing is written to the blocks afterwards. NULL is fine; returns NULL. */
struct fetch *fetch_drop(struct fetch *f);

/* The engine used these blocks without reading them from the tier. */
void tier_note_used(struct tier *t, struct tier_owner *owner, const struct kv_name *names,
                    uint32_t n);

/* keeping */

struct tier_kept {
    uint32_t block; /* of the pool */
    struct kv_name name, parent;
    uint32_t index; /* in its chain; 0: no parent */
    struct tier_owner *owner;
    bool taken; /* when it is over */
};

struct tier_batch {
    struct tier_batch *next;
    struct tier_kept *blocks; /* [max_blocks] */
    uint32_t n_blocks, max_blocks;
    int fd;        /* memfd of max_blocks blocks */
    uint8_t *data; /* its mapping; block i begins at i times the size of one */
    size_t map_bytes;
};

/* An empty batch, or NULL: later, news() tells. */
struct tier_batch *tier_take_batch(struct tier *t);
/* Hands it over for keeping. */
void tier_put_batch(struct tier *t, struct tier_batch *b);
/* One that is over, which the caller frees; NULL: none. */
struct tier_batch *tier_over_batch(struct tier *t);
struct tier_batch *tier_batch_free(struct tier_batch *b);
/* Whether keeping more is of use now. */
bool tier_may_keep(struct tier *t);
/* Whether keeping failed again and again. */
bool tier_is_down(struct tier *t);
/* Whether batches are on their way. */
bool tier_is_keeping(struct tier *t);
/* Frees the empty batch that waits for somebody to take it. */
void tier_rest(struct tier *t);
