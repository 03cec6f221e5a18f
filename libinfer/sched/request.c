/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates and frees requests and sequences.
 */
#include "sched/request.h"

#include <errno.h>
#include <infer/tokenizer.h>
#include <math.h>
#include <string.h>
#include <sys/random.h>

#include "core/clock.h"
#include "core/hash.h"

static uint64_t random_seed(void)
{
    uint64_t seed;

    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) == sizeof(seed))
        return seed;
    seed = clock_nsec();
    return hash_bytes((uint64_t)getpid(), &seed, sizeof(seed));
}

static int prompt_logprobs_init(struct prompt_logprobs *plp, const struct request *r)
{
    const size_t n_top = (size_t)r->n_prompt * r->n_top;

    plp->tokens = NEW(struct output_token, r->n_prompt);
    plp->top = NEW(struct inf_top_logprob, n_top);
    if (!plp->tokens || !plp->top)
        return -ENOMEM;
    plp->tokens[0] = (struct output_token){.token = r->prompt[0], .logprob = NAN};
    plp->n_done = 1;
    return 0;
}

/* Copies @n tokens to a new array, and leaves room for @n_before tokens before them. */
static int copy_tokens(const int32_t *tokens, size_t n, size_t n_before, int32_t **ret_copy)
{
    int32_t *copy = NEW(int32_t, n_before + n);

    if (!copy)
        return -ENOMEM;
    if (n > 0)
        memcpy(copy + n_before, tokens, n * sizeof(*tokens));
    *ret_copy = copy;
    return 0;
}

/* Copies the rules that decide where texts end and which tokens are visible. */
static int copy_rules(struct request *r, const struct inf_request *in,
                      const struct request_limits *limits)
{
    int k;

    k = stop_set_init(&r->stops, in->stops, in->n_stops);
    if (k < 0)
        return k;
    k = copy_tokens(in->stop_tokens, in->n_stop_tokens, limits->n_eog, &r->ends);
    if (k < 0)
        return k;
    r->n_eog = limits->n_eog;
    r->n_ends = limits->n_eog + (uint32_t)in->n_stop_tokens;
    for (uint32_t i = 0; i < limits->n_eog; i++)
        r->ends[i] = limits->eog[i];
    k = copy_tokens(in->shown_tokens, in->n_shown_tokens, 0, &r->shown);
    if (k < 0)
        return k;
    r->n_shown = (uint32_t)in->n_shown_tokens;
    if (in->grammar)
        r->grammar = inf_grammar_ref(in->grammar);
    return channel_init(&r->channel, &in->channel);
}

static void init_seqs(struct request *r, const struct inf_sampling *sampling)
{
    const uint64_t seed = sampling->has_seed ? sampling->seed : random_seed();

    for (uint32_t i = 0; i < r->n_choices; i++) {
        r->seqs[i].req = r;
        r->seqs[i].choice = i;
        r->seqs[i].n_tokens = r->n_prompt;
        r->seqs[i].stop_token = -1;
        sample_state_init(&r->seqs[i].sampling, &r->sampling, seed + i);
        channel_start(&r->channel, &r->seqs[i].channel);
    }
}

/* Returns the text of a token for the sampler. */
static const char *request_token_text(const void *tok, int32_t token, size_t *ret_len)
{
    const char *text = inf_tokenizer_token_text(tok, token, ret_len);

    if (!text || (inf_tokenizer_token_flags(tok, token) & INF_TOKEN_SPECIAL) != 0)
        *ret_len = 0;
    return text;
}

int request_new(const struct inf_request *in, const struct request_limits *limits,
                struct request **ret_request)
{
    _cleanup_(request_freep) struct request *r = NULL;
    const uint32_t n_choices = MAX(in->n_choices, 1);
    uint32_t room;
    int k;

    assert(in->n_tokens > 0 && in->n_tokens < limits->n_ctx && in->n_logprobs <= SAMPLE_MAX_TOP);
    r = calloc(1, sizeof(*r) + n_choices * sizeof(r->seqs[0]));
    if (!r)
        return -ENOMEM;
    room = limits->n_ctx - (uint32_t)in->n_tokens;
    r->user = in->user;
    r->n_prompt = (uint32_t)in->n_tokens;
    r->max_tokens = in->max_tokens;
    r->min_tokens = in->min_tokens;
    if (in->max_tokens > 0 && !(in->channel.n_close > 0 && in->channel.beside_length))
        room = MIN(in->max_tokens, room);
    r->max_total = r->n_prompt + room;
    r->submit_usec = clock_usec();
    r->ignore_eos = in->ignore_eos;
    r->show_special = in->show_special;
    r->max_draft = in->n_draft == INF_NO_DRAFT ? 0 : in->n_draft > 0 ? in->n_draft : DRAFT_MAX;
    r->max_draft = MIN(r->max_draft, DRAFT_MAX);
    r->min_draft = in->min_draft;
    r->min_chance = in->draft_p_min;
    r->want_logprobs = in->n_logprobs >= 0;
    r->want_prompt_logprobs = in->prompt_logprobs;
    r->want_progress = in->progress;
    r->n_top = in->n_logprobs > 0 ? (uint32_t)in->n_logprobs : 0;
    r->n_choices = r->n_live = n_choices;

    k = copy_tokens(in->tokens, in->n_tokens, 0, &r->prompt);
    if (k < 0)
        return k;
    k = sample_params_init(&r->sampling, &in->sampling);
    if (k < 0)
        return k;
    r->sampling.post_logprobs = in->post_logprobs && r->want_logprobs;
    r->sampling.vocab =
        (struct sample_vocab){limits->eog, limits->n_eog, request_token_text, limits->tok};
    k = copy_rules(r, in, limits);
    if (k < 0)
        return k;
    if (r->want_prompt_logprobs) {
        k = prompt_logprobs_init(&r->plp, r);
        if (k < 0)
            return k;
    }
    init_seqs(r, &in->sampling);
    *ret_request = STEAL(r);
    return 0;
}

int request_name_blocks(struct request *r, const struct inf_request *in,
                        const struct kv_name *origin, uint32_t block_tokens)
{
    const uint32_t n = r->n_prompt / block_tokens;

    r->names = NEW(struct kv_name, n);
    if (!r->names)
        return -ENOMEM;
    kv_name_root(origin, in->cache_tenant, in->cache_salt, in->cache_salt_len, &r->root);
    kv_name_blocks(&r->root, r->prompt, block_tokens, n, r->names);
    r->n_names = n;
    r->block_tokens = block_tokens;
    r->has_names = true;
    return 0;
}

int request_name_owner(struct request *r, const struct inf_request *in)
{
    r->owner = tier_owner_new(in->cache_tenant, in->session);
    return r->owner ? 0 : -ENOMEM;
}

struct request *request_free(struct request *r)
{
    if (!r)
        return NULL;
    for (uint32_t i = 0; i < r->n_choices; i++)
        seq_stop(&r->seqs[i]);
    free(r->prompt);
    free(r->names);
    tier_owner_unref(r->owner);
    sample_params_done(&r->sampling);
    stop_set_done(&r->stops);
    free(r->ends);
    free(r->shown);
    channel_done(&r->channel);
    inf_grammar_unref(r->grammar);
    free(r->plp.tokens);
    free(r->plp.top);
    free(r);
    return NULL;
}

static int start_names(struct seq *s)
{
    const struct request *req = s->req;

    if (!req->has_names)
        return 0;
    s->names = NEW(struct kv_name, req->max_total / req->block_tokens);
    if (!s->names)
        return -ENOMEM;
    memcpy(s->names, req->names, req->n_names * sizeof(*s->names));
    s->n_names = req->n_names;
    return 0;
}

static int start_tokens(struct seq *s, struct kv_pool *pool)
{
    const struct request *req = s->req;
    int r;

    s->tokens = NEW(int32_t, req->max_total);
    if (!s->tokens)
        return -ENOMEM;
    memcpy(s->tokens, req->prompt, req->n_prompt * sizeof(*s->tokens));
    r = start_names(s);
    return r < 0 ? r : kv_table_init(&s->table, pool, req->max_total);
}

/* Allocates the memory that a sequence needs to choose tokens and to turn them into text. */
static int start_text(struct seq *s, const struct inf_tokenizer *tok)
{
    const struct request *req = s->req;
    const struct output_params params = {
        .tok = tok,
        .stops = &req->stops,
        .show_special = req->show_special,
        .shown = req->shown,
        .n_shown = req->n_shown,
        .n_top = req->n_top,
        .prompt = req->prompt,
        .n_prompt = req->n_prompt,
    };
    int r;

    r = sample_state_start(&s->sampling, &req->sampling, req->max_total);
    if (r < 0)
        return r;
    r = mask_init(&s->mask, req->grammar, inf_tokenizer_n_vocab(tok));
    return r < 0 ? r : output_init(&s->output, &params);
}

int seq_start(struct seq *s, struct kv_pool *pool, const struct inf_tokenizer *tok)
{
    int r;

    assert(!s->started && s->state == SEQ_WAITING);
    r = start_tokens(s, pool);
    if (r < 0) {
        free(STEAL(s->tokens));
        free(STEAL(s->names));
        return r;
    }
    s->started = true;
    r = start_text(s, tok);
    if (r < 0)
        seq_stop(s);
    return r;
}

void seq_stop_fetch(struct seq *s)
{
    s->fetch = fetch_drop(s->fetch);
    free(s->landing);
    s->landing = NULL;
    s->loading = false;
}

/* Frees the memory for drafts. */
static void seq_drop_draft(struct seq *s)
{
    drafter_stop(s);
    suffix_free(s->draft.own);
    for (uint32_t i = 0; s->draft.masks && i < DRAFT_MAX; i++)
        mask_done(&s->draft.masks[i]);
    free(s->draft.masks);
    s->draft.masks = NULL;
    s->draft.own = NULL;
    s->draft.wanted = false;
}

void seq_stop(struct seq *s)
{
    seq_stop_fetch(s);
    if (!s->started)
        return;
    kv_table_done(&s->table);
    output_done(&s->output);
    mask_done(&s->mask);
    seq_drop_draft(s);
    sample_state_stop(&s->sampling);
    free(STEAL(s->tokens));
    free(STEAL(s->names));
    s->started = false;
}

void seq_end(struct seq *s, enum inf_finish finish, const char *error)
{
    assert(s->state != SEQ_ENDED);
    s->state = SEQ_ENDED;
    s->finish = finish;
    s->error = error;
}

/* A grammar takes precedence over the tokens that this function finds: if it permits only the end
 * of the text, the text ends even if EOS is ignored or the text is too short (see
 * pick_from_row()). */
void seq_forbidden(const struct seq *s, uint32_t n_generated, enum channel_place place,
                   struct sample_text *text)
{
    const struct request *req = s->req;
    const bool eog_ends = !req->ignore_eos || s->mask.matcher;
    uint32_t first = 0, end = 0;

    if (n_generated < req->min_tokens) {
        first = eog_ends ? 0 : req->n_eog;
        end = place == CHANNEL_BEHIND ? req->n_ends : req->n_eog;
    } else if (req->ignore_eos && s->mask.matcher) {
        end = req->n_eog;
    }
    text->forbidden = req->ends + first;
    text->n_forbidden = end > first ? end - first : 0;
}

const struct kv_name *seq_names(const struct seq *s, uint32_t *ret_n)
{
    *ret_n = s->started ? s->n_names : s->req->n_names;
    return s->started ? s->names : s->req->names;
}

void seq_make_names(struct seq *s, uint32_t n_tokens)
{
    const uint32_t block_tokens = s->req->block_tokens;
    uint32_t n;

    if (!s->names)
        return;
    n = n_tokens / block_tokens;
    if (n <= s->n_names)
        return;
    kv_name_blocks(s->n_names > 0 ? &s->names[s->n_names - 1] : &s->req->root,
                   s->tokens + (size_t)s->n_names * block_tokens, block_tokens, n - s->n_names,
                   s->names + s->n_names);
    s->n_names = n;
}

bool seq_needs_rows(const struct seq *s)
{
    return s->req->want_prompt_logprobs && s->req->plp.n_done < s->req->n_prompt;
}

void seq_note_kv(struct seq *s, bool computed)
{
    struct request *req = s->req;
    const uint32_t n = MIN(s->n_kv, req->n_prompt);

    if (n <= req->n_seen)
        return;
    if (!computed)
        req->n_cached += n - req->n_seen;
    req->n_seen = n;
}

uint32_t seq_n_prompt_logits(const struct seq *s)
{
    const struct request *req = s->req;
    const uint32_t n_done = req->plp.n_done;

    /* Row i gives the log-probability of token i + 1, so the first token of a prompt has none. */
    if (!req->want_prompt_logprobs || n_done >= req->n_prompt || s->n_kv + 1 >= req->n_prompt)
        return 0;
    return req->n_prompt - 1 - s->n_kv;
}
