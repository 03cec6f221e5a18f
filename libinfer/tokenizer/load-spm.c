/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads SentencePiece models (sentencepiece_model.proto) with a small parser.
 *
 * The parser reads only the fields that encoding needs, checks lengths against the size of the
 * file, and accepts messages only where the schema has them. Encoding with a loaded model cuts
 * control tokens out of a text, if a caller asks for it, and encodes the text between them
 * separately.
 */
#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "core/utf8.h"
#include "tokenizer/load-config.h"

struct reader {
    const unsigned char *p, *end;
    bool bad;
};

struct field {
    uint32_t number;
    unsigned wire;
    uint64_t value;            /* varint, fixed32, fixed64 */
    const unsigned char *data; /* wire type 2 */
    size_t len;
};

static uint64_t read_varint(struct reader *r)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (r->p == r->end)
            break;
        if (shift < 64)
            value |= (uint64_t)(*r->p & 0x7f) << shift;
        if (!(*r->p++ & 0x80))
            return value;
    }
    r->bad = true;
    return 0;
}

static uint64_t read_fixed(struct reader *r, size_t n)
{
    uint64_t value = 0;

    if ((size_t)(r->end - r->p) < n) {
        r->bad = true;
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        value |= (uint64_t)r->p[i] << (8 * i);
    r->p += n;
    return value;
}

/* Reads the next field of a message. Returns false at the end. Sets r->bad if the bytes are not a
 * message. */
static bool read_field(struct reader *r, struct field *f)
{
    uint64_t tag;

    if (r->p == r->end || r->bad)
        return false;
    tag = read_varint(r);
    *f = (struct field){.number = (uint32_t)(tag >> 3), .wire = tag & 7};
    switch (f->wire) {
    case 0:
        f->value = read_varint(r);
        break;
    case 1:
        f->value = read_fixed(r, 8);
        break;
    case 2:
        tag = read_varint(r);
        if (r->bad || tag > (uint64_t)(r->end - r->p)) {
            r->bad = true;
            return false;
        }
        f->data = r->p;
        f->len = (size_t)tag;
        r->p += f->len;
        break;
    case 5:
        f->value = read_fixed(r, 4);
        break;
    default:
        r->bad = true;
    }
    return !r->bad && f->number != 0;
}

enum { MODEL_TYPE_UNIGRAM = 1, MODEL_TYPE_BPE = 2 };

struct spm_file {
    struct inf_tokenizer *tok;
    struct inf_err *reterr;
    uint32_t n;
    uint64_t type;
    bool byte_fallback, suffix;
    int32_t unknown, bos, eos, pad;
    bool prefix, merge_spaces, escape;
    const unsigned char *charsmap;
    size_t charsmap_len;
};

static float as_float(uint64_t bits)
{
    const uint32_t u = (uint32_t)bits;
    float f;

    memcpy(&f, &u, 4);
    return f;
}

static int load_piece(struct spm_file *s, const struct field *whole)
{
    struct reader in = {whole->data, whole->data + whole->len, false};
    const unsigned char *text = NULL;
    uint64_t kind = PIECE_NORMAL;
    size_t len = 0;
    float score = 0;
    struct field f;
    int r;

    while (read_field(&in, &f)) {
        if (f.number == 1 && f.wire == 2) {
            text = f.data;
            len = f.len;
        } else if (f.number == 2 && f.wire == 5) {
            score = as_float(f.value);
        } else if (f.number == 3 && f.wire == 0) {
            kind = f.value;
        }
    }
    if (in.bad || len == 0 || kind < PIECE_NORMAL || kind > PIECE_BYTE || score != score)
        return err_set(s->reterr, EINVAL, "piece %u is malformed", s->n);
    if (kind == PIECE_UNKNOWN)
        s->unknown = (int32_t)s->n;
    if (kind == PIECE_BYTE && piece_byte((const char *)text, len) < 0)
        return err_set(s->reterr, EINVAL, "the text of byte piece %u names no byte", s->n);
    r = vocab_put(&s->tok->vocab, s->n, (const char *)text, len, (enum piece_kind)kind, s->reterr);
    return r < 0 ? r : vocab_set_score(&s->tok->vocab, s->n++, score);
}

static int load_trainer(struct spm_file *s, const struct field *whole)
{
    struct reader r = {whole->data, whole->data + whole->len, false};
    struct field f;

    while (read_field(&r, &f)) {
        if (f.wire != 0)
            continue;
        if (f.number == 3)
            s->type = f.value;
        else if (f.number == 24)
            s->suffix = f.value != 0;
        else if (f.number == 35)
            s->byte_fallback = f.value != 0;
        else if (f.number == 41)
            s->bos = (int32_t)f.value;
        else if (f.number == 42)
            s->eos = (int32_t)f.value;
        else if (f.number == 43)
            s->pad = (int32_t)f.value;
    }
    return r.bad ? err_set(s->reterr, EINVAL, "the trainer's settings are malformed") : 0;
}

static int load_normalizer(struct spm_file *s, const struct field *whole)
{
    struct reader r = {whole->data, whole->data + whole->len, false};
    struct field f;

    while (read_field(&r, &f)) {
        if (f.number == 2 && f.wire == 2) {
            s->charsmap = f.data;
            s->charsmap_len = f.len;
        } else if (f.wire == 0 && f.number == 3) {
            s->prefix = f.value != 0;
        } else if (f.wire == 0 && f.number == 4) {
            s->merge_spaces = f.value != 0;
        } else if (f.wire == 0 && f.number == 5) {
            s->escape = f.value != 0;
        }
    }
    return r.bad ? err_set(s->reterr, EINVAL, "the normalizer's settings are malformed") : 0;
}

static int load_message(struct spm_file *s, const void *data, size_t size)
{
    struct reader reader = {data, (const unsigned char *)data + size, false};
    struct field f;
    int r = 0;

    while (r == 0 && read_field(&reader, &f)) {
        if (f.wire != 2)
            continue;
        if (f.number == 1)
            r = load_piece(s, &f);
        else if (f.number == 2)
            r = load_trainer(s, &f);
        else if (f.number == 3)
            r = load_normalizer(s, &f);
    }
    if (r == 0 && (reader.bad || reader.p != reader.end))
        r = err_set_at(s->reterr, EINVAL, (uint64_t)(reader.p - (const unsigned char *)data),
                       "this is not a SentencePiece model");
    if (r == 0 && s->n == 0)
        r = err_set(s->reterr, EINVAL, "the SentencePiece model has no pieces");
    return r;
}

static int load_added(struct spm_file *s)
{
    const struct vocab *v = &s->tok->vocab;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < v->n; i++) {
        const struct piece *p = &v->pieces[i];

        if ((p->kind == PIECE_CONTROL || p->kind == PIECE_UNKNOWN) && utf8_valid(p->text, p->len))
            r = added_put(&s->tok->added, p->text, p->len, (int32_t)i, ADDED_SPECIAL);
    }
    return r;
}

static int load_steps(struct spm_file *s, const struct config *config)
{
    struct inf_tokenizer *tok = s->tok;
    struct norm_step *st = normalizer_add(&tok->norm, NORM_SPM);
    const json_t *prefix = config_get(config, "add_prefix_space");
    struct dec_step *dec;
    int r;

    if (!st)
        return -ENOMEM;
    st->prefix = s->prefix && !s->suffix && !json_is_false(prefix);
    st->suffix = s->prefix && s->suffix;
    st->merge_spaces = s->merge_spaces;
    st->escape = s->escape;
    st->keep = &tok->spm.user;
    r = charsmap_init(&st->map, s->charsmap, s->charsmap_len, s->reterr);
    if (r < 0)
        return r;
    if (!s->prefix && !s->merge_spaces)
        return 0;
    dec = decoder_add(&tok->dec, DEC_FIRST_SPACE);
    if (!dec)
        return -ENOMEM;
    dec->first = s->merge_spaces;
    return 0;
}

/* Sets the tokens around texts as the configuration says. If the configuration says nothing, BOS is
 * put before texts, or EOS after texts if the model has no BOS. */
static int load_around(struct spm_file *s, const struct config *config)
{
    struct inf_tokenizer *tok = s->tok;
    int r = config_apply(config, tok, s->reterr);

    if (r < 0)
        return r;
    if (tok->bos < 0 && vocab_at(&tok->vocab, s->bos))
        tok->bos = s->bos;
    if (vocab_at(&tok->vocab, s->eos) && !config_get(config, "eos_token"))
        tok->eos = s->eos;
    if (tok->pad < 0 && vocab_at(&tok->vocab, s->pad))
        tok->pad = s->pad;
    if (!config_get(config, "add_bos_token") && tok->bos >= 0 && !inf_tokenizer_adds_bos(tok))
        r = pipeline_add_prefix(tok, tok->bos);
    if (r == 0 && !config_get(config, "add_eos_token") && tok->bos < 0 && tok->eos >= 0)
        r = pipeline_add_suffix(tok, tok->eos);
    return r;
}

static int load_model(struct spm_file *s)
{
    struct inf_tokenizer *tok = s->tok;
    const bool unigram = s->type == MODEL_TYPE_UNIGRAM;
    const int r = spm_init(&tok->spm, &tok->vocab, unigram, false);

    tok->model = unigram ? MODEL_UNIGRAM : MODEL_SPM;
    tok->kind = unigram ? "unigram" : "spm";
    tok->style = STYLE_SPACES;
    tok->dec.each_byte = tok->dec.user_spaces = true;
    tok->spm.byte_fallback = s->byte_fallback;
    tok->spm.unknown = s->unknown;
    tok->spm.single = tok->spm.user_bonus = true;
    return r;
}

int tokenizer_load_spm(const void *data, size_t size, const struct config *config,
                       struct inf_tokenizer **ret_tok, struct inf_err *reterr)
{
    _cleanup_(tokenizer_freep) struct inf_tokenizer *tok = NEW(struct inf_tokenizer, 1);
    struct spm_file s = {.tok = tok,
                         .reterr = reterr,
                         .type = MODEL_TYPE_UNIGRAM,
                         .unknown = -1,
                         .bos = 1,
                         .eos = 2,
                         .pad = -1,
                         .prefix = true,
                         .merge_spaces = true,
                         .escape = true};
    int r;

    if (!tok)
        return -ENOMEM;
    pipeline_init(tok);
    r = load_message(&s, data, size);
    if (r == 0 && s.type != MODEL_TYPE_UNIGRAM && s.type != MODEL_TYPE_BPE)
        r = err_set(reterr, ENOTSUP, "SentencePiece models of type %llu are not supported",
                    (unsigned long long)s.type);
    if (r == 0)
        r = load_model(&s);
    if (r == 0)
        r = load_steps(&s, config);
    if (r == 0)
        r = load_added(&s);
    if (r == 0)
        r = load_around(&s, config);
    if (r == 0)
        r = pipeline_finish(tok);
    if (r == 0)
        r = config_mark_eog(config, tok);
    if (r == -ENOMEM)
        return err_set(reterr, ENOMEM, "out of memory");
    if (r < 0)
        return r;
    *ret_tok = STEAL(tok);
    return 0;
}
