/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes the directory of the store, and looks blocks up. */
#include "cache/store-inner.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "cache/rank.h"
#include "core/err.h"
#include "core/file.h"

static int open_dir(int at, const char *path, int *ret_fd)
{
    int fd;

    if (mkdirat(at, path, 0700) < 0 && errno != EEXIST)
        return -errno;
    fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

/* Locks the store, because only one process may use it. The lock belongs to the descriptor, so it
 * ends with the process. */
static int take_lock(struct store *s, const char *path, struct inf_err *reterr)
{
    s->lock = openat(s->dir, STORE_LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->lock < 0)
        return err_set(reterr, errno, "%s/lock: %s", path, strerror(errno));
    if (flock(s->lock, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno != EWOULDBLOCK)
        return err_set(reterr, errno, "%s/lock: %s", path, strerror(errno));
    return err_set(reterr, EBUSY,
                   "another process uses the cache in %s; stop it, or configure another directory",
                   path);
}

static int open_dirs(struct store *s, const char *path, struct inf_err *reterr)
{
    int r = open_dir(AT_FDCWD, path, &s->dir);

    if (r < 0)
        return err_set(reterr, -r, "%s: %s", path, strerror(-r));
    r = take_lock(s, path, reterr);
    if (r < 0)
        return r;
    r = open_dir(s->dir, "segments", &s->segments_dir);
    if (r < 0)
        return err_set(reterr, -r, "%s/segments: %s", path, strerror(-r));
    return 0;
}

/* Returns whether the file system can punch holes. The test uses the lock file, whose contents
 * nobody reads. */
static bool try_punch(const struct store *s)
{
    return s->io->punch(s->io->data, s->lock, 0, STORE_PAGE) != -EOPNOTSUPP;
}

static int store_new(const struct store_params *p, struct store **ret_store)
{
    struct store *s = NEW(struct store, 1);

    if (!s)
        return -ENOMEM;
    s->limits = p->limits;
    s->io = p->io ? p->io : &store_io_system;
    s->clock = p->clock;
    s->clock_data = p->clock_data;
    s->dir = s->segments_dir = s->lock = -1;
    s->vfs = p->vfs ? strdup(p->vfs) : NULL;
    s->index_path = path_join(p->path, "index.db");
    s->touches = NEW(struct touch, TOUCHES_MAX);
    *ret_store = s;
    return s->index_path && s->touches && (!p->vfs || s->vfs) ? 0 : -ENOMEM;
}

/* Lets new records be appended to the last segment, if there is one. */
static void choose_active(struct store *s)
{
    if (s->segments.n > 0)
        s->active = s->segments.list[s->segments.n - 1];
}

int store_open(const struct store_params *p, struct store **ret_store, struct inf_err *reterr)
{
    _cleanup_(store_closep) struct store *s = NULL;
    int r = store_new(p, &s);

    if (r < 0)
        return err_set(reterr, -r, "there is not enough memory for the cache");
    r = open_dirs(s, p->path, reterr);
    if (r < 0)
        return r;
    s->can_punch = try_punch(s);
    segments_init(&s->segments, s->io, s->segments_dir);
    if (reterr)
        *reterr = (struct inf_err){0};
    r = store_attach(s, reterr);
    if (r < 0)
        return reterr && reterr->code ? r : err_set(reterr, -r, "%s: %s", p->path, strerror(-r));
    rank_resize(s);
    choose_active(s);
    *ret_store = STEAL(s);
    return 0;
}

bool store_is_lock(const struct store *s, int fd)
{
    const int flags = fcntl(fd, F_GETFL);
    struct stat theirs, ours;

    /* O_PATH opens a file even without the right to read it. */
    if (flags < 0 || (flags & O_PATH) || (flags & O_ACCMODE) != O_RDWR)
        return false;
    return fstat(fd, &theirs) == 0 && fstat(s->lock, &ours) == 0 && theirs.st_dev == ours.st_dev &&
           theirs.st_ino == ours.st_ino;
}

struct store *store_close(struct store *s)
{
    if (!s)
        return NULL;
    assert(!s->writes);
    if (s->catalog)
        store_flush(s);
    catalog_close(s->catalog);
    rank_close(s);
    accounts_done(&s->accounts);
    segments_done(&s->segments);
    if (s->segments_dir >= 0)
        close(s->segments_dir);
    if (s->lock >= 0)
        close(s->lock);
    if (s->dir >= 0)
        close(s->dir);
    free(s->touches);
    free(s->freed);
    free(s->vfs);
    free(s->index_path);
    free(s);
    return NULL;
}

/* Struct walk is the state of a walk along a chain. */
struct walk {
    int64_t last;  /* number of the previous name's row; 0: none */
    int64_t apart; /* difference between the numbers of the last two rows */
    int64_t steps; /* expected difference to the next row; 0: unknown */
    bool running;  /* catalog_next() can return the row after `last` */
};

/* Updates the expected difference between the numbers of this row and of the next one. If the
 * blocks of a chain were put together, the difference is 1. If several chains grew alternately, it
 * is constant. */
static void walk_learn(struct walk *w, const struct row *row)
{
    const int64_t apart = row->id - w->last;

    w->steps = w->last == 0 || apart == 1 ? 1 : apart > 0 && apart == w->apart ? apart : 0;
    w->apart = apart;
}

/* Finds the row of the next name. Looking at the expected row first is cheaper than a search by
 * name. */
static int walk_on(struct store *s, struct walk *w, const uint8_t name[STORE_NAME_BYTES],
                   struct row *ret_row)
{
    int r;

    if (w->steps > 0) {
        r = w->running ? catalog_next(s->catalog, ret_row)
                       : catalog_from(s->catalog, w->last + w->steps, ret_row);
        if (r < 0)
            return r;
        w->running = w->steps == 1;
        if (r > 0 && memcmp(ret_row->name, name, STORE_NAME_BYTES) == 0)
            return r;
    }
    w->running = false;
    r = catalog_by_name(s->catalog, name, ret_row);
    if (r > 0)
        walk_learn(w, ret_row);
    return r;
}

static int remove_row(struct store *s, const struct row *row)
{
    const int r = transaction_begin(s);

    return r < 0 ? r : transaction_end(s, transaction_remove(s, row));
}

/* Returns how many of @names, counted from the first, have blocks. Records uses of these blocks if
 * @is_use. */
static int look_up(struct store *s, const uint8_t (*names)[STORE_NAME_BYTES], uint32_t n,
                   bool is_use, struct store_place *ret_places)
{
    struct walk w = {0};
    uint32_t i;
    int r = 0;

    for (i = 0; i < n && r >= 0; i++) {
        const struct segment *seg;
        struct row row;

        r = walk_on(s, &w, names[i], &row);
        if (r <= 0)
            break;
        seg = segments_find(&s->segments, row.segment);
        if (!seg || !segment_has(seg, row.offset, row.size)) {
            r = -EUCLEAN;
            break;
        }
        if (ret_places)
            ret_places[i] = (struct store_place){row.segment, row.offset, row.size, row.sum};
        if (is_use)
            touch_add(s, &row, w.last, row.index + n - i);
        w.last = row.id;
    }
    catalog_rest(s->catalog);
    return r < 0 ? r : (int)i;
}

int store_find(struct store *s, const struct store_origin *origin,
               const uint8_t (*names)[STORE_NAME_BYTES], uint32_t n, bool is_guess,
               struct store_place *ret_places)
{
    int r = store_ready(s);

    (void)origin;
    if (r == 0)
        r = look_up(s, names, n, true, ret_places);
    if (store_settle(s, r))
        r = look_up(s, names, n, true, ret_places);
    for (int i = 0; i < r; i++)
        s->stats.bytes_found += ret_places[i].size;
    s->stats.hits += r > 0 ? (uint32_t)r : 0;
    if (is_guess)
        return r;
    for (uint32_t i = r >= 0 ? (uint32_t)r : n; i < n; i++)
        rank_missed(s, names[i], n - i);
    s->stats.misses += n - (r > 0 ? (uint32_t)r : 0);
    return r;
}

int store_used(struct store *s, const struct store_origin *origin,
               const uint8_t (*names)[STORE_NAME_BYTES], uint32_t n)
{
    int r = store_ready(s);

    (void)origin;
    if (r == 0)
        r = look_up(s, names, n, true, NULL);
    store_settle(s, r);
    return MIN(r, 0);
}

int store_locate(struct store *s, const uint8_t (*names)[STORE_NAME_BYTES], uint32_t n,
                 struct store_place *ret_places)
{
    int r = store_ready(s);

    if (r == 0)
        r = look_up(s, names, n, false, ret_places);
    if (store_settle(s, r))
        r = look_up(s, names, n, false, ret_places);
    return r;
}

int store_segment_file(struct store *s, uint32_t segment, struct segment_file **ret_file)
{
    struct segment *seg = segments_find(&s->segments, segment);
    const int r = seg ? segment_fd(&s->segments, seg) : -ENOENT;

    if (r < 0)
        return r;
    *ret_file = segment_file_ref(seg->file);
    return 0;
}

static int reject_block(struct store *s, const uint8_t name[STORE_NAME_BYTES])
{
    struct row row;
    int r = catalog_by_name(s->catalog, name, &row);

    if (r > 0) {
        r = remove_row(s, &row);
        s->stats.rejected += r == 0;
    }
    return r;
}

int store_reject(struct store *s, const uint8_t name[STORE_NAME_BYTES])
{
    int r = store_ready(s);

    if (r == 0)
        r = reject_block(s, name);
    if (store_settle(s, r))
        r = reject_block(s, name);
    return r;
}

int store_recall(struct store *s, const struct store_file *file,
                 uint8_t ret_digest[STORE_DIGEST_BYTES])
{
    int r = store_ready(s);

    if (r == 0)
        r = catalog_recall(s->catalog, file, ret_digest);
    return store_settle(s, r) ? 0 : r;
}

static int remember_digest(struct store *s, const struct store_file *file,
                           const uint8_t digest[STORE_DIGEST_BYTES])
{
    int r = transaction_begin(s);

    if (r < 0)
        return r;
    return transaction_end(s, catalog_remember(s->catalog, file, ++s->state.seq, digest));
}

int store_remember(struct store *s, const struct store_file *file,
                   const uint8_t digest[STORE_DIGEST_BYTES])
{
    int r = store_ready(s);

    if (r == 0)
        r = remember_digest(s, file, digest);
    if (store_settle(s, r))
        r = remember_digest(s, file, digest);
    return r;
}

void store_stats(struct store *s, struct store_stats *ret_stats)
{
    *ret_stats = s->stats;
    ret_stats->blocks = s->accounts.blocks;
    ret_stats->bytes = s->accounts.bytes;
    ret_stats->max_bytes = s->limits.max_bytes;
    ret_stats->segments = s->segments.n;
    ret_stats->index_bytes = s->catalog ? catalog_bytes(s->catalog) : 0;
    if (s->io->space(s->io->data, s->segments_dir, &ret_stats->free_bytes) < 0)
        ret_stats->free_bytes = 0;
}
