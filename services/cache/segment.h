/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Segment files: NNNNNNNN.kv in one directory
 *
 * The first page holds the format version. Records follow, each at a multiple of a page. Each place
 * is used only once, so a reader that holds the file may continue to read at a place and finds
 * either the original bytes or zeros.
 */

#include <stdatomic.h>

#include "cache/record.h"

/* A read-only descriptor, closed with the last reference. */
struct segment_file {
    atomic_uint n_refs;
    int fd;
};

struct segment_file *segment_file_ref(struct segment_file *file);
/* Callable from any thread. NULL is allowed; returns NULL. */
struct segment_file *segment_file_unref(struct segment_file *file);

struct segment {
    uint32_t number;
    struct segment_file *file; /* NULL: not open */
    int write_fd;              /* -1: not open */
    uint64_t end;              /* where the next record is written */
    uint64_t known;            /* end of the part that the index knew when it was opened */
    uint64_t disk;             /* bytes on disk when the index was opened */
    uint64_t live;             /* bytes on disk of records that have rows */
    uint64_t blocks;           /* number of those records */
    uint32_t n_writes;         /* writes under way; a segment with writes is not removed */
    bool unsaved;              /* differs from its row in the index */
    bool untidy;               /* may have records without rows whose space was not freed */
};

/* Whether a block of @size bytes can be at @offset. */
static inline bool segment_has(const struct segment *seg, uint64_t offset, uint64_t size)
{
    return offset >= (uint64_t)2 * STORE_PAGE && size <= seg->end && offset <= seg->end - size;
}

/* All segments, ordered by number. */
struct segments {
    const struct store_io *io;
    int dir;
    struct segment **list;
    uint32_t n, cap;
};

/* @dir is borrowed. */
void segments_init(struct segments *set, const struct store_io *io, int dir);
void segments_done(struct segments *set);
/* NULL: there is none. */
struct segment *segments_find(const struct segments *set, uint32_t number);
/* segments_add() adds a segment for an existing file; segments_create() makes the file and its
 * first page. */
int segments_add(struct segments *set, uint32_t number, struct segment **ret_segment);
int segments_create(struct segments *set, uint32_t number, struct segment **ret_segment);
/* Closes the segment and removes its file. */
int segments_remove(struct segments *set, struct segment *seg);

/* Calls @fn for each segment file with its number, its size, and the bytes that it takes on
 * disk. */
int segments_scan(struct segments *set,
                  int (*fn)(void *data, uint32_t number, uint64_t size, uint64_t disk), void *data);

/* Return descriptors that are opened on first use and owned by the segment. segment_fd() returns
 * that of seg->file. */
int segment_fd(struct segments *set, struct segment *seg);
int segment_write_fd(struct segments *set, struct segment *seg);

/* Read or write the whole range, or return an error. Reading beyond the end: -ENODATA. */
int segment_read(const struct store_io *io, int fd, void *buffer, uint64_t n, uint64_t offset);
int segment_write(const struct store_io *io, int fd, const void *bytes, uint64_t n,
                  uint64_t offset);
/* @offset is the place of the block's bytes. The record before it is written last. */
int segment_write_record(const struct store_io *io, int fd, const struct record *record,
                         const void *bytes, uint64_t offset);
/* Finds the next record in @seg whose page is at @from or later and which ends at @end or earlier.
 * 1: *ret_record, and *ret_offset of its page; 0: there is none; -EIO: the page at *ret_offset
 * cannot be read. */
int segment_next_record(struct segments *set, struct segment *seg, uint64_t from, uint64_t end,
                        struct record *ret_record, uint64_t *ret_offset);
