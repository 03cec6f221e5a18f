/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes tokens of texts, in the formats with which models were trained.
 *
 * Names of special tokens within a text are treated as plain text, so that no document can insert
 * control tokens.
 */
#include <errno.h>
#include <string.h>

#include "embed/embed-request.h"
#include "embed/prompts.h"

/* The prompt of Qwen3-Reranker, from its model card. Related models use this prompt too. */
#define RANK_BEGIN                                                                                 \
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query "    \
    "and "                                                                                         \
    "the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"       \
    "<|im_start|>user\n"
#define RANK_END "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
#define RANK_INSTRUCTION                                                                           \
    "Given a web search query, retrieve relevant passages that answer the query"

static int tokens_reserve(struct call *c, size_t n, struct problem *problem)
{
    c->texts = NEW(struct inf_embed_text, n);
    c->encodings = NEW(struct inf_encoding, n);
    if (!c->texts || !c->encodings)
        return problem_no_memory(problem);
    return 0;
}

static void tokens_add(struct call *c, const struct inf_encoding *e, size_t n_seen)
{
    c->encodings[c->n_texts] = *e;
    c->texts[c->n_texts] = (struct inf_embed_text){
        .tokens = e->ids, .types = e->types, .n_tokens = e->n, .n_seen = n_seen};
    c->n_texts++;
}

static int tokens_failed(const struct call *c, int r, enum interaction_role role, const char *at,
                         struct problem *problem)
{
    const struct interaction *it = c->resident->interaction;
    const uint32_t max = inf_embedder_max_tokens(c->resident->embedder);

    if (r != -E2BIG)
        return problem_no_memory(problem);
    return problem_set(
        problem, 400, "context_length_exceeded", at,
        "'%s' is too large: it is longer than the %u tokens that this model takes. Shorten it, "
        "or ask for \"truncate\".",
        at, it && role < INTERACTION_N ? interaction_max(it, role, max) : max);
}

/* Adds a text that a client sent as token ids. */
static int take_ids(struct call *c, const struct input *input, const char *at,
                    struct problem *problem)
{
    const size_t n = json_array_size(input->tokens);
    const uint32_t max = inf_embedder_max_tokens(c->resident->embedder);
    const uint32_t n_vocab = inf_model_info(c->resident->base.model)->n_vocab;
    const size_t n_kept = c->params.cut == INF_CUT_NONE ? n : MIN(n, max);
    const size_t first = c->params.cut == INF_CUT_START ? n - n_kept : 0;
    struct inf_encoding e = {.n = n_kept};

    if (n_kept > max)
        return tokens_failed(c, -E2BIG, INTERACTION_N, at, problem);
    for (size_t i = 0; i < n; i++) {
        const json_int_t id = json_integer_value(json_array_get(input->tokens, i));

        if (id < 0 || id >= n_vocab)
            return problem_set(problem, 400, "invalid_value", at,
                               "Invalid value for '%s': %lld is not a token id of this model.", at,
                               (long long)id);
    }
    e.ids = NEW(int32_t, n_kept);
    if (!e.ids)
        return problem_no_memory(problem);
    for (size_t i = 0; i < n_kept; i++)
        e.ids[i] = (int32_t)json_integer_value(json_array_get(input->tokens, first + i));
    tokens_add(c, &e, 0);
    return 0;
}

/* Encodes a text; if the model is for late interaction, in the role @role. */
static int tokens_encode(struct call *c, enum interaction_role role,
                         const struct inf_encode_text *text, struct inf_encoding *e,
                         size_t *ret_seen)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(c->resident->base.model);
    const uint32_t max = inf_embedder_max_tokens(c->resident->embedder);

    *ret_seen = 0;
    if (c->resident->interaction)
        return interaction_encode(c->resident->interaction, tok, role, text, c->params.cut, max, e,
                                  ret_seen);
    return inf_tokenizer_encode_texts(tok, text, NULL, INF_ENCODE_ADD_SPECIAL, c->params.cut, max,
                                      e);
}

/* Says how the texts of a request are encoded. */
struct reading {
    enum interaction_role role;
    char *prompt; /* owned; NULL: none */
};

static void reading_done(struct reading *reading)
{
    free(reading->prompt);
}

static int take_text(struct call *c, const struct input *input, const struct reading *reading,
                     const char *at, struct problem *problem)
{
    struct inf_encode_text text = {input->text, input->len};
    _cleanup_str_ struct str whole = {};
    struct inf_encoding e;
    size_t n_seen;
    int r;

    if (reading->prompt) {
        if (str_puts(&whole, reading->prompt) < 0 ||
            str_append(&whole, input->text, input->len) < 0)
            return problem_no_memory(problem);
        text = (struct inf_encode_text){whole.data, whole.len};
    }
    r = tokens_encode(c, reading->role, &text, &e, &n_seen);
    if (r < 0)
        return tokens_failed(c, r, reading->role, at, problem);
    if (!e.n) {
        free(e.ids);
        return problem_set(problem, 400, "empty_input", at, "'%s' is empty: it has no tokens.", at);
    }
    tokens_add(c, &e, n_seen);
    return 0;
}

static int take_list(struct call *c, const struct inputs *inputs, const struct reading *reading,
                     struct problem *problem)
{
    int r = 0;

    for (size_t i = 0; i < inputs->n && r == 0; i++) {
        const struct input *input = &inputs->items[i];
        char at[INPUTS_NAME];

        inputs_name(inputs, i, at);
        r = input->tokens ? take_ids(c, input, at, problem)
                          : take_text(c, input, reading, at, problem);
    }
    return r;
}

/* Chooses the role and the prompt of the texts. Models for late interaction have the roles "query"
 * and "document" instead of prompts with these names; without a name, texts are documents. */
static int choose_reading(struct call *c, struct reading *reading, struct problem *problem)
{
    static const char *const names[] = {
        [INTERACTION_DOCUMENT] = "document", [INTERACTION_QUERY] = "query"};
    const struct inputs_prompt *wanted = &c->params.prompt;

    if (c->resident->interaction && !wanted->name && !wanted->text && !wanted->instruction)
        return 0;
    for (unsigned role = 0; c->resident->interaction && wanted->name && role < INTERACTION_N;
         role++)
        if (strcmp(wanted->name, names[role]) == 0) {
            c->role = reading->role = role;
            return 0;
        }
    return prompts_choose(c->resident->prompts, wanted, &reading->prompt, problem);
}

int tokens_of_inputs(struct call *c, struct problem *problem)
{
    _cleanup_(reading_done) struct reading reading = {};
    int r = tokens_reserve(c, c->inputs.n + c->more.n, problem);

    if (r == 0)
        r = choose_reading(c, &reading, problem);
    if (r == 0)
        r = take_list(c, &c->inputs, &reading, problem);
    return r < 0 ? r : take_list(c, &c->more, &reading, problem);
}

/* --- rankings --- */

/* Encodes the query and a document as one text of two parts. */
static int take_pair(struct call *c, const struct input *document, const char *at,
                     struct problem *problem)
{
    const struct inf_encode_text query = {c->query.text, c->query.len};
    const struct inf_encode_text pair = {document->text, document->len};
    struct inf_encoding e;
    const int r = inf_tokenizer_encode_texts(inf_model_tokenizer(c->resident->base.model), &query,
                                             &pair, INF_ENCODE_ADD_SPECIAL, c->params.cut,
                                             inf_embedder_max_tokens(c->resident->embedder), &e);

    if (r < 0)
        return tokens_failed(c, r, INTERACTION_N, at, problem);
    tokens_add(c, &e, 0);
    return 0;
}

/* Holds the tokens before and after every question to a decoder. */
struct frame {
    int32_t *begin, *end;
    size_t n_begin, n_end;
};

static void frame_done(struct frame *frame)
{
    free(frame->begin);
    free(frame->end);
}

static int frame_init(struct frame *frame, const struct inf_tokenizer *tok)
{
    const int r = inf_tokenizer_encode(tok, RANK_BEGIN, sizeof(RANK_BEGIN) - 1,
                                       INF_ENCODE_PARSE_SPECIAL, 0, &frame->begin, &frame->n_begin);

    return r < 0 ? r
                 : inf_tokenizer_encode(tok, RANK_END, sizeof(RANK_END) - 1,
                                        INF_ENCODE_PARSE_SPECIAL, 0, &frame->end, &frame->n_end);
}

/* Encodes the question about a document, and puts the tokens of @frame around it. The question is
 * truncated as one text. */
static int take_question(struct call *c, const struct frame *frame, const struct input *document,
                         const char *at, struct problem *problem)
{
    const char *instruction = c->params.prompt.instruction;
    const size_t n_frame = frame->n_begin + frame->n_end;
    const uint32_t max = inf_embedder_max_tokens(c->resident->embedder);
    _cleanup_str_ struct str text = {};
    struct inf_encoding e, whole;
    int r;

    r = str_printf(&text,
                   "<Instruct>: %s\n<Query>: ", instruction ? instruction : RANK_INSTRUCTION);
    r = r < 0 ? r : str_append(&text, c->query.text, c->query.len);
    r = r < 0 ? r : str_puts(&text, "\n<Document>: ");
    r = r < 0 ? r : str_append(&text, document->text, document->len);
    if (r == 0)
        r = max <= n_frame
                ? -E2BIG
                : inf_tokenizer_encode_texts(inf_model_tokenizer(c->resident->base.model),
                                             &(struct inf_encode_text){text.data, text.len}, NULL,
                                             0, c->params.cut, max - n_frame, &e);
    if (r < 0)
        return tokens_failed(c, r, INTERACTION_N, at, problem);
    whole = (struct inf_encoding){.ids = NEW(int32_t, n_frame + e.n), .n = n_frame + e.n};
    if (whole.ids) {
        memcpy(whole.ids, frame->begin, frame->n_begin * sizeof(*whole.ids));
        memcpy(whole.ids + frame->n_begin, e.ids, e.n * sizeof(*whole.ids));
        memcpy(whole.ids + frame->n_begin + e.n, frame->end, frame->n_end * sizeof(*whole.ids));
    }
    free(e.ids);
    if (!whole.ids)
        return problem_no_memory(problem);
    tokens_add(c, &whole, 0);
    return 0;
}

/* Chooses how the query or the documents of a ranking are encoded: for late interaction in their
 * role, otherwise with one of the model's prompts. */
static int read_as(struct call *c, enum interaction_role role, struct reading *reading,
                   struct problem *problem)
{
    json_t *prompts = c->resident->prompts;
    const struct inputs_prompt wanted = {.name = prompts_find(prompts, role == INTERACTION_QUERY)};

    reading->role = role;
    return c->resident->interaction ? 0
                                    : prompts_choose(prompts, &wanted, &reading->prompt, problem);
}

/* Encodes the query and the documents as separate texts, each with its prompt. */
static int take_apart(struct call *c, struct problem *problem)
{
    _cleanup_(reading_done) struct reading query = {}, document = {};
    int r = tokens_reserve(c, c->inputs.n + 1, problem);

    if (r == 0)
        r = read_as(c, INTERACTION_QUERY, &query, problem);
    if (r == 0)
        r = read_as(c, INTERACTION_DOCUMENT, &document, problem);
    if (r == 0)
        r = take_text(c, &c->query, &query, "query", problem);
    return r < 0 ? r : take_list(c, &c->inputs, &document, problem);
}

int tokens_of_ranking(struct call *c, struct problem *problem)
{
    const bool by_rows = embed_resident_ranks_by_rows(c->resident);
    const bool asked = embed_resident_is_asked(c->resident);
    _cleanup_(frame_done) struct frame frame = {};
    int r;

    if (c->params.prompt.instruction && !asked)
        return problem_set(problem, 400, "unsupported_field", "instruction",
                           "The model '%s' takes no instruction.", c->resident->base.name);
    if (by_rows)
        return take_apart(c, problem);
    r = tokens_reserve(c, c->inputs.n, problem);
    if (r == 0 && asked && frame_init(&frame, inf_model_tokenizer(c->resident->base.model)) < 0)
        r = problem_no_memory(problem);
    for (size_t i = 0; i < c->inputs.n && r == 0; i++) {
        char at[INPUTS_NAME];

        inputs_name(&c->inputs, i, at);
        r = asked ? take_question(c, &frame, &c->inputs.items[i], at, problem)
                  : take_pair(c, &c->inputs.items[i], at, problem);
    }
    return r;
}
