/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs the thread that talks to the tier.
 *
 * The tier is tier 2 of the KV cache: a table of functions (<infer/tier.h>) that finds and stores
 * blocks, usually on disk. The engine thread asks for blocks, requests loads of blocks that were
 * found, and hands over copies of blocks to store. Only the thread "infer-tier" and a second thread
 * that helps it to read blocks wait for the tier. The engine polls for answers; the thread
 * "infer-tier" calls news() when there may be new answers. Loaded bytes are written directly to the
 * pool's memory. A fetch is one question to the tier for blocks, with the loads that follow it.
 * After the engine has dropped a fetch, no byte is written to its blocks, so the engine may reuse
 * these blocks at once. A chain consists of the named blocks of a text, from its beginning on
 * (kv/prefix.h). graph/state.h explains the groups of the state (FULL, WINDOW, RECURRENT).
 *
 * No block is found or stored until the digest of all weights is known. The tier may remember the
 * digests of files, which it recognizes by their times and sizes. Otherwise the thread computes the
 * digest from the contents of the files; it reads them slowly while the engine computes.
 */

#include <stdatomic.h>

#include "core/file.h"
#include "core/macros.h"
#include "kv/pool.h"

struct tier;
struct fetch;

/* Describes the owner of blocks: a tenant, and a session if there is one. Requests and blocks share
 * a tier_owner by reference count. `text` holds the strings `tenant` and `session`. */
struct tier_owner {
    atomic_uint n_refs;
    const char *tenant;  /* "": no tenant */
    const char *session; /* NULL: none */
    char text[];
};
/* Returns NULL if there is not enough memory. */
struct tier_owner *tier_owner_new(const char *tenant, const char *session);
struct tier_owner *tier_owner_ref(struct tier_owner *o);
struct tier_owner *tier_owner_unref(struct tier_owner *o);

struct tier_params {
    struct inf_tier *impl; /* borrowed, like the files and texts below */
    /* [n_files] files with the weights. Tests may have no files; the digest is then the digest of
     * an empty text. */
    const struct file_map *const *files;
    size_t n_files;
    const char *model, *codec; /* for people to read */
    const char *format;        /* identifies the meaning of a block's bytes; a part of the block's
                                  name in the tier */
    const struct kv_layout *layout;   /* lives as long as the tier; set by the scheduler, like the
                                         next two members */
    uint64_t sizes[STATE_GROUPS_MAX]; /* bytes of a block of each group */
    /* A mark is a border between blocks at which the tier has everything that is needed to continue
     * a sequence. Each multiple of this number of blocks may be a mark (marks.c). */
    uint32_t mark_every;
    void (*news)(void *data); /* called by the tier's thread, which holds no lock then */
    void *data;
};

struct tier_counts {
    uint64_t n_asked, n_found;       /* blocks */
    uint64_t n_loaded, loaded_bytes; /* blocks that arrived complete and correct */
    uint64_t n_bad;                  /* blocks that arrived complete with a wrong checksum */
    uint64_t n_kept, kept_bytes;     /* blocks that the tier accepted */
    uint64_t n_failed;               /* failed calls to the tier */
};

/* Returns 0 or -ENOMEM. */
int tier_new(const struct tier_params *params, struct tier **ret_tier);
/* Starts the thread. Tests start no thread and call tier_work() instead. */
int tier_start(struct tier *t);
/* Ends the thread after its current piece of work; work that waits is dropped. */
struct tier *tier_free(struct tier *t);
DEFINE_CLEANUP(struct tier *, tier_free);
/* Does one piece of work. Returns false if there was nothing to do. */
bool tier_work(struct tier *t);
void tier_count(struct tier *t, struct tier_counts *ret_counts);
/* Tells the thread whether steps run. While steps run, the thread computes the digest slowly. */
void tier_set_busy(struct tier *t, bool busy);
/* Returns whether it is useful to ask for blocks now. */
bool tier_is_ready(struct tier *t);
/* Returns the estimated time of reading @n_bytes from the tier, in microseconds. */
double tier_load_usec(struct tier *t, uint64_t n_bytes);
/* Returns the CPU time that the tier's thread needs to store a block, in microseconds. */
double tier_keep_usec(struct tier *t);

/* fetches */

enum fetch_state {
    FETCH_ASKED,
    FETCH_FOUND,
    FETCH_LOADING,
    FETCH_LOADED,
};

/* A block of the list that a fetch has found. */
struct fetch_item {
    uint32_t i_group;
    uint32_t i; /* number of the block in its chain */
};

/* Returns the largest number of blocks of a chain that one fetch can ask for. */
uint32_t tier_max_ask(const struct tier *t);
/*
 * Asks for blocks with which a sequence need not be computed from its beginning. @names: the names
 * of its blocks from the beginning. The sequence needs @n blocks, at most tier_max_ask(), from
 * number @first on. If the only group of the layout is FULL, the fetch finds as many of these
 * blocks as the tier has. Otherwise it finds the blocks of all groups that are needed at a mark
 * (marks.c): first the FULL blocks in the order of the chain, then the blocks of the other groups.
 * Only all of these blocks together are useful. Returns NULL if memory is short.
 */
struct fetch *tier_ask(struct tier *t, struct tier_owner *owner, const struct kv_name *names,
                       uint32_t first, uint32_t n);
/* Returns the state of the fetch. From FETCH_FOUND on, *ret_n_found is the number of blocks that
 * the fetch has found. During and after a load, *ret_n_loaded says how many blocks at the beginning
 * of the load have arrived. */
enum fetch_state fetch_look(const struct fetch *f, uint32_t *ret_n_found, uint32_t *ret_n_loaded);
/* Functions for fetches in the state FETCH_FOUND or a later state. */
/* Returns the found block number @i. */
struct fetch_item fetch_item(const struct fetch *f, uint32_t i);
/* Returns the bytes of the @n found blocks from number @first on. */
uint64_t fetch_bytes(const struct fetch *f, uint32_t first, uint32_t n);
/* Returns the number of the block of the sequence from which computing continues when all found
 * blocks are loaded. */
uint32_t fetch_mark(const struct fetch *f);
/* Returns whether the tier had all FULL blocks that the fetch asked for. */
bool fetch_has_chain(const struct fetch *f);
/* Starts a load; the state must be FETCH_FOUND or FETCH_LOADED. Loads @n of the found blocks,
 * beginning with number @first, to the addresses @to [n]. The load stops early if it takes longer
 * than @usec microseconds per block. */
void fetch_load(struct fetch *f, uint32_t first, uint32_t n, void *const *to, double usec);
/* Drops a fetch: after this call the tier's threads write nothing to the addresses of its loads. @f
 * may be NULL. Returns NULL. */
struct fetch *fetch_drop(struct fetch *f);

/* Tells the tier which of its blocks of group @i_group the engine found in the pool and used,
 * without reading them from the tier. */
void tier_note_used(struct tier *t, struct tier_owner *owner, const struct kv_name *names,
                    uint32_t n, uint32_t i_group);

/* storing */

struct tier_kept {
    uint32_t block;              /* block of the pool */
    uint32_t i_group, i_parent;  /* groups of the block and of its parent */
    uint64_t offset, size;       /* place of its bytes in the memfd */
    struct kv_name name, parent; /* names in the pool */
    uint32_t index;              /* number of blocks before it in its chain; 0: it has no parent */
    struct tier_owner *owner;
    bool taken; /* the tier accepted the block; valid when the batch is over (stored or refused) */
};

struct tier_batch {
    struct tier_batch *next;
    struct tier_kept *blocks; /* [max_blocks] */
    uint32_t n_blocks, max_blocks;
    int fd;            /* memfd of map_bytes bytes */
    uint8_t *data;     /* mapping of the memfd */
    size_t map_bytes;  /* at least the bytes of the largest block */
    size_t used_bytes; /* bytes of the blocks in the batch */
};

/* Returns an empty batch, or NULL if there is none yet; then news() will be called when there is
 * one. */
struct tier_batch *tier_take_batch(struct tier *t);
/* Hands a filled batch to the thread, which stores its blocks. */
void tier_put_batch(struct tier *t, struct tier_batch *b);
/* Returns a batch that is over, that is, stored or refused, or NULL if there is none. The caller
 * frees the batch. */
struct tier_batch *tier_over_batch(struct tier *t);
struct tier_batch *tier_batch_free(struct tier_batch *b);
/* Returns whether it is useful to store more blocks now. */
bool tier_may_keep(struct tier *t);
/* Returns whether the engine should not wait until blocks are stored, because storing has failed
 * repeatedly, the files have changed, or the tier cannot be asked for digests. */
bool tier_is_down(struct tier *t);
/* Returns whether there are batches that are being filled or stored. */
bool tier_is_keeping(struct tier *t);
/* Frees the empty batch that the thread has prepared. */
void tier_rest(struct tier *t);
