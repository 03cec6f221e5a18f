/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matches patterns with PCRE2 within limits of steps and time.
 */
#include "tokenizer/pattern.h"

#include <errno.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/utf8.h"

/* Limit of PCRE2's matching steps for one match. Splitters match words: a word needs at most a few
 * hundred steps, and a long run of spaces needs a few steps per space. */
#define MATCH_LIMIT 20000000u
#define HEAP_KIB    (64u << 10)
/* Limit of the time of all matches in one text. An expression that looks ahead to the end of the
 * text for each word takes quadratic time, without exceeding the limit of steps. */
#define MAX_USEC (20 * 1000000u)

struct pattern {
    pcre2_code *code;
    pcre2_match_context *context;
};

struct pattern_work {
    pcre2_match_data *data;
    uint64_t start; /* time of the first match */
    unsigned n;
};

int pattern_compile(const char *pattern, size_t len, enum uni_version version,
                    struct pattern **ret_pattern, struct inf_err *reterr)
{
    _cleanup_(pattern_freep) struct pattern *re = NEW(struct pattern, 1);
    _cleanup_str_ struct str text = {0};
    PCRE2_SIZE offset;
    int code, r;

    if (!re)
        return -ENOMEM;
    r = pattern_translate(pattern, len, version, &text, reterr);
    if (r < 0)
        return r;
    re->code = pcre2_compile((PCRE2_SPTR)(text.data ? text.data : ""), text.len,
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                             &code, &offset, NULL);
    if (!re->code) {
        PCRE2_UCHAR why[120] = "";

        pcre2_get_error_message(code, why, sizeof(why));
        return err_set(reterr, EINVAL, "regular expression '%.60s': %s", pattern, (char *)why);
    }
    re->context = pcre2_match_context_create(NULL);
    if (!re->context)
        return -ENOMEM;
    pcre2_set_match_limit(re->context, MATCH_LIMIT);
    pcre2_set_heap_limit(re->context, HEAP_KIB);
    *ret_pattern = STEAL(re);
    return 0;
}

struct pattern *pattern_free(struct pattern *re)
{
    if (!re)
        return NULL;
    pcre2_match_context_free(re->context);
    pcre2_code_free(re->code);
    free(re);
    return NULL;
}

int pattern_work_new(struct pattern_work **ret_work)
{
    struct pattern_work *w = NEW(struct pattern_work, 1);

    if (w)
        w->data = pcre2_match_data_create(1, NULL);
    if (!w || !w->data) {
        free(w);
        return -ENOMEM;
    }
    *ret_work = w;
    return 0;
}

struct pattern_work *pattern_work_free(struct pattern_work *work)
{
    if (!work)
        return NULL;
    pcre2_match_data_free(work->data);
    free(work);
    return NULL;
}

int pattern_find(const struct pattern *re, struct pattern_work *work, const char *text, size_t len,
                 size_t from, size_t *ret_start, size_t *ret_end)
{
    const PCRE2_SIZE *ovector;
    int r;

    if (from > len)
        return PATTERN_NONE;
    if (work->n++ % 64 == 0) {
        const uint64_t now = clock_usec();

        if (work->start == 0)
            work->start = now;
        if (now - work->start > MAX_USEC)
            return -E2BIG;
    }
    r = pcre2_match(re->code, (PCRE2_SPTR)text, len, from, PCRE2_NO_UTF_CHECK, work->data,
                    re->context);
    if (r == PCRE2_ERROR_NOMATCH)
        return PATTERN_NONE;
    if (r == PCRE2_ERROR_NOMEMORY)
        return -ENOMEM;
    if (r < 0)
        return -E2BIG;
    ovector = pcre2_get_ovector_pointer(work->data);
    /* \K in a lookahead can move the start of a match beyond its end. */
    if (ovector[0] > ovector[1] || ovector[1] > len)
        return -E2BIG;
    *ret_start = ovector[0];
    *ret_end = ovector[1];
    return 0;
}

int pattern_next(const struct pattern *re, struct pattern_work *work, const char *text, size_t len,
                 struct pattern_walk *walk, size_t *ret_start, size_t *ret_end)
{
    for (;;) {
        size_t start, end;
        uint32_t cp;
        const int r = pattern_find(re, work, text, len, walk->from, &start, &end);

        if (r != 0)
            return r;
        if (start != end || !walk->began || end != walk->last_end) {
            walk->began = true;
            walk->from = walk->last_end = end;
            *ret_start = start;
            *ret_end = end;
            return 0;
        }
        if (walk->from >= len)
            return PATTERN_NONE;
        walk->from += utf8_decode(text + walk->from, len - walk->from, &cp);
    }
}
