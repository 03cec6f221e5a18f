/* SPDX-License-Identifier: Apache-2.0 */
#include "golden/subject.h"

#include "core/file.h"
#include "lib/test.h"
#include "sched/runner.h"

enum { CHUNK = 10, BLOCK = 64 };

const char *const subject_names[] = {
    "llama-gqa",  "llama3-scaled",    "llama-linear", "llama-yarn", "mistral-window",
    "qwen2-tied", "qwen2-window-mix", "qwen3-norm",   "qwen3-bf16", NULL,
};

void *subject_read(const char *dir, const char *name, size_t *ret_size)
{
    struct inf_err err = {0};
    char *path = path_join(dir, name), *data;

    ASSERT_OK_ERR(file_read(path, 1 << 24, &data, ret_size, &err), err);
    free(path);
    return data;
}

void subject_open(struct subject *s, const char *path)
{
    struct inf_err err = {0};

    ASSERT_OK_ERR(format_open(path, 0, model_archs(), &s->f, &err), err);
    ASSERT_OK_ERR(model_open(s->f, &s->m, &err), err);
    s->graph = NULL;
    if (!model_is_head(s->m))
        ASSERT_OK_ERR(model_build(s->m, &s->graph, &err), err);
}

void subject_open_golden(struct subject *s, const char *name)
{
    char sub[128];

    snprintf(sub, sizeof(sub), "models/%s", name);
    subject_open(s, test_golden(sub));
}

void subject_close(struct subject *s)
{
    graph_free(s->graph);
    model_close(s->m);
    format_close(s->f);
}

struct kv_layout subject_layout(const struct subject *s)
{
    const struct hparams *hp = model_hparams(s->m);
    struct kv_layout layout = kv_layout_full(hp->n_layers, hp->n_kv_heads, hp->head_dim, BLOCK,
                                             CODEC_F16, DIV_UP(SUBJECT_TOKENS, BLOCK));
    const struct state_group *groups;
    uint32_t n;

    groups = graph_groups(s->graph, &n);
    for (uint32_t i = 0; i < n; i++) {
        layout.groups[i] = groups[i];
        layout.n_blocks[i] = groups[i].rule == STATE_RECURRENT ? 2 : DIV_UP(SUBJECT_TOKENS, BLOCK);
    }
    layout.n_groups = MAX(n, 1u);
    return layout;
}

uint32_t subject_n_vocab(const struct subject *s)
{
    return model_hparams(s->m)->n_vocab;
}

struct backend *subject_device(const char *name)
{
    const struct backend_params params = {.device = name, .n_threads = 2};
    struct inf_err err = {0};
    struct backend *b;
    int r;

    r = backend_new(&params, &b, &err);
    if (r == -EOPNOTSUPP) {
        print_message("skipped: %s\n", err.text);
        return NULL;
    }
    ASSERT_OK_ERR(r, err);
    return b;
}

struct backend *subject_cpu(void)
{
    return subject_device("cpu");
}

static int32_t largest(const float *logits, uint32_t n)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

void subject_tell(const struct subject *s, struct backend *backend,
                  int32_t tokens[SUBJECT_TOKENS + 1], float *logits)
{
    const uint32_t n_vocab = subject_n_vocab(s);
    const struct runner_params params = {.graph = s->graph,
                                         .layout = subject_layout(s),
                                         .limits = {CHUNK, CHUNK, 1, SUBJECT_TOKENS},
                                         .n_vocab = n_vocab};
    uint32_t rows[CHUNK];
    struct kv_table table;
    struct runner *r;
    struct inf_err err = {0};

    ASSERT_OK_ERR(runner_new(&backend, &params, &r, &err), err);
    ASSERT_OK(kv_table_init(&table, r->pool, SUBJECT_TOKENS));
    for (uint32_t i = 0; i < CHUNK; i++)
        rows[i] = i;
    for (uint32_t i = 0; i < SUBJECT_PROMPT; i++)
        tokens[i] = (int32_t)((1 + i * 7 + i * i % 5) % n_vocab);
    for (uint32_t pos = 0, n; pos < SUBJECT_TOKENS; pos += n) {
        n = pos < SUBJECT_PROMPT ? MIN(CHUNK, SUBJECT_PROMPT - pos) : 1;
        assert_int_equal(kv_table_extend(&table, n), 0);

        const struct batch_seq seq = kv_table_part(&table, 0, pos, n);
        const struct batch batch = {.n_rows = n,
                                    .tokens = tokens + pos,
                                    .n_seqs = 1,
                                    .seqs = &seq,
                                    .n_logits = n,
                                    .logit_rows = rows};

        ASSERT_OK(runner_forward(r, &batch));
        memcpy(logits + (size_t)pos * n_vocab, r->logits, (size_t)n * n_vocab * sizeof(float));
        if (pos + n >= SUBJECT_PROMPT)
            tokens[pos + n] = largest(runner_logits(r, n - 1), n_vocab);
    }
    kv_table_done(&table);
    runner_free(r);
}
