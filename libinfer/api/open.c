/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inf_model_*: opening combines format, model, tokenizer and chat template. A model whose template
 * cannot be parsed still opens: everything except chat works, and info.template_error says why.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infer/chat.h>

#include "api/handle.h"
#include "core/err.h"
#include "core/file.h"
#include "core/guard.h"
#include "graph/graph.h"
#include "quant/dtype.h"

/* Returns the number format of most bytes. */
static enum inf_dtype most_of(const uint64_t bytes[INF_DTYPE_N])
{
    unsigned most = 0;

    for (unsigned d = 1; d < INF_DTYPE_N; d++)
        if (bytes[d] > bytes[most])
            most = d;
    return (enum inf_dtype)most;
}

/* Sets dtype_text to the number formats of the matrices, for example "Q4_K + Q6_K". The format of
 * most bytes comes first, and formats of less than one percent of the bytes are left out. */
static void describe_dtypes(struct inf_model *m, uint64_t bytes[INF_DTYPE_N])
{
    uint64_t total = 0;
    size_t len = 0;

    for (unsigned d = 0; d < INF_DTYPE_N; d++)
        total += bytes[d];
    for (unsigned n = 0; n < INF_DTYPE_N; n++) {
        const enum inf_dtype most = most_of(bytes);

        if (bytes[most] == 0 || (n > 0 && bytes[most] < total / 100))
            break;
        len += (size_t)snprintf(m->dtype_text + len, sizeof(m->dtype_text) - len, "%s%s",
                                n > 0 ? " + " : "", dtype_info(most)->label);
        if (len >= sizeof(m->dtype_text))
            break;
        bytes[most] = 0;
    }
}

static uint64_t tensor_elements(const struct format_tensor *t)
{
    uint64_t n = 1;

    for (uint32_t d = 0; d < t->n_dims; d++)
        n *= t->dims[d];
    return n;
}

static void count_tensors(struct inf_model *m)
{
    uint64_t bytes[INF_DTYPE_N] = {0};

    for (size_t i = 0; i < format_n_tensors(m->format); i++) {
        const struct format_tensor *t = format_tensor_at(m->format, i);

        m->info.n_bytes += t->size;
        if (t->dtype == INF_DTYPE_INVALID)
            continue;
        m->info.n_params += tensor_elements(t);
        if (t->n_dims > 1)
            bytes[t->dtype] += t->size;
    }
    m->info.dtype = most_of(bytes);
    if (m->model)
        model_count_planes(m->model, bytes, &m->info.n_params);
    describe_dtypes(m, bytes);
}

static uint32_t token_width(const struct hparams_embed *e, uint32_t n_embd)
{
    if (!e->late)
        return e->multi_out;
    return e->n_dense > 0 ? e->dense_out[e->n_dense - 1] : n_embd;
}

static void fill_info(struct inf_model *m)
{
    static const struct hparams none;
    const struct hparams *hp = m->format ? format_hparams(m->format) : &none;

    m->info = (struct inf_model_info){
        .arch = hp->arch,
        .name = hp->name,
        .format = m->format ? format_kind(m->format) : "tokenizer",
        .dtype_text = m->dtype_text,
        .n_layers = hp->n_layers,
        .n_embd = hp->n_embd,
        .n_ff = hp->n_ff,
        .n_heads = hp->n_heads,
        .n_kv_heads = hp->n_kv_heads,
        .head_dim = hp->head_dim,
        .n_vocab = hp->n_vocab > 0 ? hp->n_vocab : inf_tokenizer_n_vocab(m->tok),
        .n_ctx_train = hp->n_ctx_train,
        .sliding_window = hp->window,
        .token_width = token_width(&hp->embed, hp->n_embd),
        .template_error = m->template_error[0] ? m->template_error : NULL,
    };
    if (m->format)
        count_tensors(m);
    if (m->model) {
        m->info.n_bytes_token = model_bytes_token(m->model);
        m->info.n_madds_head = model_madds_head(m->model);
        m->info.n_madds_token = model_madds_layers(m->model) + m->info.n_madds_head;
        m->info.tied_head = model_tied_head(m->model);
        m->info.predicts = model_predicts(m->model);
    }
}

static int open_template(struct inf_model *m, const char *given, struct inf_err *reterr)
{
    struct inf_err err = {0};
    const char *text;
    size_t len = 0;
    int r;

    if (given)
        return inf_chat_template_new(given, strlen(given), &m->tmpl, reterr);
    text = m->format ? format_chat_template(m->format, &len) : NULL;
    if (!text)
        return 0;
    r = inf_chat_template_new(text, len, &m->tmpl, &err);
    if (r == -ENOMEM)
        return err_set(reterr, ENOMEM, "out of memory");
    if (r < 0)
        snprintf(m->template_error, sizeof(m->template_error), "%s", err.text);
    return 0;
}

/* Returns whether @path can only be a tokenizer file, because it begins neither like a GGUF file
 * nor like a .bin file of ggml. */
static bool is_lone_tokenizer(const char *path)
{
    return !path_is_dir(path) && file_begins_with(path, "") && !file_begins_with(path, "GGUF") &&
           !ggml_bin_probe(path);
}

static int list_files(struct inf_model *m, struct inf_err *reterr)
{
    size_t n = 0;

    while (format_file(m->format, n))
        n++;
    m->maps = NEW(const struct file_map *, n);
    if (!m->maps)
        return err_set(reterr, ENOMEM, "out of memory");
    for (; m->n_maps < n; m->n_maps++)
        m->maps[m->n_maps] = format_file(m->format, m->n_maps);
    return 0;
}

static int open_parts(struct inf_model *m, const struct inf_model_params *p, struct inf_err *reterr)
{
    int r;

    if (p->vocab_only && is_lone_tokenizer(p->path))
        return tokenizer_open_file(p->path, &m->tok, reterr);
    r = format_open(p->path, p->vocab_only ? FORMAT_VOCAB_ONLY : 0, model_archs(), &m->format,
                    reterr);
    if (r == 0)
        r = list_files(m, reterr);
    if (r < 0)
        return r;
    if (!p->vocab_only) {
        r = format_whisper(m->format) ? whisper_model_open(m->format, &m->whisper, reterr)
                                      : model_open(m->format, &m->model, reterr);
        if (r < 0)
            return r;
    }
    if (p->progress)
        p->progress(p->progress_data, 0.2);
    r = tokenizer_open(m->format, &m->tok, reterr);
    /* The directories of draft heads have no tokenizer: the heads use that of their target. */
    return r == -ENOENT && m->model && model_is_head(m->model) ? 0 : r;
}

int inf_model_open(const struct inf_model_params *params, struct inf_model **ret_model,
                   struct inf_err *reterr)
{
    struct inf_model *m;
    int r;

    if (!params || !params->path || !params->path[0] || !ret_model)
        return err_set(reterr, EINVAL, "no path was given");
    m = NEW(struct inf_model, 1);
    if (!m)
        return err_set(reterr, ENOMEM, "out of memory");
    atomic_init(&m->n_refs, 1);
    r = open_parts(m, params, reterr);
    if (r == 0)
        r = open_template(m, params->chat_template, reterr);
    if (r == 0)
        r = inf_model_check(m, reterr);
    if (r < 0) {
        inf_model_unref(m);
        return r;
    }
    fill_info(m);
    if (params->progress)
        params->progress(params->progress_data, 1);
    *ret_model = m;
    return 0;
}

int model_refuse_text(const struct inf_model *m, struct inf_err *reterr)
{
    return err_set(reterr, EINVAL, "%s",
                   m->whisper ? "this model only transcribes speech"
                              : "only the vocabulary of this model was opened");
}

static int generate_check(struct inf_model *m, struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *g = NULL;

    return model_build(m->model, &g, reterr);
}

int inf_model_suits(struct inf_model *m, enum inf_model_use use, struct inf_err *reterr)
{
    assert(m);
    if (use == INF_USE_SPEECH)
        return m->whisper ? 0 : err_set(reterr, EOPNOTSUPP, "it does not transcribe speech");
    if (!m->model)
        return err_set(reterr, EOPNOTSUPP, "%s",
                       m->whisper ? "it only transcribes speech"
                                  : "only its vocabulary was opened");
    return use == INF_USE_GENERATE ? generate_check(m, reterr) : embed_check(m, use, reterr);
}

struct inf_model *inf_model_ref(struct inf_model *m)
{
    const unsigned old = atomic_fetch_add_explicit(&m->n_refs, 1, memory_order_relaxed);

    assert(old > 0);
    return m;
}

struct inf_model *inf_model_unref(struct inf_model *m)
{
    if (!m || atomic_fetch_sub_explicit(&m->n_refs, 1, memory_order_acq_rel) > 1)
        return NULL;
    inf_chat_template_free(m->tmpl);
    tokenizer_free(m->tok);
    whisper_model_close(m->whisper);
    model_close(m->model);
    free(m->maps);
    format_close(m->format);
    free(m);
    return NULL;
}

int inf_files_guard(void)
{
    return guard_install();
}

int inf_model_check(const struct inf_model *m, struct inf_err *reterr)
{
    const struct file_set files = model_files(m);

    return file_set_check(&files, reterr);
}

const struct inf_model_info *inf_model_info(const struct inf_model *m)
{
    return &m->info;
}

const struct inf_tokenizer *inf_model_tokenizer(const struct inf_model *m)
{
    return m->tok;
}

const struct inf_chat_template *inf_model_chat_template(const struct inf_model *m)
{
    return m->tmpl;
}

static struct inf_type_count *type_find(struct inf_type_count *types, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(types[i].type, name) == 0)
            return &types[i];
    return NULL;
}

static int type_compare(const void *a, const void *b)
{
    const struct inf_type_count *x = a, *y = b;

    return x->n_bytes != y->n_bytes ? (x->n_bytes < y->n_bytes) - (x->n_bytes > y->n_bytes)
                                    : strcmp(x->type, y->type);
}

size_t inf_model_types(const struct inf_model *m, struct inf_type_count dst[INF_MAX_TYPES])
{
    const size_t n_tensors = m->format ? format_n_tensors(m->format) : 0;
    size_t n = 0;

    for (size_t i = 0; i < n_tensors; i++) {
        const struct format_tensor *t = format_tensor_at(m->format, i);
        struct inf_type_count *type = type_find(dst, n, t->type_name);

        if (!type && n == INF_MAX_TYPES)
            continue;
        if (!type) {
            type = &dst[n++];
            *type = (struct inf_type_count){.type = t->type_name};
        }
        type->n_tensors++;
        type->n_elements += tensor_elements(t);
        type->n_bytes += t->size;
    }
    qsort(dst, n, sizeof(*dst), type_compare);
    return n;
}

bool inf_model_meta(const struct inf_model *m, size_t i, const char **ret_key,
                    const char **ret_value)
{
    return m->format && format_meta(m->format, i, ret_key, ret_value);
}
