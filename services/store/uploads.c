/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers HEAD and POST /api/blobs/sha256:DIGEST, with which clients upload the files of models.
 *
 * The body of an upload may be larger than the memory. It is passed on as it arrives: the loop
 * fills a buffer, pauses the body, and a thread appends the buffer to a file and to its digest. A
 * file gets its name sha256-DIGEST in the directory .uploads of the store only if it has this
 * digest. It stays until a model is made of it (creation.c), or until it is a day old and the
 * service runs. All uploaded files together have at most store.max_uploads bytes, and there are at
 * most UPLOADS_FILES. The mean speed at which a client sends its file must not be below a limit, so
 * that a few clients cannot keep all others from uploading.
 *
 * Old files are removed by a job in the same lane as the uploads. Therefore no upload has at that
 * moment made a file that it has not locked yet.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include "common/config/config.h"
#include "common/http/api-error.h"
#include "common/models/safe-path.h"
#include "common/service/log.h"
#include "common/service/service.h"
#include "common/store/store.h"
#include "core/clock.h"
#include "core/err.h"
#include "core/file.h"
#include "core/sha256.h"
#include "core/text.h"
#include "store/store-service.h"

#define UPLOADS_AGE_SEC (24 * 3600)
/* Bytes of the disk that stay free. */
#define UPLOADS_MARGIN ((uint64_t)64 << 20)

enum {
    UPLOADS_MAX = 4,      /* at the same time */
    UPLOADS_FILES = 4096, /* that no model uses yet */
    UPLOAD_LEAST = 4096,  /* a smaller file counts as this many bytes, which is about what it takes
                             on the disk */
    UPLOAD_SPEED = 16 << 10, /* bytes that a client must send in a second, on average */
    UPLOAD_BUFFER = 1 << 20, /* in bytes */
    UPLOAD_ENOUGH = 1 << 19, /* the thread gets the buffer when it has this many bytes; the rest of
                                the buffer has room for bytes that still arrive after a pause */
};

/* An upload of unknown size reserves this many bytes of the limit of all uploads at a time, or the
 * rest of the limit. */
#define UPLOADS_STEP ((uint64_t)16 << 20)

struct store_upload {
    struct job job; /* the first member */
    struct store_service *service;
    struct store_request *request; /* NULL: the client has left, or was answered */
    char digest[STORE_DIGEST + 1];
    char *path; /* of the file without its digest; NULL: there is none */
    int fd;
    struct sha256 hash;
    uint64_t size;        /* bytes that are in the file and in the buffer */
    uint64_t promised;    /* bytes that count against the limit of all uploads */
    uint64_t waited_usec; /* how long the thread had nothing to do for this upload */
    uint64_t idle_usec;   /* since when it has nothing to do; if it runs, this has no meaning */
    bool at_end;          /* the body is complete */
    char *buffer;         /* [UPLOAD_BUFFER] what has arrived */
    size_t n;             /* bytes in the buffer */
    bool runs;            /* the thread has the members below */
    char *part;           /* [UPLOAD_BUFFER] what is appended to the file */
    size_t n_part;
    bool is_last;
    bool replaces; /* another upload of the same file was complete earlier */
    int result;
    struct inf_err err;
};

/* --- files --- */

/* Calls @each for each file of .uploads. */
static void uploads_walk(const char *dir,
                         void (*each)(int fd, const char *name, const struct stat *st, void *data),
                         void *data)
{
    _cleanup_free_ char *path = path_join(dir, STORE_UPLOADS);
    DIR *d = path ? opendir(path) : NULL;
    const struct dirent *e;
    struct stat st;

    while (d && (e = readdir(d)))
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            each(dirfd(d), e->d_name, &st, data);
    if (d)
        closedir(d);
}

/* Returns whether a file is complete and not old. */
static bool upload_stays(const char *name, const struct stat *st)
{
    return name[0] != '.' && time(NULL) - st->st_mtime < UPLOADS_AGE_SEC;
}

/* Adds a file that stays to the struct uploads_sum @data. Running uploads are not in this sum; they
 * count with the bytes that they promised. */
static void upload_count(int dir, const char *name, const struct stat *st, void *data)
{
    struct uploads_sum *sum = data;

    (void)dir;
    if (!upload_stays(name, st))
        return;
    sum->bytes += MAX((uint64_t)st->st_size, UPLOAD_LEAST);
    sum->n++;
}

/* Counts the files that stay. */
static void uploads_count(struct store_service *s)
{
    s->uploaded = (struct uploads_sum){};
    uploads_walk(s->dir, upload_count, &s->uploaded);
}

/* Adds a file that stays to the sum, and removes a file that is old, or that an ended process left
 * incomplete. @data is the struct uploads_tidying. */
static void upload_expire(int dir, const char *name, const struct stat *st, void *data)
{
    struct uploads_tidying *t = data;
    _cleanup_close_ int fd = -1;

    if (upload_stays(name, st)) {
        const int64_t left_sec = (int64_t)(st->st_mtime - time(NULL)) + UPLOADS_AGE_SEC;

        t->next_sec = MIN(t->next_sec, (uint64_t)MAX(MIN(left_sec, UPLOADS_AGE_SEC), 1));
        upload_count(dir, name, st, &t->sum);
        return;
    }
    fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        unlinkat(dir, name, 0);
}

static void tidy_on_thread(struct job *job)
{
    struct uploads_tidying *t = (struct uploads_tidying *)job;

    t->next_sec = UINT64_MAX;
    t->sum = (struct uploads_sum){};
    uploads_walk(t->service->dir, upload_expire, t);
}

static void tidy_ended(struct job *job)
{
    struct uploads_tidying *t = (struct uploads_tidying *)job;

    t->runs = false;
    t->service->uploaded = t->sum;
    if (t->again)
        uploads_tidy(t->service);
    else if (t->next_sec != UINT64_MAX)
        loop_timer_set(service_loop(t->service->service), &t->timer, t->next_sec * 1000000);
}

static void tidy_on_timer(struct loop_timer *timer)
{
    uploads_tidy(timer->data);
}

void uploads_init(struct store_service *s)
{
    s->tidying.job = (struct job){.run = tidy_on_thread, .done = tidy_ended};
    s->tidying.timer = (struct loop_timer){.fire = tidy_on_timer, .data = s};
    s->tidying.service = s;
    uploads_count(s);
    uploads_tidy(s);
}

void uploads_tidy(struct store_service *s)
{
    struct uploads_tidying *t = &s->tidying;

    t->again = t->runs;
    if (t->runs)
        return;
    t->runs = true;
    jobs_queue(s->jobs, &s->uploading, &t->job);
}

char *uploads_find(const char *dir, const char *digest)
{
    static const char *const subs[] = {STORE_UPLOADS, STORE_BLOBS};

    for (size_t i = 0; i < ARRAY_SIZE(subs); i++) {
        char *path = store_digest_path(dir, subs[i], digest);

        if (path && path_exists(path))
            return path;
        free(path);
    }
    return NULL;
}

/* Opens the file of an upload. Its lock tells uploads_tidy() that the upload runs. */
static int upload_open(struct store_upload *u, struct inf_err *reterr)
{
    _cleanup_free_ char *dir = path_join(u->service->dir, STORE_UPLOADS);
    int r = dir ? store_make_dirs(dir, reterr) : err_set(reterr, ENOMEM, "out of memory");

    if (r < 0)
        return r;
    if (asprintf(&u->path, "%s/.XXXXXX", dir) < 0) {
        u->path = NULL;
        return err_set(reterr, ENOMEM, "out of memory");
    }
    u->fd = mkostemp(u->path, O_CLOEXEC);
    if (u->fd < 0) {
        r = errno;
        free(u->path);
        u->path = NULL;
        return err_set(reterr, r, "%s cannot be written: %s", dir, strerror(r));
    }
    if (flock(u->fd, LOCK_EX | LOCK_NB) < 0)
        return err_set(reterr, errno, "%s: %s", u->path, strerror(errno));
    return 0;
}

/* Appends the part to the file. */
static int upload_append(struct store_upload *u, struct inf_err *reterr)
{
    struct statvfs fs;
    int r;

    if (fstatvfs(u->fd, &fs) == 0 &&
        (uint64_t)fs.f_bavail * fs.f_frsize < u->n_part + UPLOADS_MARGIN)
        return err_set(reterr, ENOSPC, "the disk of %s is full", u->service->dir);
    r = store_write_all(u->fd, u->part, u->n_part);
    if (r < 0)
        return err_set(reterr, -r, "%s: %s", u->path, strerror(-r));
    sha256_add(&u->hash, u->part, u->n_part);
    return 0;
}

/* Gives the complete file its name. */
static int upload_finish(struct store_upload *u, struct inf_err *reterr)
{
    _cleanup_free_ char *path = store_digest_path(u->service->dir, STORE_UPLOADS, u->digest);
    uint8_t digest[SHA256_BYTES];
    char text[STORE_DIGEST + 1];
    struct stat st;

    if (!path)
        return err_set(reterr, ENOMEM, "out of memory");
    sha256_end(&u->hash, digest);
    store_digest_text(digest, text);
    if (strcmp(text, u->digest) != 0)
        return err_set(reterr, EINVAL, "the body has the digest sha256:%s, not sha256:%s", text,
                       u->digest);
    u->replaces = path_exists(path);
    if (fchmod(u->fd, 0644) < 0 || fsync(u->fd) < 0 || rename(u->path, path) < 0)
        return err_set(reterr, errno, "%s: %s", path, strerror(errno));
    if (fstat(u->fd, &st) == 0)
        verified_add(&u->service->verified, u->digest, &st);
    free(u->path);
    u->path = NULL;
    return 0;
}

static void upload_on_thread(struct job *job)
{
    struct store_upload *u = (struct store_upload *)job;

    u->result = u->fd < 0 ? upload_open(u, &u->err) : 0;
    if (u->result == 0)
        u->result = upload_append(u, &u->err);
    if (u->result == 0 && u->is_last)
        u->result = upload_finish(u, &u->err);
}

/* --- the request --- */

static struct store_upload *upload_free(struct store_upload *u)
{
    if (!u)
        return NULL;
    if (u->request)
        u->request->upload = NULL;
    if (u->path)
        unlink(u->path);
    if (u->fd >= 0)
        close(u->fd);
    u->service->n_uploads--;
    u->service->promised -= u->promised;
    service_touch(u->service->service);
    free(u->path);
    free(u->buffer);
    free(u->part);
    free(u);
    return NULL;
}

/* Gives what has arrived to the thread. */
static void upload_run(struct store_upload *u)
{
    char *swap = u->part;

    u->part = u->buffer;
    u->n_part = u->n;
    u->buffer = swap;
    u->n = 0;
    u->is_last = u->at_end;
    u->waited_usec += clock_usec() - u->idle_usec;
    u->runs = true;
    jobs_queue(u->service->jobs, &u->service->uploading, &u->job);
}

/* Notes that the file is complete. */
static void upload_note(const struct store_upload *u)
{
    struct store_service *s = u->service;

    if (!u->replaces) {
        s->uploaded.bytes += MAX(u->size, UPLOAD_LEAST);
        s->uploaded.n++;
    }
    if (!loop_timer_is_set(&s->tidying.timer))
        uploads_tidy(s);
}

static void upload_step_ended(struct job *job)
{
    struct store_upload *u = (struct store_upload *)job;
    struct store_request *r = u->request;

    u->runs = false;
    u->idle_usec = clock_usec();
    if (u->is_last && u->result == 0)
        upload_note(u);
    if (r && u->result == 0 && !u->path) {
        log_info("sha256:%s was uploaded", u->digest);
        u->service->stats.n_uploaded++;
        upload_free(u);
        http_respond(r->http, 201, NULL, "", 0);
    } else if (r && u->result < 0) {
        const struct inf_err err = u->err;
        const int result = u->result;

        upload_free(u);
        store_send_error(r->http, result, err.text);
    } else if (!r) {
        upload_free(u);
    } else if (u->at_end || u->n >= UPLOAD_ENOUGH) {
        upload_run(u);
    } else {
        http_request_resume_body(r->http);
    }
}

/* Reads the digest from the path of the request. */
static bool read_digest(struct store_request *r, char ret[STORE_DIGEST + 1])
{
    static const char start[] = "/api/blobs/sha256:", other[] = "/api/blobs/sha256-";
    const struct http_text path = http_request_path(r->http);
    const size_t n = sizeof(start) - 1;

    if (path.len != n + STORE_DIGEST ||
        (memcmp(path.data, start, n) != 0 && memcmp(path.data, other, n) != 0))
        return false;
    memcpy(ret, path.data + n, STORE_DIGEST);
    ret[STORE_DIGEST] = 0;
    return sha256_is_text(ret);
}

static void refuse_digest(struct store_request *r)
{
    api_error_send(r->http, 400, "invalid_digest", NULL, 0,
                   "The path must end with 'sha256:' and 64 lower-case hexadecimal digits.");
}

void store_blob_find(struct store_request *r)
{
    char digest[STORE_DIGEST + 1];
    _cleanup_free_ char *path = NULL;

    if (!http_text_is(http_request_method(r->http), "HEAD")) {
        http_response_header(r->http, "allow", "HEAD, POST", 10);
        api_error_send(r->http, 405, "method_not_allowed", NULL, 0,
                       "/api/blobs takes HEAD and POST; the files of models are not given out.");
        return;
    }
    if (!read_digest(r, digest)) {
        refuse_digest(r);
        return;
    }
    path = uploads_find(r->service->dir, digest);
    if (path)
        http_respond(r->http, 200, NULL, "", 0);
    else
        api_error_send(r->http, 404, "blob_not_found", NULL, 0, "There is no such file.");
}

/* Returns how many more bytes uploads may have, in addition to the complete uploads and to the
 * bytes that running uploads have promised. */
static uint64_t limit_left(const struct store_service *s)
{
    const uint64_t max = s->config->store.max_uploads;

    return max - MIN(max, s->uploaded.bytes + s->promised);
}

/* Returns whether the limits allow no upload of @least bytes. */
static bool limit_is_reached(const struct store_service *s, uint64_t least)
{
    return least > limit_left(s) || s->uploaded.n + s->n_uploads >= UPLOADS_FILES;
}

static void refuse_limit(struct store_request *r)
{
    api_error_send(r->http, 507, "too_many_uploads", NULL, 0,
                   "There may be at most %d uploaded files that no model uses yet, and %llu bytes "
                   "of them together (store.max_uploads); they are removed after a day.",
                   UPLOADS_FILES, (unsigned long long)r->service->config->store.max_uploads);
}

/* Makes an upload of at least @least bytes. */
static struct store_upload *upload_new(struct store_request *r, const char *digest, uint64_t least)
{
    struct store_service *s = r->service;
    struct store_upload *u = NEW(struct store_upload, 1);

    if (!u)
        return NULL;
    u->buffer = malloc(UPLOAD_BUFFER);
    u->part = malloc(UPLOAD_BUFFER);
    if (!u->buffer || !u->part) {
        free(u->buffer);
        free(u->part);
        free(u);
        return NULL;
    }
    u->job = (struct job){.run = upload_on_thread, .done = upload_step_ended};
    u->service = s;
    u->request = r;
    u->fd = -1;
    u->promised = least;
    u->idle_usec = clock_usec();
    snprintf(u->digest, sizeof(u->digest), "%s", digest);
    sha256_init(&u->hash);
    s->n_uploads++;
    s->promised += u->promised;
    r->upload = u;
    return u;
}

void store_upload_begin(struct store_request *r)
{
    struct store_service *s = r->service;
    const uint64_t length = http_request_length(r->http);
    const uint64_t least = MAX(length == UINT64_MAX ? 0 : length, UPLOAD_LEAST);
    char digest[STORE_DIGEST + 1];
    _cleanup_free_ char *there = NULL;

    if (!read_digest(r, digest)) {
        refuse_digest(r);
        return;
    }
    /* Some files may have become files of models, and the thread that counts the files again may
     * still be busy with another upload, so they are counted here. */
    if (s->tidying.runs && limit_is_reached(s, least))
        uploads_count(s);
    there = uploads_find(s->dir, digest);
    if (there)
        http_respond(r->http, 200, NULL, "", 0);
    else if (s->n_uploads == UPLOADS_MAX)
        api_error_send(r->http, 503, "too_many_uploads", NULL, 5,
                       "%d files are being uploaded already; try again later.", UPLOADS_MAX);
    else if (limit_is_reached(s, least))
        refuse_limit(r);
    else if (!upload_new(r, digest, least))
        api_error_send(r->http, 503, "out_of_memory", NULL, 1, "Out of memory.");
    else
        http_request_stream_body(r->http);
}

/* Returns whether the client has sent less than it must. It has some time to begin, and the time of
 * the thread does not count. */
static bool upload_is_slow(const struct store_upload *u)
{
    const uint64_t waited = u->waited_usec + (u->runs ? 0 : clock_usec() - u->idle_usec);

    return waited >
           u->service->config->gateway.body_timeout_usec + u->size / UPLOAD_SPEED * 1000000;
}

/* Raises the number of bytes that the upload has promised, if it is below the upload's size. False:
 * the limit does not allow it. */
static bool upload_reserve(struct store_upload *u)
{
    const uint64_t left = limit_left(u->service);
    uint64_t more;

    if (u->size <= u->promised)
        return true;
    more = MAX(u->size - u->promised, MIN(UPLOADS_STEP, left));
    if (more > left)
        return false;
    u->service->promised += more;
    u->promised += more;
    return true;
}

void uploads_take(struct store_request *r, const char *data, size_t len)
{
    struct store_upload *u = r->upload;

    /* Without an upload, the request has been answered. */
    if (!u)
        return;
    u->size += len;
    if (upload_is_slow(u)) {
        uploads_leave(r);
        api_error_send(r->http, 408, "request_timeout", NULL, 0,
                       "An upload must send at least %d bytes per second on average.",
                       UPLOAD_SPEED);
        return;
    }
    if (!upload_reserve(u)) {
        uploads_leave(r);
        refuse_limit(r);
        return;
    }
    assert(u->n + len <= UPLOAD_BUFFER);
    memcpy(u->buffer + u->n, data, len);
    u->n += len;
    if (u->n >= UPLOAD_ENOUGH && !u->runs) {
        http_request_pause_body(r->http);
        upload_run(u);
    }
}

void store_upload(struct store_request *r)
{
    struct store_upload *u = r->upload;

    if (!u)
        return;
    u->at_end = true;
    if (!u->runs)
        upload_run(u);
}

void uploads_leave(struct store_request *r)
{
    struct store_upload *u = r->upload;

    r->upload = NULL;
    u->request = NULL;
    if (!u->runs)
        upload_free(u);
}
