/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a GGUF file as a model. The names of its tensors are the canonical names (format.h), except
 * for those of dense layers.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/file.h"
#include "core/str.h"
#include "core/utf8.h"
#include "format/gguf/hparams.h"
#include "format/impl.h"

/* Longer texts, such as templates and licenses, are truncated. */
#define META_MAX_TEXT  1024
#define META_MAX_ELEMS 8

static int put_text(struct str *s, struct gguf_str text)
{
    const size_t n = utf8_valid_prefix(text.data, MIN(text.len, (uint64_t)META_MAX_TEXT));
    int r;

    r = str_append(s, text.data, n);
    return r == 0 && n < text.len ? str_puts(s, "…") : r;
}

static int put_scalar(struct str *s, const struct gguf_value *v, uint64_t i)
{
    switch (v->elem) {
    case GGUF_STRING:
        return put_text(s, gguf_string_at(v, i));
    case GGUF_BOOL:
        return str_puts(s, v->data[i] ? "true" : "false");
    case GGUF_F32:
    case GGUF_F64:
        return str_printf(s, "%.9g", gguf_elem_f64(v, i));
    case GGUF_U64:
        return str_printf(s, "%" PRIu64, (uint64_t)gguf_elem_i64(v, i));
    default:
        return str_printf(s, "%" PRId64, gguf_elem_i64(v, i));
    }
}

static int put_array(struct str *s, const struct gguf_value *v)
{
    int r = str_putc(s, '[');

    for (uint64_t i = 0; r == 0 && i < MIN(v->n, (uint64_t)META_MAX_ELEMS); i++) {
        if (i > 0)
            r = str_puts(s, ", ");
        if (r == 0)
            r = put_scalar(s, v, i);
    }
    if (r == 0 && v->n > META_MAX_ELEMS)
        r = str_printf(s, ", … (%" PRIu64 ")", v->n);
    return r == 0 ? str_putc(s, ']') : r;
}

static int read_meta(struct format *f, struct inf_err *reterr)
{
    const size_t n = gguf_n_values(f->gguf);
    _cleanup_str_ struct str s = {0};

    f->meta = arena_zalloc(&f->arena, MAX(n, 1u) * sizeof(*f->meta));
    if (!f->meta)
        return err_set(reterr, ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const struct gguf_value *v = gguf_value_at(f->gguf, i);

        str_clear(&s);
        if ((v->type == GGUF_ARRAY ? put_array(&s, v) : put_scalar(&s, v, 0)) < 0)
            return err_set(reterr, ENOMEM, "out of memory");
        f->meta[i].key = v->key;
        f->meta[i].value = arena_strndup(&f->arena, s.data ? s.data : "", s.len);
        if (!f->meta[i].value)
            return err_set(reterr, ENOMEM, "out of memory");
    }
    f->n_meta = n;
    return 0;
}

/* Adds a tensor. The dense layers after the pooling get their canonical names; all other tensors
 * have them already. */
static int add_tensor(struct format *f, const struct format_tensor *raw, struct inf_err *reterr)
{
    static const char *const names[][2] = {{"dense_2.weight", "dense.0.weight"},
                                           {"dense_3.weight", "dense.1.weight"}};
    struct format_tensor *t;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (strcmp(raw->name, names[i][0]) != 0)
            continue;
        t = arena_alloc(&f->arena, sizeof(*t));
        if (!t)
            return err_set(reterr, ENOMEM, "out of memory");
        *t = *raw;
        t->name = names[i][1];
        return format_add(f, t, reterr);
    }
    return format_add(f, raw, reterr);
}

int format_read_gguf(struct format *f, const char *path, unsigned flags, struct inf_err *reterr)
{
    const bool vocab_only = flags & FORMAT_VOCAB_ONLY;
    struct gguf_str text;
    int r;

    r = vocab_only ? gguf_open_part(path, &f->gguf, reterr) : gguf_open(path, &f->gguf, reterr);
    if (r < 0)
        return r;
    if (format_is_whisper_gguf(f)) {
        r = format_read_whisper_gguf(f, path, reterr);
        return r < 0 ? r : read_meta(f, reterr);
    }
    r = gguf_hparams(f->gguf, f->archs, &f->hp, &f->desc, vocab_only ? NULL : reterr);
    if (r < 0 && !vocab_only) {
        err_prefix(reterr, "%.96s", path_base(path));
        return r;
    }
    if (r < 0)
        gguf_hparams_names(f->gguf, &f->hp);
    r = format_reserve(f, gguf_n_tensors(f->gguf), reterr);
    for (size_t i = 0; r == 0 && i < gguf_n_tensors(f->gguf); i++)
        r = add_tensor(f, gguf_tensor_at(f->gguf, i), reterr);
    if (r < 0)
        return r;
    if (gguf_string(f->gguf, "tokenizer.chat_template", &text)) {
        f->chat_template = text.data;
        f->chat_template_len = text.len;
    }
    return read_meta(f, reterr);
}
