/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Segment files: NNNNNNNN.kv in one directory
 *
 * A page that tells the format, then records, each at a multiple of a page. Places are given out
 * once and never again, so that who holds a file may go on reading at a place, and finds what was
 * there, or zeros.
 */

#include <stdatomic.h>

#include "cache/record.h"

/* A descriptor that cannot write, closed when the last one lets go of it. */
struct segment_file {
    atomic_uint n_refs;
    int fd;
};

struct segment_file *segment_file_ref(struct segment_file *file);
/* Any thread. NULL is fine; returns NULL. */
struct segment_file *segment_file_unref(struct segment_file *file);

struct segment {
    uint32_t number;
    struct segment_file *file; /* NULL: not open */
    int write_fd;              /* -1: not open */
    uint64_t end;              /* where the next record goes */
    uint64_t known;            /* up to where the index had seen it when it was opened */
    uint64_t disk;             /* what the file took on disk then */
    uint64_t live;             /* bytes on disk of records that have rows */
    uint64_t blocks;           /* those records */
    uint32_t n_writes;         /* under way; meanwhile it is not removed */
    bool unsaved;              /* differs from its row */
    bool untidy;               /* has records without rows whose space was not given back */
};

/* Whether a block of @size bytes can be at @offset. */
static inline bool segment_has(const struct segment *seg, uint64_t offset, uint64_t size)
{
    return offset >= (uint64_t)2 * STORE_PAGE && size <= seg->end && offset <= seg->end - size;
}

/* All of them, in the order of their numbers. */
struct segments {
    const struct store_io *io;
    int dir;
    struct segment **list;
    uint32_t n, cap;
};

/* Takes over nothing; @dir is borrowed. */
void segments_init(struct segments *set, const struct store_io *io, int dir);
void segments_done(struct segments *set);
/* NULL: there is none. */
struct segment *segments_find(const struct segments *set, uint32_t number);
/* Adds one for a file that is there or, made with its first page, is from now on. */
int segments_add(struct segments *set, uint32_t number, struct segment **ret_segment);
int segments_create(struct segments *set, uint32_t number, struct segment **ret_segment);
/* Closes it and removes its file. */
int segments_remove(struct segments *set, struct segment *seg);

/* Calls @fn with the number of each file in the directory, its size, and what it takes on disk. */
int segments_scan(struct segments *set,
                  int (*fn)(void *data, uint32_t number, uint64_t size, uint64_t disk), void *data);

/* Descriptors, opened when they are first asked for, owned by the segment. The first is that of
 * seg->file. */
int segment_fd(struct segments *set, struct segment *seg);
int segment_write_fd(struct segments *set, struct segment *seg);

/* The whole range, or an error; reads of what is beyond the end are -ENODATA. */
int segment_read(const struct store_io *io, int fd, void *buffer, uint64_t n, uint64_t offset);
int segment_write(const struct store_io *io, int fd, const void *bytes, uint64_t n,
                  uint64_t offset);
/* @offset is the place of the block's bytes; the record before it is written last. */
int segment_write_record(const struct store_io *io, int fd, const struct record *record,
                         const void *bytes, uint64_t offset);
/* Finds the next record in @seg whose page is at @from or later and that ends at @end or earlier.
 * 1, *ret_record and *ret_offset of its page; 0: there is none; -EIO and *ret_offset of a page that
 * cannot be read. */
int segment_next_record(struct segments *set, struct segment *seg, uint64_t from, uint64_t end,
                        struct record *ret_record, uint64_t *ret_offset);
