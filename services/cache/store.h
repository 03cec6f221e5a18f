/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Blocks on disk: what sconce-cache keeps, without its sockets
 *
 * A directory holds segment files, which are only ever appended to and punched, and an index of
 * them (SQLite). Bytes are written and synced before their row is, so that a row tells of bytes
 * that were there; whether they still are is for the reader to check by their sum, and what fails
 * is to be rejected. An index that cannot be read is set aside and made again from the headers that
 * stand before each block; nothing that happens to the directory loses more than blocks.
 *
 * One thread calls all functions but store_write_run(), which touches nothing that others do.
 * Functions return 0 or what they document, else a negative errno: -ENOSPC and -EDQUOT (not now),
 * -EIO, -EROFS, -ENOMEM, -EINVAL (what was asked is outside the limits below).
 */

#include <infer/types.h>

#include "cache/store-io.h"
#include "core/macros.h"

#define STORE_LOCK         "lock" /* a file that one process holds */
#define STORE_NAME_BYTES   32
#define STORE_DIGEST_BYTES 32
#define STORE_BLOCK_MAX    (UINT64_C(1) << 30) /* bytes of one block */
#define STORE_TEXT_MAX     255                 /* bytes of each text of an origin */
/* A block takes this much before it, and its own size rounded up to it. */
#define STORE_PAGE 4096

struct segment_file;
struct store;
struct store_write;

struct store_limits {
    uint64_t max_bytes;        /* of all blocks on disk; 0: no limit but the next but one */
    uint64_t max_tenant_bytes; /* of each tenant's; 0: no limit of its own */
    uint64_t min_free_bytes;   /* that the file system keeps for others */
    uint64_t segment_bytes;    /* of a segment file at most; 0: chosen by max_bytes */
};

struct store_params {
    const char *path; /* of the directory; it is made if its parent is there */
    struct store_limits limits;
    const struct store_io *io;     /* NULL: the system's */
    const char *vfs;               /* of SQLite; NULL: its own */
    uint64_t (*clock)(void *data); /* seconds since 1970; NULL: the system's. Only listings */
    void *clock_data;              /* and purges by age look at it, and it may jump */
};

/* For quotas and listings. Texts are borrowed during the call. */
struct store_origin {
    const char *model, *codec;
    const char *tenant;  /* "": shared */
    const char *session; /* NULL: none */
};

/* Where the bytes of a block are. */
struct store_place {
    uint32_t segment; /* store_segment_file() opens it */
    uint64_t offset;  /* a multiple of STORE_PAGE */
    uint64_t size, sum;
};

/* A block that is to be kept. */
struct store_block {
    uint8_t name[STORE_NAME_BYTES];
    uint8_t parent[STORE_NAME_BYTES]; /* zeros: the first of its chain */
    uint32_t index;                   /* in its chain, from 0 */
    uint64_t offset, size;            /* of its bytes in the descriptor that is given with it */
    uint64_t sum;                     /* XXH3-64 of them, of seed 0 */
};

/* Opens or makes the store. *ret_store is the caller's, to be closed. -EBUSY: another process has
 * it; -EPROTONOSUPPORT: it is of a newer version, and was left alone; *reterr says what to do. */
int store_open(const struct store_params *p, struct store **ret_store, struct inf_err *reterr);
/* Whether @fd is the file STORE_LOCK of the directory, open for reading and writing. */
bool store_is_lock(const struct store *s, int fd);
/* Writes down what is only in memory. NULL is fine; returns NULL. No write may be under way. */
struct store *store_close(struct store *s);
DEFINE_CLEANUP(struct store *, store_close)

/* blocks */

/* How many of the first of @names [n] are kept, and where: ret_places [n]. They are younger now. */
int store_find(struct store *s, const struct store_origin *origin,
               const uint8_t (*names)[STORE_NAME_BYTES], uint32_t n,
               struct store_place *ret_places);
/* The same without making them younger, nor counting. */
int store_locate(struct store *s, const uint8_t (*names)[STORE_NAME_BYTES], uint32_t n,
                 struct store_place *ret_places);
/* What a segment is read by, which is the caller's to let go of (segment_file_unref()). What was
 * found in it can be read, or reads as zeros, even when the segment is gone meanwhile. -ENOENT: it
 * is gone already. */
int store_segment_file(struct store *s, uint32_t segment, struct segment_file **ret_file);
/* Makes blocks younger that were used without being read from here. */
int store_used(struct store *s, const struct store_origin *origin,
               const uint8_t (*names)[STORE_NAME_BYTES], uint32_t n);
/* Removes a block, if it is there, because its bytes were not what its sum says. */
int store_reject(struct store *s, const uint8_t name[STORE_NAME_BYTES]);

/* Makes room for the first of @blocks [n] that are not kept yet and are worth more than what goes
 * for them, and plans where they go. *ret_write must be given to store_put_end(), after
 * store_write_run() or without. The arrays are not needed afterwards. -ENOSPC: the limit of all or
 * of the file system; -EDQUOT: the tenant's. */
int store_put_begin(struct store *s, const struct store_origin *origin,
                    const struct store_block *blocks, uint32_t n, struct store_write **ret_write);
/* Checks the sums of the bytes in @fd, which must not shrink meanwhile, and writes and syncs them.
 * May run in any thread, while the store works on. Keeps its result in the write: 0, or a negative
 * errno, for some of the blocks may have been written. */
int store_write_run(struct store_write *w, int fd);
/* Makes findable what was written; frees @w, which is NULL where store_put_begin() failed. Returns
 * how many of the blocks that store_put_begin() was given are kept now or were declined, which are
 * the first, or what went wrong with the first of them. Blocks whose bytes did not have their sum:
 * -EBADMSG. */
int store_put_end(struct store *s, struct store_write *w);
/* All three. @fd is borrowed. */
int store_put(struct store *s, const struct store_origin *origin, int fd,
              const struct store_block *blocks, uint32_t n);

/* digests of files */

struct store_file {
    uint64_t dev, ino, size;
    int64_t mtime_ns, ctime_ns;
};

/* 1 and the digest, or 0. */
int store_recall(struct store *s, const struct store_file *file,
                 uint8_t ret_digest[STORE_DIGEST_BYTES]);
/* Forgets the oldest when there are many. */
int store_remember(struct store *s, const struct store_file *file,
                   const uint8_t digest[STORE_DIGEST_BYTES]);

/* upkeep */

/* Does one short step of what can wait: writes down uses, keeps to the limits, gives space back,
 * compacts. 1: there is more to do; 0: nothing until something changes. */
int store_tend(struct store *s);
/* Writes down everything, and syncs it. */
int store_flush(struct store *s);

/* What purge takes. All that is not NULL or 0 must fit; nothing set takes everything, digests of
 * files with it. */
struct store_filter {
    const char *model, *tenant, *session;
    uint64_t older_than; /* seconds since the last use */
};

/* Zeroed: at the beginning. */
struct store_cursor {
    uint64_t at;
    uint64_t seen;          /* blocks looked at */
    uint64_t blocks, bytes; /* that were removed; bytes as on disk */
    uint64_t total;         /* blocks to look at, about */
};

/* One step of a purge. 1: call again; 0: it is over. */
int store_purge(struct store *s, const struct store_filter *filter, struct store_cursor *cursor);
/* One step of reading blocks and comparing their sums; removes those that differ. As above. */
int store_verify(struct store *s, struct store_cursor *cursor);

enum store_kind {
    STORE_MODELS,
    STORE_TENANTS,
    STORE_SESSIONS,
};

struct store_entry {
    const char *model, *codec, *tenant, *session; /* NULL: many, or none */
    uint64_t blocks, bytes;                       /* on disk */
    uint64_t age;                                 /* seconds since the last use */
};

/* Calls @fn for each model (and codec), tenant, or session that has blocks. A negative result of it
 * ends that and is returned. */
int store_list(struct store *s, enum store_kind kind,
               int (*fn)(void *data, const struct store_entry *entry), void *data);

/* Counts are since store_open(). */
struct store_stats {
    uint64_t blocks, bytes;         /* that are kept; bytes as on disk */
    uint64_t max_bytes, free_bytes; /* limit, and of the file system */
    uint64_t index_bytes;           /* of the index on disk */
    uint64_t segments;              /* files */
    uint64_t hits, misses;          /* of names that were asked for */
    uint64_t bytes_found;           /* of blocks that were found */
    uint64_t puts, bytes_put;       /* blocks that were written */
    uint64_t declined;              /* blocks that others are worth more than, and no error */
    uint64_t evictions, bytes_evicted;
    uint64_t rejected, purged; /* blocks */
    uint64_t moved;            /* bytes, by compaction */
    uint64_t rebuilds;         /* of the index */
};

void store_stats(struct store *s, struct store_stats *ret_stats);
