/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs Whisper's decoder: memories and texts are tables of one pool of KV blocks.
 */
#include "transcribe/decode-texts.h"

#include <errno.h>
#include <string.h>

#include "core/err.h"

enum { BLOCK_TOKENS = 64 };

/* Makes a pool with blocks for all memories and texts. A text may need one more block, for a copy
 * of its last block if other texts share that block. */
static int make_pool(struct decode *d)
{
    const struct decode_params *p = &d->params;
    const struct whisper_text_shape *s = whisper_decoder_shape(p->decoder);
    const uint32_t n_blocks = p->max_memories * DIV_UP(p->n_audio, BLOCK_TOKENS) +
                              p->max_texts * (DIV_UP(s->n_ctx, BLOCK_TOKENS) + 1);
    const struct kv_layout layout = kv_layout_full(s->n_layers, s->n_heads, s->n_embd / s->n_heads,
                                                   BLOCK_TOKENS, p->codec, n_blocks);

    return kv_pool_new(p->backend, &layout, &d->pool);
}

static int make_arrays(struct decode *d)
{
    const struct decode_params *p = &d->params;

    d->seqs = NEW(struct batch_seq, p->max_texts);
    d->tokens = NEW(int32_t, p->max_rows);
    d->logit_rows = NEW(uint32_t, p->max_logits);
    d->zeros = NEW(int32_t, p->n_audio);
    return d->seqs && d->tokens && d->logit_rows && d->zeros ? 0 : -ENOMEM;
}

static int compile_plan(struct decode *d, const struct graph *g, const struct plan_limits *limits,
                        struct plan **ret_plan, struct inf_err *reterr)
{
    return d->params.backend->ops->compile(d->params.backend, g, limits, kv_pool_store(d->pool),
                                           ret_plan, reterr);
}

static int make_plans(struct decode *d, struct inf_err *reterr)
{
    const struct decode_params *p = &d->params;
    const struct plan_limits memory = {.max_rows = p->n_audio,
                                       .max_logits = 1,
                                       .max_seqs = 1,
                                       .max_ctx = p->n_audio,
                                       .many_rows = true};
    const struct plan_limits text = {
        .max_rows = p->max_rows,
        .max_logits = p->max_logits,
        .max_seqs = p->max_texts,
        .max_ctx = MAX(p->n_audio, whisper_decoder_shape(p->decoder)->n_ctx),
    };
    _cleanup_(graph_freep) struct graph *of_memory = NULL, *of_text = NULL, *copy = NULL;
    int r;

    r = whisper_memory_graph(p->decoder, &of_memory, reterr);
    if (r == 0 && p->weights)
        r = reformat_graph(p->backend, of_memory, p->weights, &copy, reterr);
    if (r == 0)
        r = whisper_decoder_graph(p->decoder, p->kept.masks ? &p->kept : NULL, &of_text, reterr);
    if (r == 0)
        r = compile_plan(d, copy ? copy : of_memory, &memory, &d->memory_plan, reterr);
    return r == 0 ? compile_plan(d, of_text, &text, &d->plan, reterr) : r;
}

int decode_init(struct decode *d, const struct decode_params *params, struct inf_err *reterr)
{
    d->params = *params;
    if (make_pool(d) < 0 || make_arrays(d) < 0)
        return err_set(reterr, ENOMEM, "no memory for %u texts", params->max_texts);
    return make_plans(d, reterr);
}

void decode_done(struct decode *d)
{
    struct backend *b = d->params.backend;

    if (d->plan)
        b->ops->plan_free(b, d->plan);
    if (d->memory_plan)
        b->ops->plan_free(b, d->memory_plan);
    kv_pool_free(d->pool);
    free(d->seqs);
    free(d->tokens);
    free(d->logit_rows);
    free(d->zeros);
    *d = (struct decode){0};
}

int decode_memory_init(struct decode *d, struct kv_table *memory)
{
    return kv_table_init(memory, d->pool, d->params.n_audio);
}

int decode_text_init(struct decode *d, struct kv_table *text)
{
    return kv_table_init(text, d->pool, whisper_decoder_shape(d->params.decoder)->n_ctx);
}

/* Extends a table by @n positions. This cannot fail, because the pool has enough blocks for the
 * maximum number of tables. */
static void extend_table(struct kv_table *table, uint32_t n)
{
    const int r = kv_table_extend(table, n);

    assert(r == 0);
    (void)r;
}

int decode_remember(struct decode *d, struct kv_table *memory, const float *rows)
{
    const uint32_t n = d->params.n_audio;
    struct batch_seq seq = {.n_rows = n};
    const struct batch batch = {
        .n_rows = n, .tokens = d->zeros, .n_seqs = 1, .seqs = &seq, .input = rows};

    kv_table_truncate(memory, 0);
    extend_table(memory, n);
    seq.blocks[0] = memory->blocks[0];
    seq.n_blocks = memory->n_blocks;
    return d->params.backend->ops->run(d->params.backend, d->memory_plan, kv_pool_store(d->pool),
                                       &batch, NULL, NULL);
}

/* Appends the rows of one text to the batch. */
static void add_item(struct decode *d, const struct decode_item *item, struct batch *batch)
{
    struct batch_seq *seq = &d->seqs[batch->n_seqs++];
    const uint32_t first = batch->n_rows;

    *seq = (struct batch_seq){.i_row = first,
                              .n_rows = item->n_tokens,
                              .pos = item->text->n_tokens,
                              .memory = item->memory->blocks[0],
                              .n_memory = item->memory->n_tokens};
    extend_table(item->text, item->n_tokens);
    seq->blocks[0] = item->text->blocks[0];
    seq->n_blocks = item->text->n_blocks;
    memcpy(d->tokens + first, item->tokens, item->n_tokens * sizeof(*d->tokens));
    batch->n_rows += item->n_tokens;
    if (item->i_first_logit >= 0)
        d->logit_rows[batch->n_logits++] = first + (uint32_t)item->i_first_logit;
    for (uint32_t i = item->n_tokens - item->n_logits; i < item->n_tokens; i++)
        d->logit_rows[batch->n_logits++] = first + i;
    assert(batch->n_rows <= d->params.max_rows && batch->n_logits <= d->params.max_logits);
}

int decode_run(struct decode *d, const struct decode_item *items, uint32_t n, float *logits,
               const struct decode_scores *scores)
{
    struct batch batch = {.tokens = d->tokens, .seqs = d->seqs, .logit_rows = d->logit_rows};

    assert(n <= d->params.max_texts);
    for (uint32_t i = 0; i < n; i++)
        add_item(d, &items[i], &batch);
    if (scores) {
        batch.kept = scores->kept;
        batch.i_kept = scores->i_kept;
        batch.n_kept = scores->n_kept;
        batch.kept_tokens = scores->kept_tokens;
        batch.kept_row = scores->kept_row;
        batch.kept_head = scores->kept_head;
    }
    return d->params.backend->ops->run(d->params.backend, d->plan, kv_pool_store(d->pool), &batch,
                                       logits, NULL);
}
