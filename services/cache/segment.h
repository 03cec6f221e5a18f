/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Manages the segment files, NNNNNNNN.kv in one directory.
 *
 * The first page holds the format version. Records and their blocks follow; each record begins at a
 * multiple of the page size. Each place is used only once. So a reader that has the file open can
 * still read the place of a block that was removed, and finds either the original bytes or zeros.
 */

#include <stdatomic.h>

#include "cache/record.h"

/* Struct segment_file is a read-only descriptor, which is closed with its last reference. */
struct segment_file {
    atomic_uint n_refs;
    int fd;
};

struct segment_file *segment_file_ref(struct segment_file *file);
/* Releases a reference. May be called from any thread. NULL is allowed; returns NULL. */
struct segment_file *segment_file_unref(struct segment_file *file);

struct segment {
    uint32_t number;
    struct segment_file *file; /* NULL: not open */
    int write_fd;              /* -1: not open */
    uint64_t end;              /* offset at which the next record is written */
    uint64_t known;            /* end of the part that the index knew when the index was opened */
    uint64_t disk;             /* bytes on disk when the index was opened */
    uint64_t live;             /* bytes on disk of records that have rows */
    uint64_t blocks;           /* number of the records that have rows */
    uint32_t n_writes;         /* blocks being written; the file stays until this is 0 */
    bool unsaved;              /* the segment differs from its row in the index */
    bool untidy; /* the segment may have records that have no rows and whose space was not freed */
};

/* Returns whether a block of @size bytes can be at @offset. */
static inline bool segment_has(const struct segment *seg, uint64_t offset, uint64_t size)
{
    return offset >= (uint64_t)2 * STORE_PAGE && size <= seg->end && offset <= seg->end - size;
}

/* Struct segments lists all segments, ordered by number. */
struct segments {
    const struct store_io *io;
    int dir;
    struct segment **list;
    uint32_t n, cap;
};

/* Makes an empty list for the segments in the directory @dir. Borrows @dir. */
void segments_init(struct segments *set, const struct store_io *io, int dir);
void segments_done(struct segments *set);
/* Returns the segment @number; NULL: there is none. */
struct segment *segments_find(const struct segments *set, uint32_t number);
/* segments_add() adds a segment for an existing file. segments_create() also makes the file and its
 * first page. */
int segments_add(struct segments *set, uint32_t number, struct segment **ret_segment);
int segments_create(struct segments *set, uint32_t number, struct segment **ret_segment);
/* Closes the segment and removes its file. */
int segments_remove(struct segments *set, struct segment *seg);

/* Calls @fn for each segment file with its number, its size, and the bytes that it takes on
 * disk. */
int segments_scan(struct segments *set,
                  int (*fn)(void *data, uint32_t number, uint64_t size, uint64_t disk), void *data);

/* Both functions return a descriptor that the segment owns and that is opened on first use.
 * segment_fd() returns the descriptor of seg->file, for reading. segment_write_fd() returns a
 * descriptor for writing. */
int segment_fd(struct segments *set, struct segment *seg);
int segment_write_fd(struct segments *set, struct segment *seg);

/* Read or write all @n bytes at @offset, or return an error. -ENODATA: the file ends earlier. */
int segment_read(const struct store_io *io, int fd, void *buffer, uint64_t n, uint64_t offset);
int segment_write(const struct store_io *io, int fd, const void *bytes, uint64_t n,
                  uint64_t offset);
/* Writes the bytes of a block at @offset. After that it writes the record, whose page ends at
 * @offset. */
int segment_write_record(const struct store_io *io, int fd, const struct record *record,
                         const void *bytes, uint64_t offset);
/* Finds the next record in @seg whose page is at @from or later and whose block ends at @end or
 * earlier. Returns 1 and sets *ret_record and the *ret_offset of its page; 0: there is none; -EIO:
 * the page at *ret_offset cannot be read. */
int segment_next_record(struct segments *set, struct segment *seg, uint64_t from, uint64_t end,
                        struct record *ret_record, uint64_t *ret_offset);
