/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches one file: a small one at once, a large one in chunks (see fetch.h). */
#include "fetch/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"

/* A file that is written from its beginning. */
struct whole {
    int fd;
    uint64_t size, limit;
    int status;
    fetch_progress progress;
    void *data;
};

static bool whole_body(void *data, const void *bytes, size_t n)
{
    struct whole *w = data;
    const char *p = bytes;

    if (n > w->limit - w->size) {
        w->status = -EFBIG;
        return false;
    }
    while (n > 0) {
        const ssize_t k = write(w->fd, p, n);

        if (k < 0 && errno != EINTR) {
            w->status = -errno;
            return false;
        }
        if (k > 0) {
            p += k;
            n -= (size_t)k;
            w->size += (uint64_t)k;
        }
    }
    w->progress(w->data, w->size, UINT64_MAX);
    return true;
}

/* Fetches the file from its beginning, without parts. */
static int fetch_whole(const struct fetch_settings *settings, const struct fetch_request *request,
                       const char *name, fetch_progress progress, void *data,
                       struct fetch_result *result, struct inf_err *reterr)
{
    struct whole w = {.limit = request->limit, .progress = progress, .data = data};
    struct fetch_place place = {0};
    int r = -EAGAIN;

    for (unsigned i = 0; r == -EAGAIN && i < FETCH_MAX_TRIES; i++) {
        if (i > 0)
            locate_wait(i, 0);
        w.size = 0;
        w.fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
        if (w.fd < 0)
            return err_set(reterr, errno, "%s cannot be written: %s", name, strerror(errno));
        r = locate(settings, request, whole_body, &w, &place, reterr);
        close(w.fd);
        result->status = place.status;
        free(place.url);
        if (w.status == -EFBIG)
            return err_set(reterr, EFBIG, "%s is larger than %llu bytes", request->file,
                           (unsigned long long)w.limit);
        if (w.status < 0)
            return err_set(reterr, -w.status, "%s cannot be written: %s", name,
                           strerror(-w.status));
    }
    result->size = w.size;
    if (r == 0 && request->size != UINT64_MAX && w.size != request->size)
        r = err_set(reterr, EPROTO, "%s has %llu bytes instead of %llu", request->file,
                    (unsigned long long)w.size, (unsigned long long)request->size);
    return r;
}

/* Checks the size that the server reports, before any byte is fetched. */
static int check_size(const struct fetch_request *request, const struct fetch_place *place,
                      struct inf_err *reterr)
{
    if (place->size == UINT64_MAX)
        return 0;
    if (request->size != UINT64_MAX && place->size != request->size)
        return err_set(reterr, EPROTO, "the server has %s with %llu bytes instead of %llu",
                       request->file, (unsigned long long)place->size,
                       (unsigned long long)request->size);
    if (place->size > request->limit)
        return err_set(reterr, EFBIG, "%s has %llu bytes, more than %llu", request->file,
                       (unsigned long long)place->size, (unsigned long long)request->limit);
    return 0;
}

static int fetch_large(const struct fetch_settings *settings, const struct fetch_request *request,
                       fetch_progress progress, void *data, struct fetch_result *result,
                       struct inf_err *reterr)
{
    _cleanup_free_ char *part = NULL;
    struct fetch_place place;
    int r = locate(settings, request, NULL, NULL, &place, reterr);

    result->status = place.status;
    if (r == 0)
        r = check_size(request, &place, reterr);
    if (r == 0 && asprintf(&part, "%s.part", request->file) < 0)
        r = err_set(reterr, ENOMEM, "out of memory");
    if (r == 0 && (!place.has_ranges || place.size == 0)) {
        r = fetch_whole(settings, request, part, progress, data, result, reterr);
    } else if (r == 0) {
        r = chunks_fetch(settings, request, &place, progress, data, reterr);
        result->size = place.size;
    }
    free(place.url);
    return r;
}

int fetch_file(const struct fetch_settings *settings, const struct fetch_request *request,
               fetch_progress progress, void *data, struct fetch_result *ret_result,
               struct inf_err *reterr)
{
    *ret_result = (struct fetch_result){0};
    return request->parts == 0
               ? fetch_whole(settings, request, request->file, progress, data, ret_result, reterr)
               : fetch_large(settings, request, progress, data, ret_result, reterr);
}
