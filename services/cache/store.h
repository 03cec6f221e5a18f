/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Stores KV blocks on disk, independently of the sockets of sconce-cache.
 *
 * A KV block has the keys and values of some consecutive tokens. An engine, the part of a process
 * that runs a model, computes blocks and puts them into the store. The parent of a block is the
 * block of the tokens before it. The blocks of one text, each with the one before it as its parent,
 * are a chain. A leaf is a block that is no other block's parent.
 *
 * A directory holds segment files and an index of them (SQLite). Segment files change only by
 * appending and by punching holes. The bytes of a block are written and synced before its row, so a
 * row never names bytes that were not written. The bytes may be damaged later. Therefore readers
 * verify checksums, and call store_reject() if a checksum does not match. In a segment file, a
 * record that describes the block precedes each block. If the index cannot be read, it is renamed,
 * and a new index is built from these records. Damage in the directory causes the loss of blocks,
 * and of nothing else.
 *
 * One thread calls all functions except store_write_run(), which uses no state of other functions.
 * Functions return 0 or the documented value, else a negative errno: -ENOSPC and -EDQUOT (try
 * later), -EIO, -EROFS, -ENOMEM, -EINVAL (an argument exceeds the limits below).
 */

#include <infer/types.h>

#include "cache/store-io.h"
#include "core/macros.h"

#define STORE_LOCK         "lock" /* the process that uses the store locks this file */
#define STORE_NAME_BYTES   32
#define STORE_DIGEST_BYTES 32
#define STORE_BLOCK_MAX    (UINT64_C(1) << 30) /* limit of bytes of one block */
#define STORE_TEXT_MAX     255                 /* limit of bytes of each text of an origin */
/* Bytes of the record before a block. In a segment file, the size of a block is rounded up to a
 * multiple of STORE_PAGE. STORE_PAGE is a constant of the format. It depends neither on the size of
 * memory pages, because no file is mapped, nor on the block size of the file system. If file system
 * blocks are larger than STORE_PAGE, a removed record leaves a part of one such block allocated at
 * each of its ends. */
#define STORE_PAGE 4096

struct segment_file;
struct store;
struct store_write;

struct store_limits {
    uint64_t max_bytes;        /* limit of all blocks on disk; 0: only min_free_bytes limits them */
    uint64_t max_tenant_bytes; /* limit of the blocks of each tenant; 0: none */
    uint64_t min_free_bytes;   /* space that the file system keeps for other programs */
    uint64_t segment_bytes;    /* limit of one segment file; 0: derived from max_bytes */
};

struct store_params {
    const char *path; /* the directory; store_open() creates it if its parent exists */
    struct store_limits limits;
    const struct store_io *io; /* NULL: store_io_system */
    const char *vfs;           /* SQLite's VFS; NULL: the default */
    /* Returns the wall clock in seconds since 1970; NULL: the system's clock. Only listings and
     * purges by age use it. This clock may jump. */
    uint64_t (*clock)(void *data);
    void *clock_data;
};

/* Struct store_origin says where blocks come from, for quotas and listings. Calls borrow the
 * texts. */
struct store_origin {
    const char *model, *codec; /* codec: number format and layout of the bytes, "f16/f16 cpu" */
    const char *tenant;        /* owner: an API key or a user; "": shared by all tenants */
    const char *session;       /* name that a client gave to a conversation; NULL: none */
};

/* Struct store_place says where the bytes of a block are. */
struct store_place {
    uint32_t segment; /* number of the segment, for store_segment_file() */
    uint64_t offset;  /* a multiple of STORE_PAGE */
    uint64_t size, sum;
};

/* Struct store_block is a block to be stored. */
struct store_block {
    uint8_t name[STORE_NAME_BYTES];
    uint8_t parent[STORE_NAME_BYTES]; /* zeros: this block is the first of its chain */
    uint32_t index;                   /* position in its chain, from 0 */
    uint64_t offset, size; /* range of its bytes in the file that store_write_run() gets */
    uint64_t sum;          /* XXH3-64 of the bytes, seed 0 */
};

/* Opens or makes the store. The caller closes *ret_store. -EBUSY: another process uses the store;
 * -EPROTONOSUPPORT: a newer version of sconce wrote the store, which was not changed. *reterr says
 * what to do. */
int store_open(const struct store_params *p, struct store **ret_store, struct inf_err *reterr);
/* Returns whether @fd is the file STORE_LOCK of the directory, open for reading and writing. */
bool store_is_lock(const struct store *s, int fd);
/* Writes pending state to disk. NULL is allowed; returns NULL. No write may be under way. */
struct store *store_close(struct store *s);
DEFINE_CLEANUP(struct store *, store_close)

/* Functions for blocks. */

/* Looks up @names [@n], up to the first block that is not stored. Returns the number of blocks that
 * were found, and their places in @ret_places [@n]. The call counts as a use of these blocks. If
 * @is_guess is true, the engine only guesses that the blocks exist, and names that are not found do
 * not count as missed. */
int store_find(struct store *s, const struct store_origin *origin,
               const uint8_t (*names)[STORE_NAME_BYTES], uint32_t n, bool is_guess,
               struct store_place *ret_places);
/* Works like store_find(), but the call does not count as a use. */
int store_locate(struct store *s, const uint8_t (*names)[STORE_NAME_BYTES], uint32_t n,
                 struct store_place *ret_places);
/* Sets *ret_file to the file of a segment, which the caller releases with segment_file_unref().
 * Places in the file stay readable, or read as zeros, even after the segment is removed. -ENOENT:
 * the segment is already removed. */
int store_segment_file(struct store *s, uint32_t segment, struct segment_file **ret_file);
/* Records that an engine used the blocks @names [@n] from its own memory. If a block is not stored,
 * ignores it and all blocks after it. */
int store_used(struct store *s, const struct store_origin *origin,
               const uint8_t (*names)[STORE_NAME_BYTES], uint32_t n);
/* Removes the block @name if it is stored, because its bytes do not match its checksum or cannot be
 * read. */
int store_reject(struct store *s, const uint8_t name[STORE_NAME_BYTES]);

/* Plans places for @blocks [@n], up to the first block that does not fit. Leaves out blocks that
 * are already stored, and blocks that are worth less than the blocks that must be evicted for them.
 * The caller must pass *ret_write to store_put_end(), with or without store_write_run() before. The
 * arrays are not needed afterwards. -ENOSPC: the limit of all blocks or of the file system is
 * reached; -EDQUOT: the tenant's limit is reached. */
int store_put_begin(struct store *s, const struct store_origin *origin,
                    const struct store_block *blocks, uint32_t n, struct store_write **ret_write);
/* Verifies the checksums of the bytes in @fd, writes the bytes and syncs them. @fd must not shrink
 * during the call. May run in any thread while the other functions are called. Returns 0 or a
 * negative errno, and stores the result of each block in @w, because some of the blocks may have
 * been written. */
int store_write_run(struct store_write *w, int fd);
/* Adds the rows of written blocks, so that lookups find them. Frees @w, which is NULL if
 * store_put_begin() failed. Returns how many of the blocks that store_put_begin() got, counted from
 * the first, are now stored or were declined. If the first block failed, returns its error.
 * -EBADMSG: a checksum did not match. */
int store_put_end(struct store *s, struct store_write *w);
/* Calls store_put_begin(), store_write_run() and store_put_end(). Borrows @fd. */
int store_put(struct store *s, const struct store_origin *origin, int fd,
              const struct store_block *blocks, uint32_t n);

/* Functions for digests of files. */

struct store_file {
    uint64_t dev, ino, size;
    int64_t mtime_ns, ctime_ns;
};

/* Returns 1 and sets *ret_digest to the stored digest of @file, or returns 0: no digest is
 * stored. */
int store_recall(struct store *s, const struct store_file *file,
                 uint8_t ret_digest[STORE_DIGEST_BYTES]);
/* Stores a digest. When there are too many, the oldest are removed. */
int store_remember(struct store *s, const struct store_file *file,
                   const uint8_t digest[STORE_DIGEST_BYTES]);

/* Functions for upkeep. */

/* Does one short step of the work that can wait: writes pending uses, enforces limits, frees space,
 * compacts. 1: there is more to do; 0: there is nothing to do until something changes. */
int store_tend(struct store *s);
/* Writes all pending state and syncs it. */
int store_flush(struct store *s);

/* Struct store_filter says which blocks a purge removes. A block must match all fields that are not
 * NULL or 0. An empty filter matches all blocks, and the purge then removes the digests of files
 * too. */
struct store_filter {
    const char *model, *tenant, *session;
    uint64_t older_than; /* seconds since the last use */
};

/* Struct store_cursor is the progress of a purge or verification. The caller zeroes it before the
 * first step. */
struct store_cursor {
    uint64_t at;
    uint64_t seen;          /* blocks examined */
    uint64_t blocks, bytes; /* removed blocks, and their bytes on disk */
    uint64_t total;         /* blocks to examine, approximately */
};

/* Does one step of a purge. 1: the caller must call again; 0: the purge is finished. */
int store_purge(struct store *s, const struct store_filter *filter, struct store_cursor *cursor);
/* Does one step of a verification: reads blocks, compares their checksums, and removes blocks whose
 * checksum differs. Returns what store_purge() returns. */
int store_verify(struct store *s, struct store_cursor *cursor);

enum store_kind {
    STORE_MODELS,
    STORE_TENANTS,
    STORE_SESSIONS,
};

struct store_entry {
    const char *model, *codec, *tenant, *session; /* NULL: several, or none */
    uint64_t blocks, bytes;                       /* on disk */
    uint64_t age;                                 /* seconds since the last use */
};

/* Calls @fn for each tenant, each session, or each pair of a model and a codec that has blocks. A
 * negative result of @fn ends the listing, which returns this result. */
int store_list(struct store *s, enum store_kind kind,
               int (*fn)(void *data, const struct store_entry *entry), void *data);

/* store_open() sets the counters of events to 0. */
struct store_stats {
    uint64_t blocks, bytes;         /* stored now; bytes on disk */
    uint64_t max_bytes, free_bytes; /* the limit, and free bytes of the file system */
    uint64_t index_bytes;           /* size of the index on disk */
    uint64_t segments;              /* segment files */
    uint64_t hits, misses;          /* names that were requested */
    uint64_t bytes_found;           /* bytes of blocks that were found */
    uint64_t puts, bytes_put;       /* blocks that were written */
    uint64_t declined; /* blocks not stored because others are worth more, which is no error */
    uint64_t evictions, bytes_evicted;
    uint64_t rejected, purged; /* blocks */
    uint64_t moved;            /* bytes moved by compaction */
    uint64_t rebuilds;         /* rebuilds of the index */
};

void store_stats(struct store *s, struct store_stats *ret_stats);
