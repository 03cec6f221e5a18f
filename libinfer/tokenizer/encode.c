/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes text to ids. All working memory belongs to one call. */
#include <errno.h>
#include <string.h>

#include "core/utf8.h"
#include "tokenizer/pipeline.h"

struct encoding {
    const struct inf_tokenizer *tok;
    struct pattern_work *patterns;
    struct str clean; /* the input without invalid UTF-8 */
    struct segs raw;
    struct str normal, spare;
    struct text text, other;
    struct bpe_work bpe;
    struct spm_work spm;
    struct ids ids;
};

static void encoding_done(struct encoding *e)
{
    pattern_work_free(e->patterns);
    str_done(&e->clean);
    segs_done(&e->raw);
    str_done(&e->normal);
    str_done(&e->spare);
    text_done(&e->text);
    text_done(&e->other);
    bpe_work_done(&e->bpe);
    spm_work_done(&e->spm);
    free(e->ids.v);
}

static size_t first_length(const char *s, size_t len)
{
    uint32_t cp;

    return utf8_decode(s, len, &cp);
}

/* Appends the normalized form of a segment, and cuts out the added tokens in it. */
static int put_normal(struct encoding *e, const char *s, struct seg seg, bool parse_special)
{
    const struct inf_tokenizer *tok = e->tok;
    const size_t start = e->text.buf.len;
    size_t zero = seg.start == 0 ? first_length(s, seg.len) : 0;
    int r;

    if (tok->norm.n == 0) {
        r = str_append(&e->text.buf, s, seg.len);
    } else {
        str_clear(&e->normal);
        r = str_append(&e->normal, s, seg.len);
        if (r == 0)
            r = normalizer_run(&tok->norm, e->patterns, &e->normal, &e->spare, &zero);
        if (r == 0)
            r = str_append(&e->text.buf, e->normal.data, e->normal.len);
    }
    if (r < 0)
        return r;
    if (seg.start == 0)
        e->text.zero = zero;
    return added_split(&tok->added_normal, e->text.buf.data,
                       (struct seg){start, e->text.buf.len - start, -1}, parse_special,
                       &e->text.segs);
}

static int prepare_text(struct encoding *e, const char *s, size_t len, bool parse_special)
{
    int r;

    r = added_split(&e->tok->added, s, (struct seg){0, len, -1}, parse_special, &e->raw);
    for (size_t i = 0; r == 0 && i < e->raw.n; i++) {
        const struct seg seg = e->raw.v[i];

        if (seg.id >= 0)
            r = segs_push(&e->text.segs, e->text.buf.len, 0, seg.id);
        else
            r = put_normal(e, s + seg.start, seg, parse_special);
    }
    return r < 0 ? r : splitter_run(&e->tok->split, e->patterns, &e->text, &e->other);
}

static int put_word(struct encoding *e, const char *word, size_t len)
{
    switch (e->tok->model) {
    case MODEL_BPE:
        return bpe_encode(&e->tok->bpe, &e->bpe, word, len, &e->ids);
    case MODEL_SPM:
        return spm_encode(&e->tok->spm, &e->spm, word, len, &e->ids);
    case MODEL_UNIGRAM:
        return unigram_encode(&e->tok->spm, &e->spm, word, len, &e->ids);
    default:
        return wordpiece_encode(&e->tok->wordpiece, word, len, &e->ids);
    }
}

static int put_all(struct encoding *e, unsigned flags)
{
    const struct inf_tokenizer *tok = e->tok;
    const bool around = flags & INF_ENCODE_ADD_SPECIAL;
    int r = 0;

    for (unsigned i = 0; around && r == 0 && i < tok->n_prefix; i++)
        r = ids_push(&e->ids, tok->prefix[i]);
    for (size_t i = 0; r == 0 && i < e->text.segs.n; i++) {
        const struct seg seg = e->text.segs.v[i];

        if (seg.id >= 0)
            r = ids_push(&e->ids, seg.id);
        else if (seg.len > 0)
            r = put_word(e, e->text.buf.data + seg.start, seg.len);
    }
    for (unsigned i = 0; around && r == 0 && i < tok->n_suffix; i++)
        r = ids_push(&e->ids, tok->suffix[i]);
    return r;
}

int inf_tokenizer_encode(const struct inf_tokenizer *tok, const char *text, size_t len,
                         unsigned flags, size_t max_ids, int32_t **ret_ids, size_t *ret_n)
{
    _cleanup_(encoding_done) struct encoding e = {.tok = tok, .ids.max = max_ids};
    int r;

    if (len > INT32_MAX / 4)
        return -E2BIG;
    if (pipeline_is_too_long(tok, text, len, max_ids))
        return -E2BIG;
    if (!utf8_valid(text, len)) {
        r = put_lossy(&e.clean, text, len, false);
        if (r < 0)
            return r;
        text = e.clean.data;
        len = e.clean.len;
    }
    r = pattern_work_new(&e.patterns);
    if (r == 0)
        r = prepare_text(&e, text, len, flags & INF_ENCODE_PARSE_SPECIAL);
    if (r == 0)
        r = put_all(&e, flags);
    if (r < 0)
        return r;
    *ret_ids = e.ids.n ? STEAL(e.ids.v) : NULL;
    *ret_n = e.ids.n;
    return 0;
}
