/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetches a large file in chunks over several connections (see fetch.h).
 *
 * FILE.state begins with a line that identifies the file: its size, the size of a chunk and the
 * server's ETag. If it does not match, the file is fetched again from its beginning. One character
 * for each chunk follows: '1' if all bytes of the chunk are in FILE.part. `sconce pull` reads this
 * file as well, to compute the digest of the chunks that are complete.
 *
 * libcurl passes at most 16 KiB at a time, and these bytes rarely begin at the border of a page. So
 * each connection (struct chunk_part) collects them, and writes blocks of CHUNKS_BUFFER bytes at
 * multiples of this size, which takes about half the time. For each block, the page cache allocates
 * one contiguous range of memory. Blocks are not much larger, because fragmented memory has no
 * large ranges, and the kernel would have to move pages to make one.
 *
 * The transfer begins with two connections, and opens another one at each report of its progress,
 * unless the connections together are already fast. Chunks that arrive at the same time also end at
 * about the same time, and `sconce pull` can compute the digest of a chunk only when all chunks
 * before it are complete. With few connections, fewer digests are left to compute when the last
 * chunk has arrived.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/err.h"
#include "core/file.h"
#include "core/text.h"
#include "fetch/fetch.h"

#define CHUNK_BYTES ((uint64_t)16 << 20)

/* Bytes per second of all connections, above which no more connections are opened. Two connections
 * reach this rate only if their servers and the network do not limit each of them. */
#define CHUNKS_FAST ((uint64_t)200 << 20)

enum {
    CHUNKS_MAX = 1 << 20,
    STATE_MAX = CHUNKS_MAX + 512,
    CHUNKS_BUFFER = 32 << 10, /* in bytes */
    CHUNKS_FIRST_PARTS = 2,
    PROGRESS_MSEC = 50,
};

struct chunks;

/* One connection, and the chunk that it fetches. */
struct chunk_part {
    struct chunks *all;
    CURL *easy;
    struct curl_slist *headers;
    size_t chunk;
    uint64_t at, end; /* the next byte that arrives, and the end of the chunk */
    uint8_t *buffer;  /* [CHUNKS_BUFFER] the last bytes before `at`, which are not written yet */
    size_t n_held;    /* bytes in the buffer */
    bool runs;
};

struct chunks {
    const struct fetch_settings *settings;
    const struct fetch_request *request;
    const char *url;
    uint64_t size;
    size_t n;   /* chunks */
    char *done; /* [n] '0', '1', or 'r': a connection fetches it */
    char head[256];
    int fd, state_fd;
    CURLM *multi;
    struct chunk_part parts[FETCH_MAX_PARTS];
    unsigned n_parts;  /* parts that have been started */
    uint64_t n_bytes;  /* bytes that have arrived */
    unsigned n_failed; /* tries without a new byte */
    int status;
};

/* --- state --- */

static char *state_name(const char *file, const char *end)
{
    char *name = NULL;

    return asprintf(&name, "%s%s", file, end) < 0 ? NULL : name;
}

/* Continues with the chunks of an earlier process, if they belong to the same file. */
static void state_load(struct chunks *c, const char *name)
{
    _cleanup_free_ char *text = NULL;
    const char *marks;
    size_t len;

    if (file_read(name, STATE_MAX, &text, &len, NULL) < 0)
        return;
    marks = text_after(text, c->head);
    if (!marks || strlen(marks) != c->n || strspn(marks, "01") != c->n)
        return;
    memcpy(c->done, marks, c->n);
}

static uint64_t chunk_start(size_t chunk)
{
    return chunk * CHUNK_BYTES;
}

static uint64_t chunk_end(const struct chunks *c, size_t chunk)
{
    return MIN(chunk_start(chunk + 1), c->size);
}

static int state_write(struct chunks *c)
{
    const size_t n = strlen(c->head);

    if (ftruncate(c->state_fd, 0) < 0 || pwrite(c->state_fd, c->head, n, 0) != (ssize_t)n ||
        pwrite(c->state_fd, c->done, c->n, (off_t)n) != (ssize_t)c->n)
        return -EIO;
    return 0;
}

static int files_open(struct chunks *c, const char *file, struct inf_err *reterr)
{
    _cleanup_free_ char *part = state_name(file, ".part"), *state = state_name(file, ".state");

    if (!part || !state)
        return err_set(reterr, ENOMEM, "out of memory");
    if (path_exists(part))
        state_load(c, state);
    c->fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    c->state_fd = open(state, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (c->fd < 0 || c->state_fd < 0 || ftruncate(c->fd, (off_t)c->size) < 0 || state_write(c) < 0)
        return err_set(reterr, errno ? errno : EIO, "%s cannot be written: %s", part,
                       strerror(errno));
    for (size_t i = 0; i < c->n; i++)
        if (c->done[i] == '1')
            c->n_bytes += chunk_end(c, i) - chunk_start(i);
    return 0;
}

static void chunk_done(struct chunks *c, size_t chunk)
{
    c->done[chunk] = '1';
    if (pwrite(c->state_fd, "1", 1, (off_t)(strlen(c->head) + chunk)) != 1)
        c->status = -EIO;
}

/* --- transfers --- */

/* Writes the bytes that the part holds. */
static int part_write(struct chunk_part *part)
{
    size_t done = 0;

    while (done < part->n_held) {
        const ssize_t w = pwrite(part->all->fd, part->buffer + done, part->n_held - done,
                                 (off_t)(part->at - part->n_held + done));

        if (w < 0 && errno != EINTR)
            return part->all->status = -errno;
        if (w > 0)
            done += (size_t)w;
    }
    part->n_held = 0;
    return 0;
}

static size_t on_chunk(char *bytes, size_t one, size_t n, void *data)
{
    struct chunk_part *part = data;
    size_t len = one * n;
    long status = 0;

    curl_easy_getinfo(part->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status != 206 || len > part->end - part->at)
        return CURL_WRITEFUNC_ERROR;
    while (len > 0) {
        const size_t k = MIN(len, CHUNKS_BUFFER - part->n_held);

        memcpy(part->buffer + part->n_held, bytes, k);
        bytes += k;
        len -= k;
        part->n_held += k;
        part->at += k;
        part->all->n_bytes += k;
        part->all->n_failed = 0;
        if ((part->n_held == CHUNKS_BUFFER || part->at == part->end) && part_write(part) < 0)
            return CURL_WRITEFUNC_ERROR;
    }
    return one * n;
}

/* Starts to fetch the rest of the part's chunk. */
static int part_start(struct chunk_part *part, struct inf_err *reterr)
{
    struct chunks *c = part->all;
    char range[64];
    int r;

    curl_easy_reset(part->easy);
    snprintf(range, sizeof(range), "%llu-%llu", (unsigned long long)part->at,
             (unsigned long long)part->end - 1);
    r = connection_prepare(part->easy, c->settings, c->url, NULL, range, &part->headers, reterr);
    if (r < 0)
        return r;
    curl_easy_setopt(part->easy, CURLOPT_WRITEFUNCTION, on_chunk);
    curl_easy_setopt(part->easy, CURLOPT_WRITEDATA, part);
    part->runs = true;
    return curl_multi_add_handle(c->multi, part->easy) == CURLM_OK
               ? 0
               : err_set(reterr, ENOMEM, "out of memory");
}

static void part_stop(struct chunk_part *part)
{
    struct curl_slist *addresses = NULL;

    if (part->runs)
        curl_multi_remove_handle(part->all->multi, part->easy);
    curl_easy_getinfo(part->easy, CURLINFO_PRIVATE, &addresses);
    curl_easy_setopt(part->easy, CURLOPT_RESOLVE, NULL);
    curl_easy_setopt(part->easy, CURLOPT_PRIVATE, NULL);
    curl_slist_free_all(addresses);
    curl_slist_free_all(part->headers);
    part->headers = NULL;
    part->runs = false;
}

/* Gives a part the next chunk, if one is left. */
static int part_next(struct chunk_part *part, struct inf_err *reterr)
{
    struct chunks *c = part->all;
    const char *open = memchr(c->done, '0', c->n);

    if (!open)
        return 0;
    part->chunk = (size_t)(open - c->done);
    part->at = chunk_start(part->chunk);
    part->end = chunk_end(c, part->chunk);
    c->done[part->chunk] = 'r';
    return part_start(part, reterr);
}

/* Handles the end of a part's transfer. -EAGAIN: the part continues its chunk later. */
static int part_ended(struct chunk_part *part, CURLcode code, struct inf_err *reterr)
{
    struct chunks *c = part->all;
    long status = 0;

    curl_easy_getinfo(part->easy, CURLINFO_RESPONSE_CODE, &status);
    if (c->status < 0)
        return err_set(reterr, -c->status, "%s cannot be written: %s", c->request->file,
                       strerror(-c->status));
    if (code == CURLE_OK && part->at == part->end) {
        chunk_done(c, part->chunk);
        return 0;
    }
    if (status == 206 && code == CURLE_WRITE_ERROR)
        return err_set(reterr, EPROTO, "%.200s sends more bytes than were asked for", c->url);
    if (status && status != 206)
        return connection_refused(status == 200 ? 416 : status, c->url, reterr);
    return code == CURLE_OK
               ? err_set(reterr, EAGAIN, "%.200s sends fewer bytes than it says", c->url)
               : connection_failed(part->easy, code, reterr);
}

static struct chunk_part *part_of(struct chunks *c, const CURL *easy)
{
    struct chunk_part *part = c->parts;

    while (part->easy != easy)
        part++;
    return part;
}

/* Handles all transfers that have ended. */
static int chunks_read(struct chunks *c, struct inf_err *reterr)
{
    CURLMsg *message;
    int n_left, r = 0;

    while (r == 0 && (message = curl_multi_info_read(c->multi, &n_left))) {
        struct chunk_part *part = part_of(c, message->easy_handle);

        if (message->msg != CURLMSG_DONE)
            continue;
        r = part_ended(part, message->data.result, reterr);
        part_stop(part);
        if (r == -EAGAIN && c->n_failed++ < FETCH_MAX_TRIES) {
            locate_wait(c->n_failed, 0);
            r = part_start(part, reterr);
        } else if (r == 0) {
            r = part_next(part, reterr);
        }
    }
    return r;
}

static uint64_t now_msec(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Opens another connection for the next chunk, if one is left. */
static int chunks_widen(struct chunks *c, struct inf_err *reterr)
{
    struct chunk_part *part = &c->parts[c->n_parts];

    if (!memchr(c->done, '0', c->n))
        return 0;
    part->all = c;
    part->easy = curl_easy_init();
    part->buffer = malloc(CHUNKS_BUFFER);
    if (!part->easy || !part->buffer)
        return err_set(reterr, ENOMEM, "out of memory");
    c->n_parts++;
    return part_next(part, reterr);
}

static bool chunks_busy(const struct chunks *c)
{
    for (unsigned i = 0; i < c->n_parts; i++)
        if (c->parts[i].runs)
            return true;
    return false;
}

static int chunks_run(struct chunks *c, fetch_progress progress, void *data, struct inf_err *reterr)
{
    const unsigned n_parts = MAX(1u, MIN(c->request->parts, (unsigned)FETCH_MAX_PARTS));
    uint64_t told = now_msec(), n_told = c->n_bytes;
    int n_running = 0, r = 0;

    while (r == 0 && c->n_parts < MIN(n_parts, (unsigned)CHUNKS_FIRST_PARTS) &&
           memchr(c->done, '0', c->n))
        r = chunks_widen(c, reterr);
    progress(data, c->n_bytes, c->size);
    while (r == 0) {
        uint64_t waited;

        if (curl_multi_perform(c->multi, &n_running) != CURLM_OK)
            return err_set(reterr, EIO, "the transfer failed");
        r = chunks_read(c, reterr);
        if (r < 0 || !chunks_busy(c))
            break;
        waited = now_msec() - told;
        if (waited >= PROGRESS_MSEC) {
            progress(data, c->n_bytes, c->size);
            if (c->n_parts < n_parts && (c->n_bytes - n_told) * 1000 < CHUNKS_FAST * waited)
                r = chunks_widen(c, reterr);
            told += waited;
            n_told = c->n_bytes;
        }
        curl_multi_poll(c->multi, NULL, 0, PROGRESS_MSEC, NULL);
    }
    progress(data, c->n_bytes, c->size);
    return r;
}

static void chunks_close(struct chunks *c)
{
    for (unsigned i = 0; i < FETCH_MAX_PARTS; i++) {
        if (c->parts[i].easy) {
            part_stop(&c->parts[i]);
            curl_easy_cleanup(c->parts[i].easy);
        }
        free(c->parts[i].buffer);
    }
    curl_multi_cleanup(c->multi);
    if (c->fd >= 0)
        close(c->fd);
    if (c->state_fd >= 0)
        close(c->state_fd);
    free(c->done);
}

int chunks_fetch(const struct fetch_settings *settings, const struct fetch_request *request,
                 const struct fetch_place *place, fetch_progress progress, void *data,
                 struct inf_err *reterr)
{
    struct chunks c = {.settings = settings,
                       .request = request,
                       .url = place->url,
                       .size = place->size,
                       .n = DIV_UP(place->size, CHUNK_BYTES),
                       .fd = -1,
                       .state_fd = -1};
    int r;

    if (c.n > CHUNKS_MAX)
        return err_set(reterr, EFBIG, "%s is too large", request->file);
    snprintf(c.head, sizeof(c.head), "%llu %llu %s\n", (unsigned long long)c.size,
             (unsigned long long)CHUNK_BYTES, place->etag);
    c.done = malloc(c.n + 1);
    c.multi = curl_multi_init();
    if (!c.done || !c.multi) {
        chunks_close(&c);
        return err_set(reterr, ENOMEM, "out of memory");
    }
    memset(c.done, '0', c.n);
    c.done[c.n] = 0;
    r = files_open(&c, request->file, reterr);
    if (r == 0)
        r = chunks_run(&c, progress, data, reterr);
    if (r == 0 && strspn(c.done, "1") < c.n)
        r = err_set(reterr, EIO, "%s is not complete", request->file);
    chunks_close(&c);
    return r;
}
