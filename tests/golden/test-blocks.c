/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares draft heads that draft blocks with what make_blocks.py computed, in both forms: a
 * directory and a GGUF file.
 */
#include <errno.h>

#include "core/macros.h"
#include "golden/export-case.h"
#include "golden/subject.h"
#include "lib/test.h"

static const struct export_pair pairs[] = {{"dflash-qwen2", "qwen2-window-mix"},
                                           {"dflash-gemma3", "gemma3"},
                                           {"dflash-qwen3_5", "qwen3_5"}};

/* Stores the keys and values of rows @pos … @end - 1. */
static void store_rows(struct runner *r, const struct kv_table *table, const int32_t *tokens,
                       uint32_t pos, uint32_t end, const float *hidden)
{
    const struct batch_seq seq = kv_table_part(table, 0, pos, end - pos);
    const struct batch batch = {.n_rows = end - pos,
                                .tokens = tokens + pos,
                                .n_seqs = 1,
                                .seqs = &seq,
                                .input = hidden + (size_t)pos * r->n_hidden};

    ASSERT_OK(runner_store(r, &batch));
}

/* Computes a block of @n_rows rows after the first @n_text tokens. Returns its logits, [n_rows - 1,
 * n_vocab]. */
static const float *run_block(struct runner *r, const int32_t *tokens, uint32_t n_text,
                              uint32_t n_rows, int32_t mask, const float *hidden)
{
    int32_t own[EXPORT_TOKENS];
    uint32_t rows[EXPORT_TOKENS];
    struct kv_table table;

    ASSERT_OK(kv_table_init(&table, r->pool, EXPORT_TOKENS));
    assert_int_equal(kv_table_extend(&table, n_text + n_rows), 0);
    if (n_text > 1)
        store_rows(r, &table, tokens, 0, n_text / 2, hidden);
    store_rows(r, &table, tokens, n_text / 2, n_text, hidden);
    for (uint32_t i = 0; i < n_rows; i++) {
        own[i] = i == 0 ? tokens[n_text] : mask;
        rows[i] = i + 1;
    }

    const struct batch_seq seq = kv_table_part(&table, 0, n_text, n_rows);
    const struct batch batch = {.n_rows = n_rows,
                                .tokens = own,
                                .n_seqs = 1,
                                .seqs = &seq,
                                .n_logits = n_rows - 1,
                                .logit_rows = rows};

    ASSERT_OK(runner_forward(r, &batch));
    kv_table_done(&table);
    return r->logits;
}

/* Compares the head at @path with the numbers in the directory @dir. */
static void compare(const char *path, const char *dir, const char *target_dir)
{
    size_t n_tokens, n_blocks, n_drafted, at = 0;
    int32_t *tokens = subject_read(target_dir, "tokens.bin", &n_tokens);
    int32_t *blocks = subject_read(dir, "blocks.bin", &n_blocks);
    float *drafted = subject_read(dir, "drafted.bin", &n_drafted);
    struct graph *tapped, *graph, *store;
    struct inf_err err = {0};
    struct subject target, head;
    int32_t mask = 0;

    subject_open(&target, target_dir);
    subject_open(&head, path);
    ASSERT_STREQ(model_head_kind(head.m), "dflash");
    ASSERT_OK_ERR(model_head_fits(head.m, target.m, &err), err);
    ASSERT_OK_ERR(model_build_tapped(target.m, head.m, &tapped, &err), err);
    ASSERT_OK_ERR(model_build_head(head.m, target.m, &graph, &err), err);
    ASSERT_OK_ERR(model_build_store(head.m, &store, &err), err);

    const uint32_t n = (uint32_t)(n_tokens / sizeof(*tokens)), n_vocab = subject_n_vocab(&target),
                   width = model_hparams(head.m)->n_embd;
    const uint32_t n_rows = model_head_block(head.m, &mask);
    struct runner *model = export_runner(target.m, tapped, n_vocab, width);
    struct runner *drafter = export_runner(head.m, graph, n_vocab, width);
    float *hidden = NEW(float, (size_t)n *width);

    ASSERT_OK_ERR(runner_add_store(drafter, store, &err), err);
    export_forward(model, tokens, n, 25, NULL, NULL, hidden);
    for (size_t i = 0; i < n_blocks / sizeof(*blocks); i += 2) {
        const uint32_t rows = (uint32_t)blocks[i + 1];
        const size_t n_own = (size_t)(rows - 1) * n_vocab;
        const float *made = run_block(drafter, tokens, (uint32_t)blocks[i], rows, mask, hidden);

        assert_true(rows <= n_rows);
        assert_true((at + n_own) * sizeof(float) <= n_drafted);
        assert_true(export_nmse(made, drafted + at, n_own) < 1e-9);
        at += n_own;
    }
    assert_int_equal(at * sizeof(float), n_drafted);
    runner_free(model);
    runner_free(drafter);
    graph_free(tapped);
    graph_free(graph);
    graph_free(store);
    subject_close(&head);
    subject_close(&target);
    free(hidden);
    free(tokens);
    free(blocks);
    free(drafted);
}

TEST(blocks_are_what_the_formulas_say)
{
    export_pairs(pairs, ARRAY_SIZE(pairs), compare);
}

/* Checks that the head @name is refused for the model @target with a message that has @reason. */
static void check_refused(const char *name, const char *target_name, const char *reason)
{
    struct inf_err err = {0};
    struct subject head, target;

    subject_open_golden(&head, name);
    subject_open_golden(&target, target_name);
    assert_int_equal(model_head_fits(head.m, target.m, &err), -EINVAL);
    assert_non_null(strstr(err.text, reason));
    subject_close(&head);
    subject_close(&target);
}

TEST(heads_of_other_models_are_refused)
{
    check_refused("dflash-qwen2", "gemma3", "models of width 32, but the model has width 16");
    check_refused("dflash-qwen2", "qwen2-tied", "reads layer 2, but the model has 2 layers");
}

RUN_TESTS(cmocka_unit_test(blocks_are_what_the_formulas_say),
          cmocka_unit_test(heads_of_other_models_are_refused))
