/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and reads segment files, appends to them, and finds records in them (see segment.h). */
#include "cache/segment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/array.h"

#define NAME_BYTES 24
/* Limit of bytes per write call, so that a full disk is noticed before all bytes of a large block
 * are written. */
#define WRITE_MAX (UINT64_C(16) << 20)

static void file_name(uint32_t number, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "%08" PRIu32 ".kv", number);
}

void segments_init(struct segments *set, const struct store_io *io, int dir)
{
    *set = (struct segments){.io = io, .dir = dir};
}

struct segment_file *segment_file_ref(struct segment_file *file)
{
    atomic_fetch_add_explicit(&file->n_refs, 1, memory_order_relaxed);
    return file;
}

struct segment_file *segment_file_unref(struct segment_file *file)
{
    if (file && atomic_fetch_sub(&file->n_refs, 1) == 1) {
        close(file->fd);
        free(file);
    }
    return NULL;
}

static struct segment *segment_free(struct segment *seg)
{
    segment_file_unref(seg->file);
    if (seg->write_fd >= 0)
        close(seg->write_fd);
    free(seg);
    return NULL;
}

void segments_done(struct segments *set)
{
    for (uint32_t i = 0; i < set->n; i++)
        segment_free(set->list[i]);
    free(set->list);
    set->list = NULL;
    set->n = set->cap = 0;
}

/* Returns the index of the segment @number in the list, or the index at which it would be
 * inserted. */
static uint32_t place_of(const struct segments *set, uint32_t number)
{
    uint32_t low = 0, high = set->n;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;

        if (set->list[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct segment *segments_find(const struct segments *set, uint32_t number)
{
    const uint32_t i = place_of(set, number);

    return i < set->n && set->list[i]->number == number ? set->list[i] : NULL;
}

int segments_add(struct segments *set, uint32_t number, struct segment **ret_segment)
{
    const uint32_t at = place_of(set, number);
    struct segment *seg;

    if (ARRAY_GROW(set->list, set->cap, set->n + 1u) < 0)
        return -ENOMEM;
    seg = NEW(struct segment, 1);
    if (!seg)
        return -ENOMEM;
    seg->number = number;
    seg->write_fd = -1;
    seg->end = STORE_PAGE;
    memmove(set->list + at + 1, set->list + at, (set->n - at) * sizeof(*set->list));
    set->list[at] = seg;
    set->n++;
    *ret_segment = seg;
    return 0;
}

static void segments_forget(struct segments *set, struct segment *seg)
{
    const uint32_t at = place_of(set, seg->number);

    set->n--;
    memmove(set->list + at, set->list + at + 1, (set->n - at) * sizeof(*set->list));
    segment_free(seg);
}

int segments_create(struct segments *set, uint32_t number, struct segment **ret_segment)
{
    uint8_t page[STORE_PAGE];
    char name[NAME_BYTES];
    struct segment *seg;
    int r = segments_add(set, number, &seg);

    if (r < 0)
        return r;
    file_name(number, name);
    r = set->io->open(set->io->data, set->dir, name, O_RDWR | O_CREAT | O_EXCL);
    if (r < 0)
        goto fail;
    seg->write_fd = r;
    record_encode_file(number, page);
    r = segment_write(set->io, seg->write_fd, page, sizeof(page), 0);
    if (r == 0)
        r = set->io->sync(set->io->data, set->dir);
    if (r < 0) {
        set->io->unlink(set->io->data, set->dir, name);
        goto fail;
    }
    seg->unsaved = true;
    *ret_segment = seg;
    return 0;
fail:
    segments_forget(set, seg);
    return r;
}

int segments_remove(struct segments *set, struct segment *seg)
{
    char name[NAME_BYTES];
    int r;

    file_name(seg->number, name);
    r = set->io->unlink(set->io->data, set->dir, name);
    if (r < 0 && r != -ENOENT)
        return r;
    segments_forget(set, seg);
    return 0;
}

/* Reads the number of a segment from its file name. False: @name is not the name of a segment. */
static bool parse_name(const char *name, uint32_t *ret_number)
{
    char again[NAME_BYTES];
    unsigned long long number;

    if (sscanf(name, "%10llu", &number) != 1 || number > UINT32_MAX)
        return false;
    file_name((uint32_t)number, again);
    *ret_number = (uint32_t)number;
    return strcmp(name, again) == 0;
}

int segments_scan(struct segments *set,
                  int (*fn)(void *data, uint32_t number, uint64_t size, uint64_t disk), void *data)
{
    const int fd = openat(set->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    int r = 0;

    if (!dir) {
        r = -errno;
        if (fd >= 0)
            close(fd);
        return r;
    }
    while (r >= 0 && (errno = 0, entry = readdir(dir))) {
        struct stat st;
        uint32_t number;

        if (!parse_name(entry->d_name, &number))
            continue;
        if (fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            r = -errno;
        else if (S_ISREG(st.st_mode))
            r = fn(data, number, (uint64_t)st.st_size, (uint64_t)st.st_blocks * 512);
    }
    if (r >= 0 && errno)
        r = -errno;
    closedir(dir);
    return r;
}

static int segment_open(struct segments *set, const struct segment *seg, int flags)
{
    char name[NAME_BYTES];

    file_name(seg->number, name);
    return set->io->open(set->io->data, set->dir, name, flags);
}

int segment_fd(struct segments *set, struct segment *seg)
{
    struct segment_file *file;

    if (seg->file)
        return seg->file->fd;
    file = NEW(struct segment_file, 1);
    if (!file)
        return -ENOMEM;
    atomic_init(&file->n_refs, 1);
    file->fd = segment_open(set, seg, O_RDONLY);
    if (file->fd < 0) {
        const int r = file->fd;

        free(file);
        return r;
    }
    seg->file = file;
    return file->fd;
}

int segment_write_fd(struct segments *set, struct segment *seg)
{
    if (seg->write_fd < 0) {
        const int r = segment_open(set, seg, O_RDWR);

        if (r < 0)
            return r;
        seg->write_fd = r;
    }
    return seg->write_fd;
}

int segment_read(const struct store_io *io, int fd, void *buffer, uint64_t n, uint64_t offset)
{
    while (n > 0) {
        const ssize_t r = io->pread(io->data, fd, buffer, n, offset);

        if (r == -EINTR)
            continue;
        if (r <= 0)
            return r < 0 ? (int)r : -ENODATA;
        buffer = (char *)buffer + r;
        offset += (uint64_t)r;
        n -= (uint64_t)r;
    }
    return 0;
}

int segment_write(const struct store_io *io, int fd, const void *bytes, uint64_t n, uint64_t offset)
{
    while (n > 0) {
        const ssize_t r = io->pwrite(io->data, fd, bytes, MIN(n, WRITE_MAX), offset);

        if (r == -EINTR)
            continue;
        if (r <= 0)
            return r < 0 ? (int)r : -EIO;
        bytes = (const char *)bytes + r;
        offset += (uint64_t)r;
        n -= (uint64_t)r;
    }
    return 0;
}

int segment_write_record(const struct store_io *io, int fd, const struct record *record,
                         const void *bytes, uint64_t offset)
{
    uint8_t page[STORE_PAGE];
    int r = segment_write(io, fd, bytes, record->size, offset);

    if (r < 0)
        return r;
    record_encode(record, page);
    return segment_write(io, fd, page, sizeof(page), offset - STORE_PAGE);
}

/* Returns the end of the hole at @from, because holes contain no records; returns @from if there is
 * no hole, or if the file system cannot report holes. */
static uint64_t skip_hole(int fd, uint64_t from, uint64_t end)
{
    const off_t data = lseek(fd, (off_t)from, SEEK_DATA);

    if (data < 0)
        return errno == ENXIO ? end : from;
    return MAX(from, (uint64_t)data / STORE_PAGE * STORE_PAGE);
}

int segment_next_record(struct segments *set, struct segment *seg, uint64_t from, uint64_t end,
                        struct record *ret_record, uint64_t *ret_offset)
{
    uint8_t page[STORE_PAGE];
    const int fd = segment_fd(set, seg);

    if (fd < 0)
        return fd;
    for (from = MAX(from, STORE_PAGE); from < end; from += STORE_PAGE) {
        int r;

        from = skip_hole(fd, from, end);
        if (from >= end)
            break;
        *ret_offset = from;
        r = segment_read(set->io, fd, page, sizeof(page), from);
        if (r == -ENODATA)
            break;
        if (r < 0)
            return r;
        if (r == 0 && record_decode(page, ret_record) &&
            record_bytes(ret_record->size) <= end - from)
            return 1;
    }
    return 0;
}
