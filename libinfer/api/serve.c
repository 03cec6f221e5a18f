/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inf_engine_*: checks arguments, resolves defaults, and calls sched/.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <infer/kv.h>

#include "api/draft-model.h"
#include "api/handle.h"
#include "core/err.h"
#include "core/outbox.h"
#include "core/utf8.h"
#include "grammar/grammar.h"
#include "quant/codec.h"

#define MAX_CTX     (1u << 22)
#define MAX_SEQS    1024u
#define MAX_BATCH   16384u
#define MAX_CHOICES 256u
/* The limit of the lengths of stop_tokens and shown_tokens. The engine compares each new token
 * with all of them. */
#define MAX_TOKEN_LIST 256u
#define DEFAULT_CTX    8192u
#define DEFAULT_SEQS   16u
#define DEFAULT_QUEUE  256u
#define DEFAULT_BATCH  512u
/* For log-probabilities of prompts, a step can have as many rows of logits as fit in
 * PROMPT_LOGITS_BYTES, but at least PROMPT_LOGITS_MIN. The memory of these rows is used only when
 * log-probabilities are requested. */
#define PROMPT_LOGITS_MIN   16u
#define PROMPT_LOGITS_BYTES (64u << 20)

int setup_of_engine(const struct inf_engine_params *p, struct setup *ret_setup,
                    struct inf_err *reterr)
{
    const struct inf_model_info *info = &p->model->info;
    const uint32_t trained = info->n_ctx_train > 0 ? info->n_ctx_train : DEFAULT_CTX;
    struct setup setup = {
        .device = p->device,
        .cache_dir = p->cache_dir,
        .cache_read_only = p->cache_read_only,
        .cpu_else = p->cpu_else,
        .device_bytes = p->device_bytes,
        .isa = p->isa,
        .kv_type = p->kv_type,
        .n_threads = p->n_threads,
        .n_ctx = p->n_ctx > 0 ? p->n_ctx : MIN(trained, DEFAULT_CTX),
        .max_seqs = p->max_seqs > 0 ? p->max_seqs : DEFAULT_SEQS,
        .reserved_bytes = draft_model_is_used(p) ? p->draft_model->info.n_bytes + setup_spare() : 0,
    };

    if (setup.n_ctx > MAX_CTX || setup.n_ctx < 2)
        return err_set(reterr, EINVAL, "n_ctx must be between 2 and %u", MAX_CTX);
    if (setup.max_seqs > MAX_SEQS)
        return err_set(reterr, EINVAL, "max_seqs must not be above %u", MAX_SEQS);
    if (p->max_batch_tokens > MAX_BATCH)
        return err_set(reterr, EINVAL, "max_batch_tokens must not be above %u", MAX_BATCH);
    setup.max_rows = p->max_batch_tokens > 0 ? p->max_batch_tokens : DEFAULT_BATCH;
    setup.max_rows = MAX(setup.max_rows, setup.max_seqs);
    setup.max_logits = MAX(PROMPT_LOGITS_BYTES / 4 / info->n_vocab, PROMPT_LOGITS_MIN);
    setup.max_logits = MIN(setup.max_seqs + setup.max_logits, setup.max_rows);
    *ret_setup = setup;
    return 0;
}

static bool kv_type_is_auto(const char *kv_type)
{
    return !kv_type || strcmp(kv_type, "auto") == 0;
}

/* Opens the device with its KV pool and its plan, the compiled graph. *ret_draft_room: bytes that
 * remain for the keys and values of the drafter. *ret_automatic: the number format that "auto"
 * means. */
static int open_runner(const struct inf_engine_params *params, struct setup *setup,
                       struct runner **ret_runner, uint64_t *ret_draft_room,
                       const char **ret_automatic, struct inf_err *reterr)
{
    double share;
    struct inf_engine_params own = *params, *p = &own;
    _cleanup_(backend_freep) struct backend *backend = NULL;
    struct kv_layout layout;
    uint64_t room;
    int r;

    r = setup_layout(p->model, setup, &layout, reterr);
    if (r < 0)
        return r;
    r = setup_backend_for(p->model, setup, &backend, reterr);
    if (r < 0)
        return r;
    r = draft_choose_graph(p, backend, setup, reterr);
    if (r == 0)
        r = setup_layout(p->model, setup, &layout, reterr);
    if (r < 0)
        return r;
    share = draft_share(p, setup);
    room = setup_kv_room(backend, p->model, setup);
    *ret_draft_room = (uint64_t)((double)room * share);
    room -= *ret_draft_room;
    own.kv_bytes -= (uint64_t)((double)own.kv_bytes * share);
    r = kv_choice_of_engine(p, backend, room, setup, ret_automatic, reterr);
    if (r == 0 && kv_type_is_auto(p->kv_type)) {
        setup->kv_type = *ret_automatic;
        r = setup_layout(p->model, setup, &layout, reterr);
    }
    if (r < 0)
        return r;
    setup_other_blocks(p, room, setup, &layout);
    r = setup_kv_size(p, &layout, room,
                      backend->ops->kv_max_blocks(backend, &layout, setup_main_group(&layout)),
                      setup, reterr);
    if (r < 0)
        return r;
    return setup_runner_on(&backend, p->model, setup, ret_runner, reterr);
}

/* Computes the origin of the names of KV blocks: a name that depends on the model, the device, the
 * instruction set and the number formats. */
static void name_origin(const struct inf_model *model, const struct runner *runner,
                        struct kv_name *ret_origin)
{
    const struct backend *b = runner->backend;
    char numbers[KV_NUMBERS_MAX];
    struct kv_origin origin = {
        .numbers = numbers,
        .device = b->device,
        .isa = b->ops->isa(b),
        .block_tokens = kv_pool_block_tokens(runner->pool),
    };

    setup_kv_numbers(kv_pool_layout(runner->pool), true, numbers, sizeof(numbers));
    format_identity(model->format, origin.model.bytes);
    kv_name_origin(&origin, ret_origin);
}

/* Sets the name of the number formats: that of the parameters if layers have formats of their own,
 * because the list of all of them is long. */
static void name_numbers(struct inf_engine *engine, const char *kv_type,
                         const struct runner *runner)
{
    const struct kv_layout *layout = kv_pool_layout(runner->pool);

    if (layout->n_mixed == 0)
        setup_kv_numbers(layout, false, engine->kv_name, sizeof(engine->kv_name));
    else
        snprintf(engine->kv_name, sizeof(engine->kv_name), "%s", kv_type);
}

/* Checks that the draft model is a draft head of the kind @kind. */
static int check_head(const struct inf_engine_params *p, const char *kind, struct inf_err *reterr)
{
    const char *own = model_head_kind(p->draft_model->model);

    if (own && strcmp(own, kind) == 0)
        return 0;
    return err_set(reterr, EINVAL, "drafts of the kind \"%s\" need %s, and the draft model is %s",
                   kind, draft_head_name(kind), own ? draft_head_name(own) : "none");
}

static int read_draft_kind(const struct inf_engine_params *p, enum speculation_kind *ret_kind,
                           struct inf_err *reterr)
{
    static const struct {
        const char *name;
        enum speculation_kind kind;
    } kinds[] = {
        {"none", SPECULATION_OFF},
        {"auto", SPECULATION_AUTO},
        {"model", SPECULATION_MODEL},
        {"mtp", SPECULATION_MODEL},
        {"suffix", SPECULATION_SUFFIX},
        {"ngram", SPECULATION_NGRAM},
        {"eagle3", SPECULATION_MODEL},
        {"dflash", SPECULATION_MODEL},
        {"gemma4-assistant", SPECULATION_MODEL},
    };
    const char *name = p->draft_kind ? p->draft_kind : p->draft_model ? "model" : "none";

    if (p->max_draft > INF_DRAFT_MAX)
        return err_set(reterr, EINVAL, "max_draft must not be above %d", INF_DRAFT_MAX);
    for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
        if (strcmp(name, kinds[i].name) != 0)
            continue;
        *ret_kind = kinds[i].kind;
        if ((strcmp(name, "model") == 0 || draft_head_name(name)) && !p->draft_model)
            return err_set(reterr, EINVAL, "drafts of the kind \"%s\" need a draft model", name);
        return draft_head_name(name) ? check_head(p, name, reterr) : 0;
    }
    return err_set(reterr, EINVAL, "unknown kind of drafts \"%s\"", name);
}

DEFINE_CLEANUP(struct inf_engine *, inf_engine_free);

int inf_engine_new(const struct inf_engine_params *params, struct inf_engine **ret_engine,
                   struct inf_err *reterr)
{
    _cleanup_(runner_freep) struct runner *runner = NULL;
    _cleanup_(inf_engine_freep) struct inf_engine *engine = NULL;
    struct sched_limits limits;
    struct setup setup;
    const char *automatic;
    uint64_t draft_room;
    int r;

    if (!params || !params->model || !ret_engine)
        return err_set(reterr, EINVAL, "no model was given");
    if (!params->model->model)
        return model_refuse_text(params->model, reterr);
    r = setup_of_engine(params, &setup, reterr);
    if (r < 0)
        return r;
    r = draft_model_is_used(params)
            ? inf_model_can_draft(params->draft_model, params->model, reterr)
            : 0;
    if (r < 0)
        return r;
    r = open_runner(params, &setup, &runner, &draft_room, &automatic, reterr);
    if (r < 0)
        return r;
    limits = (struct sched_limits){
        .n_ctx = setup.n_ctx,
        .max_seqs = setup.max_seqs,
        .max_queue = params->max_queue > 0 ? params->max_queue : DEFAULT_QUEUE,
        .no_prefix_cache = params->no_prefix_cache,
        .files = model_files(params->model),
        .max_draft = params->max_draft,
    };
    r = read_draft_kind(params, &limits.speculation, reterr);
    if (r < 0)
        return r;
    if (!limits.no_prefix_cache)
        name_origin(params->model, runner, &limits.origin);
    engine = NEW(struct inf_engine, 1);
    if (!engine)
        return err_set(reterr, ENOMEM, "out of memory");
    engine->kv_automatic = automatic;
    name_numbers(engine, setup.kv_type, runner);
    r = sched_new(&runner, params->model->tok, &limits, &engine->sched);
    if (r < 0)
        return err_set(reterr, -r, "the scheduler could not be created: %s", strerror(-r));
    engine->model = inf_model_ref(params->model);
    if (draft_model_is_used(params) || setup.graph == SETUP_EXPORTING)
        r = draft_attach(engine, params, &setup, draft_room, reterr);
    if (r == 0 && params->tier)
        r = attach_tier(engine, params, reterr);
    /* A device may have copied the weights, so check that the files are unchanged. */
    if (r == 0)
        r = inf_model_check(engine->model, reterr);
    if (r < 0)
        return r;
    r = sched_start(engine->sched);
    if (r < 0)
        return err_set(reterr, -r, "the engine's thread could not be started: %s", strerror(-r));
    *ret_engine = STEAL(engine);
    return 0;
}

struct inf_engine *inf_engine_free(struct inf_engine *engine)
{
    if (!engine)
        return NULL;
    sched_free(engine->sched);
    inf_model_unref(engine->model);
    inf_model_unref(engine->draft_model);
    free(engine);
    return NULL;
}

static bool in_unit(float x)
{
    return x >= 0 && x <= 1;
}

/* Checks the options that llama.cpp has in addition to those of other APIs. */
static int check_stages(const struct inf_sampling *s, struct inf_err *reterr)
{
    if (!isfinite(s->dynatemp_range) || s->dynatemp_range < 0 || !isfinite(s->dynatemp_exponent) ||
        s->dynatemp_exponent < 0)
        return err_set(reterr, EINVAL,
                       "dynatemp_range and dynatemp_exponent must be numbers that are not "
                       "negative");
    if (!isfinite(s->top_n_sigma) || s->top_n_sigma < 0)
        return err_set(reterr, EINVAL, "top_n_sigma must be a number that is not negative");
    if (!in_unit(s->xtc_probability) || !in_unit(s->xtc_threshold))
        return err_set(reterr, EINVAL, "xtc_probability and xtc_threshold must be between 0 and 1");
    if (s->mirostat > 2)
        return err_set(reterr, EINVAL, "mirostat must be 0, 1 or 2");
    if (!isfinite(s->mirostat_tau) || !isfinite(s->mirostat_eta) || s->mirostat_tau < 0 ||
        s->mirostat_eta < 0)
        return err_set(reterr, EINVAL,
                       "mirostat_tau and mirostat_eta must be numbers that are not negative");
    if (s->n_order > INF_N_STAGES)
        return err_set(reterr, EINVAL, "a stage of sampling is named twice");
    for (size_t i = 0; i < s->n_order; i++) {
        if (s->order[i] >= INF_N_STAGES)
            return err_set(reterr, EINVAL, "there is no such stage of sampling");
        if (memchr(s->order, s->order[i], i))
            return err_set(reterr, EINVAL, "a stage of sampling is named twice");
    }
    return 0;
}

static int check_dry(const struct inf_sampling *s, struct inf_err *reterr)
{
    if (!isfinite(s->dry_multiplier) || !isfinite(s->dry_base))
        return err_set(reterr, EINVAL, "dry_multiplier and dry_base must be numbers");
    if (s->n_dry_breakers > BREAKERS_MAX)
        return err_set(reterr, EINVAL, "more than %u sequence breakers", BREAKERS_MAX);
    for (size_t i = 0; i < s->n_dry_breakers; i++)
        if (!s->dry_breakers[i].text || s->dry_breakers[i].len == 0 ||
            s->dry_breakers[i].len > BREAKERS_MAX_BYTES)
            return err_set(reterr, EINVAL, "a sequence breaker must have 1 to %u bytes",
                           BREAKERS_MAX_BYTES);
    return 0;
}

static int check_sampling(const struct inf_sampling *s, uint32_t n_vocab, struct inf_err *reterr)
{
    int r;

    if (!isfinite(s->temperature) || s->temperature < 0)
        return err_set(reterr, EINVAL, "temperature must be a number that is not negative");
    if (!in_unit(s->top_p) || !in_unit(s->min_p) || !in_unit(s->typical_p))
        return err_set(reterr, EINVAL, "top_p, min_p and typical_p must be between 0 and 1");
    if (!isfinite(s->repetition_penalty) || s->repetition_penalty < 0)
        return err_set(reterr, EINVAL, "repetition_penalty must be a number that is not negative");
    if (!isfinite(s->presence_penalty) || !isfinite(s->frequency_penalty))
        return err_set(reterr, EINVAL, "presence_penalty and frequency_penalty must be numbers");
    if (s->n_logit_bias > n_vocab)
        return err_set(reterr, EINVAL, "logit_bias has more entries than the vocabulary");
    for (size_t i = 0; i < s->n_logit_bias; i++) {
        if (s->logit_bias[i].token < 0 || (uint32_t)s->logit_bias[i].token >= n_vocab)
            return err_set(reterr, EINVAL, "logit_bias: token %d is not in the vocabulary",
                           s->logit_bias[i].token);
        if (!isfinite(s->logit_bias[i].bias))
            return err_set(reterr, EINVAL, "logit_bias must be numbers");
    }
    r = check_stages(s, reterr);
    return r < 0 ? r : check_dry(s, reterr);
}

/* Checks a list of at most @max tokens. */
static int check_tokens(const struct inf_engine *engine, const char *name, const int32_t *tokens,
                        size_t n, size_t max, struct inf_err *reterr)
{
    if (n > max)
        return err_set(reterr, EINVAL, "%s: more than %zu tokens", name, max);
    if (n > 0 && !tokens)
        return err_set(reterr, EINVAL, "%s: the tokens are missing", name);
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= engine->sched->n_vocab)
            return err_set(reterr, EINVAL, "%s: token %d is not in the vocabulary", name,
                           tokens[i]);
    return 0;
}

/* Checks the request's lists of tokens: those that end the text, those that the text shows, and
 * those of the channel in which the model reasons (struct inf_channel). */
static int check_token_lists(const struct inf_engine *engine, const struct inf_request *q,
                             struct inf_err *reterr)
{
    const struct inf_channel *c = &q->channel;
    const struct {
        const char *name;
        const int32_t *tokens;
        size_t n, max;
    } lists[] = {
        {"stop_tokens", q->stop_tokens, q->n_stop_tokens, MAX_TOKEN_LIST},
        {"shown_tokens", q->shown_tokens, q->n_shown_tokens, MAX_TOKEN_LIST},
        {"channel.open", c->open, c->n_open, CHANNEL_MAX_MARK},
        {"channel.lead", c->lead, c->n_lead, CHANNEL_MAX_MARK},
        {"channel.close", c->close, c->n_close, CHANNEL_MAX_MARK},
        {"channel.forced", c->forced, c->n_forced, CHANNEL_MAX_FORCED},
    };
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(lists); i++)
        r = check_tokens(engine, lists[i].name, lists[i].tokens, lists[i].n, lists[i].max, reterr);
    return r;
}

static int check_stops(const struct inf_request *q, struct inf_err *reterr)
{
    size_t total = 0;

    if (q->n_stops > STOPS_MAX)
        return err_set(reterr, EINVAL, "more than %u stop strings", STOPS_MAX);
    for (size_t i = 0; i < q->n_stops; i++) {
        if (!q->stops[i].text || q->stops[i].len == 0)
            return err_set(reterr, EINVAL, "a stop string must not be empty");
        if (q->stops[i].len > STOPS_MAX_BYTES - total)
            return err_set(reterr, EINVAL, "the stop strings have more than %u bytes",
                           STOPS_MAX_BYTES);
        if (!utf8_valid(q->stops[i].text, q->stops[i].len))
            return err_set(reterr, EINVAL, "a stop string is not UTF-8");
        total += q->stops[i].len;
    }
    return 0;
}

static int check_request(const struct inf_engine *engine, const struct inf_request *q,
                         struct inf_err *reterr)
{
    const uint32_t n_vocab = engine->model->info.n_vocab;
    const uint32_t n_ctx = engine->sched->limits.n_ctx;
    int r;

    if (!q || !q->tokens || q->n_tokens == 0)
        return err_set(reterr, EINVAL, "the prompt is empty");
    if (q->n_tokens >= n_ctx)
        return err_set(reterr, E2BIG, "the prompt has %zu tokens, but the context holds %u",
                       q->n_tokens, n_ctx);
    r = model_check_tokens(engine->model, q->tokens, q->n_tokens, reterr);
    if (r < 0)
        return r;
    if (q->n_choices > MAX_CHOICES)
        return err_set(reterr, EINVAL, "more than %u choices", MAX_CHOICES);
    if (!in_unit(q->draft_p_min))
        return err_set(reterr, EINVAL, "draft_p_min must be between 0 and 1");
    if (q->cache_salt_len > 0 && !q->cache_salt)
        return err_set(reterr, EINVAL, "cache_salt has a length, but no bytes");
    if (q->n_logprobs < -1 || q->n_logprobs > SAMPLE_MAX_TOP)
        return err_set(reterr, EINVAL, "n_logprobs must be between -1 and %u", SAMPLE_MAX_TOP);
    r = check_sampling(&q->sampling, n_vocab, reterr);
    if (r < 0)
        return r;
    if (q->grammar && q->grammar->vocab->tok != engine->model->tok)
        return err_set(reterr, EINVAL, "the grammar was made for another tokenizer");
    r = check_token_lists(engine, q, reterr);
    if (r < 0)
        return r;
    return check_stops(q, reterr);
}

int inf_engine_submit(struct inf_engine *engine, const struct inf_request *request,
                      uint64_t *ret_id, struct inf_err *reterr)
{
    int r;

    assert(engine && ret_id);
    r = check_request(engine, request, reterr);
    if (r == 0)
        r = inf_model_check(engine->model, reterr);
    if (r < 0)
        return r;
    r = sched_submit(engine->sched, request, ret_id);
    return r < 0 ? err_set(reterr, -r, "the request could not be taken: %s", strerror(-r)) : r;
}

void inf_engine_cancel(struct inf_engine *engine, uint64_t id)
{
    assert(engine);
    sched_cancel(engine->sched, id);
}

int inf_engine_event_fd(const struct inf_engine *engine)
{
    return engine->sched->events.fd;
}

int inf_engine_next_event(struct inf_engine *engine, struct inf_event *ret_event)
{
    return events_next(&engine->sched->events, ret_event);
}

int inf_engine_wait_event(struct inf_engine *engine, int timeout_msec, struct inf_event *ret_event)
{
    struct events *events = &engine->sched->events;
    const uint64_t end = outbox_deadline(timeout_msec);

    do {
        if (events_next(events, ret_event))
            return 1;
    } while (outbox_wait(events->fd, end));
    return 0;
}

void inf_engine_stats(struct inf_engine *engine, struct inf_engine_stats *ret_stats)
{
    sched_stats(engine->sched, ret_stats);
}

int inf_engine_kv_type(const struct inf_engine *engine, const char *kv_type, struct inf_err *reterr)
{
    const struct runner *runner = engine->sched->runner;
    const struct kv_layout *layout = kv_pool_layout(runner->pool);
    struct kv_layout wanted;
    int r;

    r = setup_kv_layout(engine->model, kv_type_is_auto(kv_type) ? engine->kv_automatic : kv_type,
                        &wanted, reterr);
    if (r < 0)
        return r;
    if (kv_layout_equal(&wanted, layout))
        return 0;
    r = setup_kv_check(runner->backend, &wanted, reterr);
    return r < 0 ? r : 1;
}

const char *inf_engine_kv_name(const struct inf_engine *engine)
{
    return engine->kv_name;
}

uint32_t inf_engine_n_ctx(const struct inf_engine *engine)
{
    return engine->sched->limits.n_ctx;
}

uint32_t inf_engine_n_threads(const struct inf_engine *engine)
{
    const struct backend *b = engine->sched->runner->backend;

    return b->ops->n_threads(b);
}

const char *inf_engine_device(const struct inf_engine *engine)
{
    return engine->sched->runner->backend->device;
}

const char *inf_engine_isa(const struct inf_engine *engine)
{
    const struct backend *b = engine->sched->runner->backend;

    return b->ops->isa(b);
}
