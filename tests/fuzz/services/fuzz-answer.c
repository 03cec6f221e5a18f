/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses any bytes as the head of a service's answer, and the bytes after the head as a chunked
 * body. The first byte selects how the other bytes are cut into pieces. The pieces must not change
 * the result.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/http/chunks.h"
#include "common/http/head.h"
#include "core/str.h"

#define MAX_HEADER 4096
#define MAX_BODY   65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Copies the bytes to a separate allocation, so that sanitizers detect reads beyond its end. */
static char *copy_of(const char *data, size_t size)
{
    char *copy = malloc(size ? size : 1);

    if (copy)
        memcpy(copy, data, size);
    return copy;
}

/* Reads pieces of @step bytes. */
static int read_chunks(const char *data, size_t size, size_t step, struct str *out, size_t *ret_at)
{
    struct chunks c = {.max = MAX_BODY};
    size_t at = 0;
    int r = CHUNKS_MORE;

    while (at < size && r == CHUNKS_MORE) {
        const size_t len = MIN(step, size - at);
        char *piece = copy_of(data + at, len);
        size_t done = 0;

        if (!piece)
            abort();
        do {
            struct http_text content;
            size_t used = SIZE_MAX;

            r = chunks_next(&c, piece + done, len - done, &used, &content);
            if (used > len - done || (r == CHUNKS_MORE && used != len - done))
                abort();
            if (r == 0 && (!content.len || content.data < piece + done ||
                           content.data + content.len > piece + len))
                abort();
            if (r == 0 && str_append(out, content.data, content.len) < 0)
                abort();
            done += used;
        } while (r == 0);
        at += done;
        free(piece);
    }
    if (out->len > MAX_BODY)
        abort();
    *ret_at = at;
    return r;
}

static void fuzz_chunks(const char *data, size_t size, size_t step)
{
    _cleanup_str_ struct str whole = {}, cut = {};
    size_t at, at_cut;

    if (read_chunks(data, size, SIZE_MAX, &whole, &at) !=
            read_chunks(data, size, step, &cut, &at_cut) ||
        at != at_cut || whole.len != cut.len ||
        (whole.len && memcmp(whole.data, cut.data, whole.len) != 0))
        abort();
}

static void check_head(const char *copy, size_t size, const struct head *head)
{
    const char *end = copy + size;

    if (head->size > size || head->status < 100 || head->status > 599 ||
        (head->chunked && head->has_length))
        abort();
    for (size_t i = 0; i < head->n_headers; i++) {
        const struct http_header *h = &head->headers[i];

        if (!h->name.len || h->name.data < copy || h->name.data + h->name.len > end ||
            h->value.data < copy || h->value.data + h->value.len > end)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct head head;
    size_t step, begin = 0;
    bool to_head;
    char *copy;
    int whole, piece = HEAD_INCOMPLETE;

    if (size < 1)
        return 0;
    step = 1 + (data[0] & 0x3f);
    to_head = data[0] & 0x80;
    size--;
    copy = copy_of((const char *)data + 1, size);
    if (!copy)
        return 0;
    whole = head_check_answer(copy, size, MAX_HEADER, to_head, &head);
    if (whole == 0) {
        check_head(copy, size, &head);
        begin = head.size;
    }
    /* Checks that the result does not depend on how the bytes are cut. */
    for (size_t n = 0; n <= size && piece == HEAD_INCOMPLETE; n++)
        piece = head_check_answer(copy, n, MAX_HEADER, to_head, &head);
    if (piece != whole)
        abort();
    fuzz_chunks(copy + begin, size - begin, step);
    free(copy);
    return 0;
}
