/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends blocks to clients (see read-stream.h): one thread reads blocks from the disk and fills the
 * pipes.
 *
 * The loop adds streams and marks streams that must end. Only the thread removes streams from the
 * list and frees them, so the thread may use a stream of the list without the lock.
 */
#include "cache/read-stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>

#include "cache/block-pipe.h"
#include "cache/segment.h"
#include "common/service/loop.h"
#include "core/clock.h"

#define AHEAD_BYTES    (UINT64_C(16) << 20) /* bytes of readahead */
#define TICK_MSEC      1000                 /* interval of checks for clients that do not read */
#define UNREADABLE_MAX 16                   /* names of unreadable blocks that wait for the loop */

struct stream_block {
    struct segment_file *file;
    uint64_t offset, size;
    uint8_t name[STORE_NAME_BYTES];
};

struct stream {
    struct stream *next; /* the next younger stream */
    uint64_t client;
    int pipe;     /* the write end */
    bool ends;    /* set by the loop or the thread, under the lock */
    uint32_t n;   /* number of blocks to send */
    uint32_t all; /* number of blocks to send and of blocks that are only read ahead */
    uint32_t i;   /* index of the block being sent */
    uint64_t at;  /* offset of the next byte in that block */
    uint32_t ahead;
    atomic_uint_fast64_t moved_usec; /* when bytes were last sent */
    struct stream_block blocks[];
};

struct streams {
    struct stream_params params;
    pthread_t thread;
    int wake, news; /* eventfds that wake the thread and the loop */
    struct loop_watch *watch;
    pthread_mutex_t lock; /* protects all members below */
    struct stream *list;  /* oldest first */
    uint32_t n;
    bool stopping;
    uint8_t unreadable[UNREADABLE_MAX][STORE_NAME_BYTES];
    uint32_t n_unreadable;
};

static void eventfd_signal(int fd)
{
    const uint64_t one = 1;

    if (write(fd, &one, sizeof(one)) < 0)
        assert(errno == EAGAIN);
}

static void eventfd_clear(int fd)
{
    uint64_t n;

    if (read(fd, &n, sizeof(n)) < 0)
        assert(errno == EAGAIN);
}

static struct stream *stream_free(struct stream *s)
{
    for (uint32_t i = 0; i < s->all; i++)
        segment_file_unref(s->blocks[i].file);
    if (s->pipe >= 0)
        close(s->pipe);
    free(s);
    return NULL;
}

/* Makes the kernel read ahead the next AHEAD_BYTES bytes of blocks. */
static void look_ahead(struct stream *s)
{
    uint64_t bytes = 0;

    for (uint32_t i = s->i; i < s->all && bytes < AHEAD_BYTES; i++) {
        const struct stream_block *b = &s->blocks[i];

        bytes += b->size;
        if (i < s->ahead)
            continue;
        posix_fadvise(b->file->fd, (off_t)b->offset, (off_t)b->size, POSIX_FADV_WILLNEED);
        s->ahead = i + 1;
    }
}

/* Tells the loop that the block being sent cannot be read. */
static void tell_unreadable(struct streams *set, const struct stream *s)
{
    pthread_mutex_lock(&set->lock);
    if (set->n_unreadable < UNREADABLE_MAX)
        memcpy(set->unreadable[set->n_unreadable++], s->blocks[s->i].name, STORE_NAME_BYTES);
    pthread_mutex_unlock(&set->lock);
    eventfd_signal(set->news);
}

/* Sends as many bytes as fit into the pipe now, but at most about PIPE_BYTES. Returns false if the
 * stream has ended. */
static bool stream_move(struct streams *set, struct stream *s)
{
    uint64_t moved = 0;

    while (s->i < s->n && moved < PIPE_BYTES) {
        const struct stream_block *b = &s->blocks[s->i];
        ssize_t r;

        look_ahead(s);
        r = pipe_fill(s->pipe, b->file->fd, b->offset + s->at, (size_t)(b->size - s->at));
        if (r == -EAGAIN || r == -EINTR)
            break;
        if (r == 0 || r == -EIO || r == -EUCLEAN || r == -EBADMSG)
            tell_unreadable(set, s);
        if (r <= 0)
            return false;
        moved += (uint64_t)r;
        s->at += (uint64_t)r;
        if (s->at == b->size) {
            s->i++;
            s->at = 0;
        }
    }
    if (moved > 0)
        s->moved_usec = clock_usec();
    return s->i < s->n;
}

/* Removes from the list all streams that are marked to end, and frees them. The caller holds the
 * lock. */
static void drop_ended(struct streams *set)
{
    struct stream **at = &set->list;

    while (*at) {
        struct stream *s = *at;

        if (!s->ends && !set->stopping) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        set->n--;
        stream_free(s);
    }
}

/* Collects the descriptors for which poll() waits, and returns the number of streams. The caller
 * holds the lock. */
static uint32_t streams_gather(const struct streams *set, struct stream *streams[STREAM_MAX],
                               struct pollfd ret_waits[STREAM_MAX + 1])
{
    uint32_t n = 0;

    ret_waits[0] = (struct pollfd){.fd = set->wake, .events = POLLIN};
    for (struct stream *s = set->list; s; s = s->next) {
        streams[n++] = s;
        ret_waits[n] = (struct pollfd){.fd = s->pipe, .events = POLLOUT};
    }
    return n;
}

/* Returns whether a stream continues after poll() returned @events for its pipe. */
static bool goes_on(struct streams *set, struct stream *s, short events)
{
    if (events & POLLERR)
        return false;
    if (events & POLLOUT)
        return stream_move(set, s);
    return clock_usec() - s->moved_usec < STREAM_IDLE_USEC;
}

/* Waits until some pipes are not full, and fills them. Returns false if the thread must end. */
static bool streams_work(struct streams *set)
{
    struct pollfd waits[STREAM_MAX + 1];
    struct stream *streams[STREAM_MAX];
    bool go_on;
    uint32_t n;

    pthread_mutex_lock(&set->lock);
    drop_ended(set);
    go_on = !set->stopping;
    n = streams_gather(set, streams, waits);
    pthread_mutex_unlock(&set->lock);
    if (!go_on || poll(waits, n + 1, n > 0 ? TICK_MSEC : -1) < 0)
        return go_on;
    if (waits[0].revents)
        eventfd_clear(set->wake);
    for (uint32_t i = 0; i < n; i++)
        if (!goes_on(set, streams[i], waits[i + 1].revents)) {
            pthread_mutex_lock(&set->lock);
            streams[i]->ends = true;
            pthread_mutex_unlock(&set->lock);
        }
    return true;
}

static void *streams_thread(void *data)
{
    struct streams *set = data;

    pthread_setname_np(pthread_self(), "reader");
    while (streams_work(set))
        ;
    return NULL;
}

static void on_news(void *data)
{
    uint8_t names[UNREADABLE_MAX][STORE_NAME_BYTES];
    struct streams *set = data;
    uint32_t n;

    eventfd_clear(set->news);
    pthread_mutex_lock(&set->lock);
    n = set->n_unreadable;
    memcpy(names, set->unreadable, n * sizeof(names[0]));
    set->n_unreadable = 0;
    pthread_mutex_unlock(&set->lock);
    for (uint32_t i = 0; i < n; i++)
        set->params.unreadable(set->params.data, names[i]);
}

static void streams_done(struct streams *set)
{
    loop_watch_free(set->watch);
    if (set->wake >= 0)
        close(set->wake);
    if (set->news >= 0)
        close(set->news);
    pthread_mutex_destroy(&set->lock);
    free(set);
}

int streams_new(const struct stream_params *params, struct streams **ret_streams)
{
    struct streams *set = NEW(struct streams, 1);
    int r;

    if (!set)
        return -ENOMEM;
    set->params = *params;
    pthread_mutex_init(&set->lock, NULL);
    set->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    set->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r = set->wake < 0 || set->news < 0
            ? -errno
            : loop_watch_new(params->loop, set->news, on_news, set, &set->watch);
    if (r == 0)
        r = -pthread_create(&set->thread, NULL, streams_thread, set);
    if (r < 0) {
        streams_done(set);
        return r;
    }
    *ret_streams = set;
    return 0;
}

struct streams *streams_free(struct streams *set)
{
    if (!set)
        return NULL;
    pthread_mutex_lock(&set->lock);
    set->stopping = true;
    pthread_mutex_unlock(&set->lock);
    eventfd_signal(set->wake);
    pthread_join(set->thread, NULL);
    streams_done(set);
    return NULL;
}

static int stream_new(struct store *store, const uint8_t (*names)[STORE_NAME_BYTES],
                      const struct store_place *places, uint32_t n, struct stream **ret_stream)
{
    struct stream *s = calloc(1, sizeof(*s) + n * sizeof(s->blocks[0]));

    if (!s)
        return -ENOMEM;
    s->pipe = -1;
    for (; s->all < n; s->all++) {
        struct stream_block *b = &s->blocks[s->all];
        const int r = store_segment_file(store, places[s->all].segment, &b->file);

        if (r < 0) {
            stream_free(s);
            return r;
        }
        b->offset = places[s->all].offset;
        b->size = places[s->all].size;
        memcpy(b->name, names[s->all], sizeof(b->name));
    }
    *ret_stream = s;
    return 0;
}

/* If @client has too many streams, marks its oldest stream to end; if all clients together have too
 * many, marks the stream that has waited longest for its client. Returns false if another stream
 * can be added only after the marked stream has ended. */
static bool make_room(struct streams *set, uint64_t client)
{
    struct stream *own = NULL, *stale = NULL;
    uint32_t n_own = 0;

    for (struct stream *s = set->list; s; s = s->next) {
        if (s->ends)
            continue;
        if (s->client == client && n_own++ == 0)
            own = s;
        if (!stale || s->moved_usec < stale->moved_usec)
            stale = s;
    }
    if (n_own >= STREAM_MAX_OF_ONE)
        own->ends = true;
    else if (set->n >= STREAM_MAX && stale)
        stale->ends = true;
    return set->n < STREAM_MAX;
}

/* Adds @s to the streams of the thread. */
static int streams_add(struct streams *set, struct stream *s)
{
    struct stream **end = &set->list;
    bool fits;

    pthread_mutex_lock(&set->lock);
    fits = make_room(set, s->client);
    if (fits) {
        while (*end)
            end = &(*end)->next;
        *end = s;
        set->n++;
    }
    pthread_mutex_unlock(&set->lock);
    eventfd_signal(set->wake);
    return fits ? 0 : -EBUSY;
}

int stream_start(struct streams *set, struct store *store, uint64_t client,
                 const uint8_t (*names)[STORE_NAME_BYTES], const struct store_place *places,
                 uint32_t n, uint32_t n_ahead, int *ret_pipe)
{
    struct stream *s;
    int ends[2];
    int r = stream_new(store, names, places, n + n_ahead, &s);

    if (r < 0)
        return r;
    s->n = n;
    s->client = client;
    s->moved_usec = clock_usec();
    r = pipe_new(ends);
    if (r == 0) {
        s->pipe = ends[1];
        r = streams_add(set, s);
        if (r < 0)
            close(ends[0]);
    }
    if (r < 0) {
        stream_free(s);
        return r;
    }
    *ret_pipe = ends[0];
    return 0;
}

bool streams_busy(struct streams *set)
{
    bool busy;

    pthread_mutex_lock(&set->lock);
    busy = set->n > 0;
    pthread_mutex_unlock(&set->lock);
    return busy;
}
