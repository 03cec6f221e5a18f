/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes prompts for filling in the middle of a text (see fim.h).
 *
 * A GGUF file may name the special tokens in tokenizer.ggml.fim_*_token_id. Otherwise they are
 * found by the names that known families of models use. Mistral's models, whose names are in
 * brackets, were trained with the suffix first, and without a token before the middle. The request
 * may have further files (fim_input.extra). They stand at the beginning of the prompt. If the model
 * has tokens for repositories, the files are in the form of Qwen2.5-Coder (arXiv 2409.12186,
 * section 3.1.3).
 */
#include "chat/api/fim.h"

#include <errno.h>
#include <infer/tokenizer.h>
#include <stdlib.h>
#include <string.h>

#include "core/array.h"
#include "core/text.h"

enum fim_token {
    FIM_PREFIX,
    FIM_SUFFIX,
    FIM_MIDDLE,
    FIM_REPO,
    FIM_FILE,
    N_FIM_TOKENS,
};

#define FIM_MAX_NAMES 8

static const struct {
    const char *keys[2]; /* keys in GGUF files; older files use the second key */
    const char *names[FIM_MAX_NAMES];
} fim_rows[N_FIM_TOKENS] = {
    [FIM_PREFIX] = {{"tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id"},
                    {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<PRE>", "▁<PRE>",
                     "<|code_prefix|>", "<｜fim▁begin｜>", "[PREFIX]"}},
    [FIM_SUFFIX] = {{"tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.suffix_token_id"},
                    {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<SUF>", "▁<SUF>",
                     "<|code_suffix|>", "<｜fim▁hole｜>", "[SUFFIX]"}},
    [FIM_MIDDLE] = {{"tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id"},
                    {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<MID>", "▁<MID>",
                     "<|code_middle|>", "<｜fim▁end｜>", "[MIDDLE]"}},
    [FIM_REPO] = {{"tokenizer.ggml.fim_rep_token_id", NULL},
                  {"<|repo_name|>", "<|fim_repo|>", "<fim-repo>", "<reponame>", "<REPO>"}},
    [FIM_FILE] = {{"tokenizer.ggml.fim_sep_token_id", NULL}, {"<|file_sep|>", "<file_sep>"}},
};

struct fim_prompt {
    int32_t *items;
    size_t n, cap;
};

static void fim_prompt_done(struct fim_prompt *p)
{
    free(p->items);
}

static int32_t fim_find(const struct inf_model *model, enum fim_token kind)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(model);
    const char *key, *value;

    for (size_t i = 0; inf_model_meta(model, i, &key, &value); i++)
        for (unsigned k = 0; k < 2; k++)
            if (fim_rows[kind].keys[k] && strcmp(key, fim_rows[kind].keys[k]) == 0) {
                const long id = strtol(value, NULL, 10);

                return id >= 0 && id < (long)inf_tokenizer_n_vocab(tok) ? (int32_t)id : -1;
            }
    for (unsigned k = 0; k < FIM_MAX_NAMES && fim_rows[kind].names[k]; k++) {
        const char *name = fim_rows[kind].names[k];
        const int32_t id = inf_tokenizer_find(tok, name, strlen(name));

        if (id >= 0)
            return id;
    }
    return -1;
}

/* Returns whether the model is one of Mistral's, which read the suffix first. */
static bool fim_suffix_first(const struct inf_tokenizer *tok, const int32_t *ids)
{
    static const char name[] = "[PREFIX]";
    size_t len = 0;
    const char *text = inf_tokenizer_token_text(tok, ids[FIM_PREFIX], &len);

    return text && len == sizeof(name) - 1 && memcmp(text, name, len) == 0;
}

static int fim_add(struct fim_prompt *p, const int32_t *ids, size_t n)
{
    if (ARRAY_GROW(p->items, p->cap, p->n + n) < 0)
        return -ENOMEM;
    if (n)
        memcpy(p->items + p->n, ids, n * sizeof(*ids));
    p->n += n;
    return 0;
}

/* Adds a special token and the text after it. */
static int fim_add_part(struct fim_prompt *p, int32_t token, const struct fim_prompt *text)
{
    int r = fim_add(p, &token, 1);

    return r < 0 ? r : fim_add(p, text->items, text->n);
}

/* Encodes @text and keeps at most @max tokens: the last ones if @keeps_end is set, or else the
 * first ones. */
static int fim_encode(const struct inf_tokenizer *tok, const json_t *text, size_t max,
                      bool keeps_end, struct fim_prompt *out)
{
    const struct inf_encode_text t = {json_string_value(text), json_string_length(text)};
    struct inf_encoding e = {0};
    int r;

    if (!t.len || !max)
        return 0;
    r = inf_tokenizer_encode_texts(tok, &t, NULL, 0, keeps_end ? INF_CUT_START : INF_CUT_END, max,
                                   &e);
    if (r == 0)
        r = fim_add(out, e.ids, e.n);
    free(e.ids);
    return r;
}

static int fim_add_text(const struct inf_tokenizer *tok, const char *text, struct fim_prompt *out)
{
    _cleanup_free_ int32_t *ids = NULL;
    size_t n = 0;
    int r = inf_tokenizer_encode(tok, text, strlen(text), 0, 0, &ids, &n);

    return r < 0 ? r : fim_add(out, ids, n);
}

/* Adds the further files. @room is the largest number of tokens for all files together. The last
 * files are left out if they do not fit. */
static int fim_add_extra(const struct inf_model *model, const json_t *extra, size_t room,
                         struct fim_prompt *out)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(model);
    const int32_t repo = fim_find(model, FIM_REPO), file = fim_find(model, FIM_FILE);
    const bool has_names = repo >= 0 && file >= 0;
    json_t *chunk;
    size_t i;
    int r = 0;

    if (has_names && json_array_size(extra)) {
        r = fim_add(out, &repo, 1);
        r = r < 0 ? r : fim_add_text(tok, "myproject\n", out);
    }
    json_array_foreach(extra, i, chunk)
    {
        const json_t *name = json_object_get(chunk, "filename");
        _cleanup_(fim_prompt_done) struct fim_prompt part = {0};

        if (r == 0 && has_names) {
            r = fim_add(&part, &file, 1);
            r = r < 0 ? r
                      : fim_add_text(tok, json_is_string(name) ? json_string_value(name) : "tmp",
                                     &part);
            r = r < 0 ? r : fim_add_text(tok, "\n", &part);
        }
        r = r < 0 ? r : fim_encode(tok, json_object_get(chunk, "text"), room + 1, false, &part);
        if (r < 0 || out->n + part.n > room)
            break;
        r = fim_add(out, part.items, part.n);
    }
    if (r == 0 && has_names && json_array_size(extra)) {
        r = fim_add(out, &file, 1);
        r = r < 0 ? r : fim_add_text(tok, "filename\n", out);
    }
    return r;
}

static int fim_make(struct generation *g, const struct fim_input *input, const int32_t *ids,
                    struct fim_prompt *ret)
{
    const struct inf_model *model = g->resident->base.model;
    const struct inf_tokenizer *tok = inf_model_tokenizer(model);
    const size_t n_ctx = inf_engine_n_ctx(g->resident->engine);
    const size_t answer = MIN(input->room ? input->room : n_ctx / 4, n_ctx / 2);
    /* 16 tokens are enough for the three special tokens, BOS, and the names of files. */
    const size_t room = n_ctx > answer + 16 ? n_ctx - answer - 16 : 1;
    const int32_t bos = inf_tokenizer_bos(tok);
    _cleanup_(fim_prompt_done) struct fim_prompt before = {0}, after = {0}, middle = {0};
    int r;

    r = fim_encode(tok, input->middle, room / 2, true, &middle);
    r = r < 0 ? r : fim_encode(tok, input->suffix, room / 4, false, &after);
    r = r < 0 ? r
              : fim_encode(tok, input->prefix, room - MIN(room, middle.n + after.n), true, &before);
    if (r == 0 && inf_tokenizer_adds_bos(tok) && bos >= 0)
        r = fim_add(ret, &bos, 1);
    if (r == 0 && input->extra)
        r = fim_add_extra(model, input->extra, room - MIN(room, middle.n + after.n + before.n),
                          ret);
    if (fim_suffix_first(tok, ids)) {
        r = r < 0 ? r : fim_add_part(ret, ids[FIM_SUFFIX], &after);
        r = r < 0 ? r : fim_add_part(ret, ids[FIM_PREFIX], &before);
        return r < 0 ? r : fim_add(ret, middle.items, middle.n);
    }
    r = r < 0 ? r : fim_add_part(ret, ids[FIM_PREFIX], &before);
    r = r < 0 ? r : fim_add_part(ret, ids[FIM_SUFFIX], &after);
    return r < 0 ? r : fim_add_part(ret, ids[FIM_MIDDLE], &middle);
}

bool fim_is_known(const struct inf_model *model)
{
    return fim_find(model, FIM_PREFIX) >= 0 && fim_find(model, FIM_SUFFIX) >= 0 &&
           fim_find(model, FIM_MIDDLE) >= 0;
}

int fim_prepare(struct generation *g, const struct fim_input *input, struct problem *problem)
{
    struct fim_prompt prompt = {0};
    int32_t ids[N_FIM_TOKENS];

    for (unsigned i = 0; i <= FIM_MIDDLE; i++) {
        ids[i] = fim_find(g->resident->base.model, i);
        if (ids[i] < 0)
            return problem_set(problem, 400,
                               input->field ? "unsupported_parameter" : "unsupported_model",
                               input->field ? input->field : "model",
                               "The model '%s' cannot fill in the middle of a text: its tokenizer "
                               "has no tokens for that.",
                               g->resident->base.name);
    }
    if (fim_make(g, input, ids, &prompt) < 0) {
        free(prompt.items);
        return problem_no_memory(problem);
    }
    return generation_add_tokens(g, prompt.items, prompt.n, problem);
}
