/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses traces: converts lines of JSON to chains of small numbers. A hash table maps (number of
 * the previous block, hash) to the number of a block, so the hashes of a trace may be any numbers.
 */
#include "trace.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <jansson.h>

#include "core/array.h"
#include "core/err.h"

struct format {
    const char *name;
    uint32_t block_tokens;
    const char *mark; /* a key that only this format has; NULL: the default format */
    bool whole_times; /* timestamps are integer milliseconds, else seconds */
};

static const struct format formats[] = {
    {"qwen", 16, "chat_id", false},
    {"mooncake", 512, NULL, true},
};

struct slot {
    uint64_t hash;
    uint32_t parent, number; /* number: that of the block + 1; 0: a free slot */
};

struct reader {
    struct trace *t;
    const struct format *format;
    bool partial;
    uint64_t line;
    struct slot *slots;
    uint64_t n_slots; /* a power of two */
    uint64_t cap_requests, cap_chain, cap_parents;
};

static struct slot *slot_of(struct reader *r, uint64_t hash, uint32_t parent)
{
    uint64_t i = (hash ^ (uint64_t)parent << 32) * UINT64_C(0x9e3779b97f4a7c15);

    for (i >>= 20;; i++) {
        struct slot *s = &r->slots[i & (r->n_slots - 1)];

        if (s->number == 0 || (s->hash == hash && s->parent == parent))
            return s;
    }
}

static int slots_grow(struct reader *r)
{
    struct slot *old = r->slots;
    const uint64_t n_old = r->n_slots;

    r->n_slots = MAX(2 * n_old, 4096u);
    r->slots = NEW(struct slot, r->n_slots);
    if (!r->slots) {
        r->slots = old;
        r->n_slots = n_old;
        return -ENOMEM;
    }
    for (uint64_t i = 0; i < n_old; i++)
        if (old[i].number)
            *slot_of(r, old[i].hash, old[i].parent) = old[i];
    free(old);
    return 0;
}

static int number_of(struct reader *r, uint64_t hash, uint32_t parent, uint32_t *ret_number)
{
    struct trace *t = r->t;
    struct slot *s;
    int e;

    if (2 * (uint64_t)t->n_blocks >= r->n_slots) {
        e = slots_grow(r);
        if (e < 0)
            return e;
    }
    s = slot_of(r, hash, parent);
    if (s->number == 0) {
        e = ARRAY_GROW(t->parents, r->cap_parents, (uint64_t)t->n_blocks + 1);
        if (e < 0)
            return e;
        t->parents[t->n_blocks] = parent;
        *s = (struct slot){hash, parent, ++t->n_blocks};
    }
    *ret_number = s->number - 1;
    return 0;
}

static int bad(const struct reader *r, struct inf_err *reterr, const char *what)
{
    return err_set(reterr, EINVAL, "line %" PRIu64 ": %s", r->line, what);
}

static int add_blocks(struct reader *r, const json_t *ids, uint64_t n, struct inf_err *reterr)
{
    struct trace *t = r->t;
    uint32_t parent = TRACE_NO_BLOCK;
    int e = ARRAY_GROW(t->chain, r->cap_chain, t->n_chain + n);

    for (uint64_t i = 0; i < n && e == 0; i++) {
        const json_t *id = json_array_get(ids, i);

        if (!json_is_integer(id))
            return bad(r, reterr, "hash_ids has an entry that is not an integer");
        e = number_of(r, (uint64_t)json_integer_value(id), parent, &parent);
        t->chain[t->n_chain + i] = parent;
    }
    return e;
}

static int add_request(struct reader *r, const json_t *line, struct inf_err *reterr)
{
    struct trace *t = r->t;
    const json_t *ids = json_object_get(line, "hash_ids");
    const json_t *tokens = json_object_get(line, "input_length");
    const json_t *at = json_object_get(line, "timestamp");
    uint64_t n, full;
    int e;

    if (!json_is_array(ids))
        return bad(r, reterr, "hash_ids, an array of integers, is missing");
    if (!json_is_integer(tokens) || json_integer_value(tokens) < 0)
        return bad(r, reterr, "input_length, a count of tokens, is missing");
    if (!json_is_integer(at) && !(json_is_real(at) && !r->format->whole_times))
        return bad(r, reterr, "timestamp, a number, is missing");
    n = json_array_size(ids);
    full = (uint64_t)json_integer_value(tokens) / r->format->block_tokens;
    if (!r->partial)
        n = MIN(n, full);
    if (n > UINT32_MAX || t->n_blocks > UINT32_MAX - 2 - n)
        return bad(r, reterr, "the trace has more blocks than can be counted");
    e = ARRAY_GROW(t->requests, r->cap_requests, t->n_requests + 1);
    if (e == 0)
        e = add_blocks(r, ids, n, reterr);
    if (e < 0)
        return e;
    t->requests[t->n_requests++] = (struct trace_request){t->n_chain, (uint32_t)n};
    t->n_chain += n;
    return 0;
}

static const struct format *format_of(const json_t *line)
{
    const struct format *f = formats;

    while (f->mark && !json_object_get(line, f->mark))
        f++;
    return f;
}

static int add_line(struct reader *r, const char *text, size_t n, struct inf_err *reterr)
{
    json_error_t why;
    json_t *line = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    int e;

    if (!line)
        return err_set(reterr, EINVAL, "line %" PRIu64 ", column %d: %s", r->line, why.column,
                       why.text);
    if (!json_is_object(line)) {
        e = bad(r, reterr, "an object was expected");
    } else {
        if (!r->format) {
            r->format = format_of(line);
            r->t->format = r->format->name;
            r->t->block_tokens = r->format->block_tokens;
        }
        if (format_of(line) != r->format)
            e = bad(r, reterr, "this is of another format than the first line");
        else
            e = add_request(r, line, reterr);
    }
    json_decref(line);
    return e;
}

static int read_lines(struct reader *r, FILE *f, struct inf_err *reterr)
{
    _cleanup_free_ char *text = NULL;
    size_t cap = 0;
    ssize_t n;

    while ((n = getline(&text, &cap, f)) >= 0) {
        int e;

        r->line++;
        if (strspn(text, " \t\r\n") == (size_t)n)
            continue;
        e = add_line(r, text, (size_t)n, reterr);
        if (e < 0)
            return e;
    }
    if (ferror(f))
        return err_set(reterr, EIO, "line %" PRIu64 ": the file cannot be read", r->line + 1);
    if (r->t->n_requests == 0)
        return err_set(reterr, EINVAL, "the trace has no requests");
    return 0;
}

int trace_read(FILE *f, bool partial, struct trace **ret_trace, struct inf_err *reterr)
{
    _cleanup_(trace_freep) struct trace *t = NEW(struct trace, 1);
    struct reader r = {.t = t, .partial = partial};
    int e;

    if (!t)
        return err_set(reterr, ENOMEM, "memory is used up");
    e = read_lines(&r, f, reterr);
    free(r.slots);
    if (e == -ENOMEM)
        err_set(reterr, ENOMEM, "memory is used up");
    if (e < 0)
        return e;
    *ret_trace = STEAL(t);
    return 0;
}

int trace_slice(const struct trace *t, uint64_t from, uint64_t to, struct trace **ret_trace)
{
    _cleanup_(trace_freep) struct trace *part = NEW(struct trace, 1);
    struct reader r = {.t = part};
    int e = 0;

    if (!part)
        return -ENOMEM;
    part->format = t->format;
    part->block_tokens = t->block_tokens;
    for (uint64_t i = from; i < to && e == 0; i++) {
        const struct trace_request *q = &t->requests[i];
        uint32_t parent = TRACE_NO_BLOCK;

        e = ARRAY_GROW(part->requests, r.cap_requests, part->n_requests + 1);
        if (e == 0)
            e = ARRAY_GROW(part->chain, r.cap_chain, part->n_chain + q->n);
        for (uint32_t k = 0; k < q->n && e == 0; k++) {
            e = number_of(&r, t->chain[q->first + k], parent, &parent);
            part->chain[part->n_chain + k] = parent;
        }
        if (e == 0)
            part->requests[part->n_requests++] = (struct trace_request){part->n_chain, q->n};
        part->n_chain += q->n;
    }
    free(r.slots);
    if (e < 0)
        return e;
    *ret_trace = STEAL(part);
    return 0;
}

struct trace *trace_free(struct trace *t)
{
    if (!t)
        return NULL;
    free(t->requests);
    free(t->chain);
    free(t->parents);
    free(t);
    return NULL;
}
