/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The thread that talks to the tier
 *
 * The engine thread asks for blocks, has them loaded, and passes on copies of blocks to store. Only
 * the thread "infer-tier", and a second one that helps it to read blocks, wait for the tier. The
 * engine polls for answers; news() is called when there may be some. Loaded bytes go directly into
 * the pool's memory, but never after the fetch was dropped: then its blocks may be reused at once.
 *
 * Nothing is found or stored until the digest of all weights is known. The tier recalls it by the
 * files' times and sizes, or the thread computes it by reading the files, slowly while the engine
 * computes.
 */

#include <stdatomic.h>

#include "core/file.h"
#include "core/macros.h"
#include "kv/prefix.h"

struct tier;
struct fetch;

/* Owner of blocks. Requests and blocks share it by reference count; both texts are in one
 * allocation. */
struct tier_owner {
    atomic_uint n_refs;
    const char *tenant;  /* "": no tenant */
    const char *session; /* NULL: none */
    char text[];
};
/* NULL if memory is short. */
struct tier_owner *tier_owner_new(const char *tenant, const char *session);
struct tier_owner *tier_owner_ref(struct tier_owner *o);
struct tier_owner *tier_owner_unref(struct tier_owner *o);

struct tier_params {
    struct inf_tier *impl; /* borrowed, like the files and texts */
    /* [n_files] files with the weights; none: only in tests, with a digest of zeros */
    const struct file_map *const *files;
    size_t n_files;
    const char *model, *codec; /* for people */
    const char *format;        /* meaning of the bytes; part of the names */
    uint64_t block_bytes;
    void (*news)(void *data); /* called on the tier's thread, without locks */
    void *data;
};

struct tier_counts {
    uint64_t n_asked, n_found;       /* blocks */
    uint64_t n_loaded, loaded_bytes; /* blocks that arrived and are correct */
    uint64_t n_bad;                  /* blocks that were short, wrong or unreadable */
    uint64_t n_kept, kept_bytes;     /* blocks that were accepted */
    uint64_t n_failed;               /* failed calls */
};

/* -ENOMEM. */
int tier_new(const struct tier_params *params, struct tier **ret_tier);
/* Starts the thread. Without a thread, tier_work() does its work. */
int tier_start(struct tier *t);
/* Ends the thread after its current work; waiting work is dropped. */
struct tier *tier_free(struct tier *t);
DEFINE_CLEANUP(struct tier *, tier_free);
/* Does one piece of work. Returns false if there was none. */
bool tier_work(struct tier *t);
void tier_count(struct tier *t, struct tier_counts *ret_counts);
/* Whether steps run: then work that can wait is done slowly. */
void tier_set_busy(struct tier *t, bool busy);
/* Whether asking is useful. */
bool tier_is_ready(struct tier *t);
/* Estimated time of reading a block, and cost of storing one on this thread. */
double tier_load_usec(struct tier *t);
double tier_keep_usec(struct tier *t);

/* fetches */

enum fetch_state {
    FETCH_ASKED,
    FETCH_FOUND,
    FETCH_LOADING,
    FETCH_LOADED,
};

/* Asks for the blocks @names [n], at most INF_TIER_MAX_NAMES. Returns NULL if memory is short. */
struct fetch *tier_ask(struct tier *t, struct tier_owner *owner, const struct kv_name *names,
                       uint32_t n);
/* Reports how many of the first blocks were found, from FETCH_FOUND on, and how many have arrived
 * in order, during a load. */
enum fetch_state fetch_look(const struct fetch *f, uint32_t *ret_n_found, uint32_t *ret_n_loaded);
/* Starts a load in state FETCH_FOUND, or continues in FETCH_LOADED. Loads @n of the found blocks
 * from @first on to @to [n], as long as that takes less than @usec per block. */
void fetch_load(struct fetch *f, uint32_t first, uint32_t n, void *const *to, double usec);
/* After this call nothing is written to the blocks. NULL is allowed; returns NULL. */
struct fetch *fetch_drop(struct fetch *f);

/* Reports blocks that the engine used without reading them from the tier. */
void tier_note_used(struct tier *t, struct tier_owner *owner, const struct kv_name *names,
                    uint32_t n);

/* storing */

struct tier_kept {
    uint32_t block; /* block of the pool */
    struct kv_name name, parent;
    uint32_t index; /* position in its chain; 0: it has no parent */
    struct tier_owner *owner;
    bool taken; /* valid when the batch is over */
};

struct tier_batch {
    struct tier_batch *next;
    struct tier_kept *blocks; /* [max_blocks] */
    uint32_t n_blocks, max_blocks;
    int fd;        /* memfd of max_blocks blocks */
    uint8_t *data; /* mapping of the memfd; block i begins at i times the block size */
    size_t map_bytes;
};

/* Returns an empty batch, or NULL if there is none; news() is called when there is one. */
struct tier_batch *tier_take_batch(struct tier *t);
/* Passes a batch on for storing. */
void tier_put_batch(struct tier *t, struct tier_batch *b);
/* Returns a batch that is over, which the caller frees; NULL: none. */
struct tier_batch *tier_over_batch(struct tier *t);
struct tier_batch *tier_batch_free(struct tier_batch *b);
/* Whether storing more is useful now. */
bool tier_may_keep(struct tier *t);
/* Whether storing has failed repeatedly. */
bool tier_is_down(struct tier *t);
/* Whether batches are being stored. */
bool tier_is_keeping(struct tier *t);
/* Frees the empty batch that waits to be taken. */
void tier_rest(struct tier *t);
