/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A draft model: a small model that guesses the tokens which a larger model will choose.
 *
 * The draft model has a runner of its own, with its own state of each sequence: a table of blocks
 * in a pool of its own. The state follows the text of the sequence. It can be behind, because
 * tokens are computed only when a draft is wanted, and it can be ahead by drafted tokens. Drafted
 * tokens that the text does not have are dropped before the next draft. Blocks of the pool have the
 * same names as those of the large model, so sequences with the same beginning share them.
 *
 * Drafts of several sequences are made together: one step of the draft model for each position. The
 * draft model chooses tokens exactly as the engine does for the request, with the same penalties
 * and the same random numbers. So a random choice of the large model is guessed as often as the
 * two distributions allow a common choice, and not only as often as the most likely token comes.
 *
 * Instead of a model of its own, the drafter can run the layer of the large model that predicts a
 * further token (model_build_predictor()). A row of this layer needs the hidden state that the
 * large model computed for the token before. The drafter keeps the newest hidden states of each
 * sequence. When it has HIDDEN_ROWS of them, it computes their rows. So the state of the layer is
 * never far behind the text, and the hidden states of long texts need no memory. Rows after drafted
 * tokens get the hidden states of the layer itself, so they are computed again from the true ones
 * when the tokens were accepted. If a text begins with blocks that the drafter has computed for
 * another text, it shares them. Where hidden states are missing, rows are left out: the state then
 * stands for a shorter text. This changes only how often drafts are right.
 *
 * A draft head, which has a file of its own (model_build_head()), is run in the same way. Its first
 * row has the second token of a text and the hidden state of the first token, so its state is one
 * row shorter: `shift` tokens at the beginning of a text have no row. Its logits are those of the
 * few tokens that the head knows. They are put into a row of the logits of all tokens, in which the
 * logits of all other tokens are -infinity. Block i of a head has the name of block i + 1 of the
 * large model, because its last row needs the first token of that block.
 *
 * Some draft heads draft a block of tokens in one step (model_head_block()). A row of the state
 * then needs only the hidden state of its token, so block i of such a head has the name of block i
 * of the large model. Before a block is drafted, the keys and values of new hidden states are
 * stored (runner_store()). The rows of the draft, which are the newest token and the masks, follow
 * them in the table of blocks, and are dropped before the state follows the text again.
 *
 * An assistant is a head that reads the keys and values of the large model, and has no state. It is
 * described in assistant.h.
 *
 * A draft needs free blocks. If there are none, nothing is drafted for the sequence in this step.
 */

#include "core/twister.h"
#include "kv/pool.h"
#include "sample/sampler.h"
#include "sched/runner.h"

struct seq;

/* Hidden states of a sequence that the drafter keeps at most. */
#define HIDDEN_ROWS 128u

/* The state of the draft model for one sequence. All zero: it has none. */
struct seq_model {
    struct kv_table table;
    uint32_t n_kv;      /* tokens of the text that are computed */
    uint32_t n_skipped; /* the number of these tokens that are not in the table; at least `shift`
                           once is_followed is true */
    /* Only for the layer that predicts a further token and for draft heads: the hidden states of
     * the n_held tokens from n_kv - 1 on, [HIDDEN_ROWS, n_hidden]. is_followed: the state has a
     * beginning. */
    float *hidden;
    uint32_t n_held;
    bool is_followed;
    uint32_t n_ahead; /* drafted tokens after them that are computed, too */
    int32_t *ahead;   /* [DRAFT_MAX] */
};

/* The drafted tokens that a step of the scheduler requests for one sequence. */
struct draft_job {
    struct seq *seq;
    uint32_t n_wanted; /* tokens to draft; at least 1 */
    uint32_t n;        /* tokens that were drafted; they stand in seq->tokens after the text */
    uint32_t i_logit;  /* the row of logits of the newest of them */
    /* copies of the sequence's generators of random numbers */
    struct sample_state sampling;
    struct twister draw, xtc;
};

struct drafter {
    struct runner *runner;
    uint32_t n_vocab;        /* tokens that both models have */
    uint32_t n_all;          /* tokens of the large model */
    bool is_narrow;          /* the large model has further tokens */
    uint32_t shift;          /* 1 for a draft head, else 0 */
    uint32_t name_shift;     /* row i of a state has token i + name_shift, so its blocks have the
                                names of blocks that are later by this number */
    uint32_t block;          /* tokens of a block that is drafted in one step, including the token
                                before it; 0: a step drafts one token of each sequence */
    int32_t mask;            /* the token in place of the tokens of a block */
    bool assists;            /* an assistant drafts (assistant.h) */
    const int32_t *token_of; /* borrowed, [runner->n_vocab]: the token of each logit; NULL: logit i
                              is that of token i */
    float *wide;    /* [threads, n_vocab]: rows for all tokens; NULL with `token_of` NULL */
    uint32_t n_ctx; /* limit of the tokens of a text with drafts */
    struct sampler **samplers; /* one per thread of the device */
    struct draft_job *jobs;    /* [max_seqs]: filled by the caller of drafter_draft() */
    double row_usec;           /* time that one more row adds to a step; 0: not measured */
    /* memory of a step */
    int32_t *tokens;         /* [max_rows] */
    float *input;            /* [max_rows, runner->n_hidden]; NULL: the runner has a draft model */
    uint32_t *logit_rows;    /* [max_logits] */
    struct batch_seq *parts; /* [max_seqs] */
    uint32_t *i_jobs;        /* [max_logits]: the job of each row of logits */
    uint32_t n_rows, n_parts, n_logits, n_block_jobs;
    _Atomic uint32_t next_logit; /* the row of logits, or the job with a block, that a thread takes
                                    next */
};

/* Creates a drafter, which takes ownership of *@runner. @n_vocab: the number of tokens of the large
 * model. -ENOMEM; then the caller keeps *@runner. */
int drafter_new(struct runner **runner, uint32_t n_vocab, struct drafter **ret_drafter);
/* Makes @d the drafter of a draft head. @tokens [the width of the logits]: the token of each logit,
 * borrowed; NULL: logit i is that of token i. -ENOMEM. */
int drafter_use_head(struct drafter *d, const int32_t *tokens);
/* Makes @d the drafter of a draft head that drafts blocks of at most @block tokens, with @mask in
 * place of the tokens that are drafted (model_head_block()). The runner has a plan for
 * runner_store(). */
void drafter_use_blocks(struct drafter *d, uint32_t block, int32_t mask);
/* Makes @d the drafter of an assistant, whose runner has the pool of the large model. */
void drafter_use_assistant(struct drafter *d);
/* Returns the largest number of tokens that @d drafts for a sequence. */
uint32_t drafter_max_tokens(const struct drafter *d);
struct drafter *drafter_free(struct drafter *d);
DEFINE_CLEANUP(struct drafter *, drafter_free);

/* Allocates the state of a sequence. Without memory, nothing is drafted for it. */
void drafter_start(struct drafter *d, struct seq *seq);
/* Frees the state of a sequence. */
void drafter_stop(struct seq *seq);
/* Gives back the blocks of a sequence. */
void drafter_drop(struct seq *seq);

/* Takes the hidden states [n, runner->n_hidden] of the tokens of the text from @pos on, which the
 * large model has computed. Does nothing if the drafter does not need them. Returns 0 or the error
 * of the device. */
int drafter_take_hidden(struct drafter *d, struct seq *seq, uint32_t pos, uint32_t n,
                        const float *hidden);

/* Returns whether tokens may be drafted for the sequence after drafter_follow(). */
bool drafter_has_state(const struct drafter *d, const struct seq *seq);
/* Makes the state follow the text: drops drafted tokens that the text does not have, and shares the
 * blocks of known beginnings. Returns the number of tokens, at least 1, that must be computed for
 * the next draft; UINT32_MAX: nothing can be drafted, for example since the text is too long for
 * the draft model. */
uint32_t drafter_follow(struct drafter *d, struct seq *seq);
/* Computes tokens of sequences that are behind, @max_rows in all, in one step; the last token of a
 * text is left to drafter_draft(). @seqs [n]. Returns 0 or the error of the device. */
int drafter_catch_up(struct drafter *d, struct seq **seqs, uint32_t n, uint32_t max_rows);
/* Drafts tokens for the first @n jobs, whose sequences are distinct. Each of them must have been
 * followed since its text changed. *ret_usec [DRAFT_MAX]: the time of each step;
 * *ret_n_seqs [DRAFT_MAX]: how many sequences each step had, or with blocks, how many tokens it
 * drafted; 0: there was no such step. Returns 0 or the error of the device. */
int drafter_draft(struct drafter *d, uint32_t n, uint64_t *ret_usec, uint32_t *ret_n_seqs);
