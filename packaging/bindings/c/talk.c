/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows how a program uses libinfer: prints an answer while it is generated, and compares texts.
 *
 *     cc talk.c -o talk $(pkg-config --cflags --libs libinfer)
 *     ./talk chat MODEL.gguf QUESTION
 *     ./talk compare MODEL TEXT TEXT
 */
#include <infer/infer.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int talk_failed(const char *what, int r, const struct inf_err *err)
{
    fprintf(stderr, "talk: %s: %s\n", what, err && err->text[0] ? err->text : strerror(-r));
    return 1;
}

/* Writes @text as a JSON string. The caller frees the result; NULL: no memory. */
static char *json_string(const char *text)
{
    char *out = malloc(6 * strlen(text) + 3), *p = out;

    if (!out)
        return NULL;
    *p++ = '"';
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            p += sprintf(p, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            p += sprintf(p, "\\u%04x", (unsigned)*text);
        else
            *p++ = *text;
    }
    strcpy(p, "\"");
    return out;
}

/* Makes the prompt for one question, with the chat template of the model. A model without a
 * template continues the question. The caller frees *ret_prompt. */
static int make_prompt(const struct inf_model *model, const char *question, char **ret_prompt,
                       struct inf_err *reterr)
{
    const struct inf_chat_template *tmpl = inf_model_chat_template(model);
    const struct inf_tokenizer *tok = inf_model_tokenizer(model);
    size_t len;
    const char *bos = inf_tokenizer_token_text(tok, inf_tokenizer_bos(tok), &len);
    const char *eos = inf_tokenizer_token_text(tok, inf_tokenizer_eos(tok), &len);
    char *content, *messages = NULL;
    int r = -ENOMEM;

    if (!tmpl)
        return (*ret_prompt = strdup(question)) ? 0 : -ENOMEM;
    content = json_string(question);
    if (content) {
        messages = malloc(strlen(content) + 64);
        if (messages) {
            const struct inf_chat_input input = {.messages = messages,
                                                 .bos_token = bos,
                                                 .eos_token = eos,
                                                 .add_generation_prompt = true};

            sprintf(messages, "[{\"role\": \"user\", \"content\": %s}]", content);
            r = inf_chat_render(tmpl, &input, ret_prompt, &len, reterr);
        }
    }
    free(messages);
    free(content);
    return r;
}

/* Prints the events of one request until it ends. The text of an event is valid until the next call
 * of inf_engine_wait_event(). */
static int write_answer(struct inf_engine *engine)
{
    struct inf_event event;

    for (;;) {
        const int r = inf_engine_wait_event(engine, -1, &event);

        if (r < 0)
            return talk_failed("waiting", r, NULL);
        if (r > 0 && event.kind == INF_EVENT_TOKENS) {
            fwrite(event.text, 1, event.text_len, stdout);
            fflush(stdout);
        }
        if (r > 0 && event.kind == INF_EVENT_FINISH) {
            if (event.error)
                fprintf(stderr, "\ntalk: %s\n", event.error);
            fprintf(stderr, "\n%u tokens read, %u written\n", event.n_prompt, event.n_generated);
            return event.error != NULL;
        }
    }
}

static int chat(struct inf_model *model, const char *question)
{
    const struct inf_engine_params params = {.model = model, .n_ctx = 2048, .max_seqs = 1};
    struct inf_request request = {.max_tokens = 256, .n_logprobs = -1};
    struct inf_err err = {0};
    struct inf_engine *engine;
    int32_t *tokens = NULL;
    char *prompt = NULL;
    uint64_t id;
    int failed = 1, r = inf_engine_new(&params, &engine, &err);

    if (r < 0)
        return talk_failed("no engine", r, &err);
    r = make_prompt(model, question, &prompt, &err);
    if (r == 0)
        r = inf_tokenizer_encode(inf_model_tokenizer(model), prompt, strlen(prompt),
                                 INF_ENCODE_ADD_SPECIAL | INF_ENCODE_PARSE_SPECIAL, 0, &tokens,
                                 &request.n_tokens);
    request.tokens = tokens;
    if (r == 0)
        r = inf_engine_submit(engine, &request, &id, &err);
    failed = r == 0 ? write_answer(engine) : talk_failed("no answer", r, &err);
    /* The engine copied the request. */
    free(tokens);
    free(prompt);
    inf_engine_free(engine);
    return failed;
}

/* Computes the vectors of two texts, and prints how similar they are. */
static int compare(struct inf_model *model, char **texts)
{
    const struct inf_embedder_params params = {.model = model, .kind = INF_EMBED_VECTORS};
    struct inf_embed_text inputs[2] = {{0}};
    struct inf_encoding encoded[2] = {{0}};
    const struct inf_embed_request request = {.texts = inputs, .n_texts = 2};
    struct inf_embed_result *result = NULL;
    struct inf_err err = {0};
    struct inf_embedder *embedder;
    uint64_t id;
    int r = inf_embedder_new(&params, &embedder, &err);

    if (r < 0)
        return talk_failed("no embedder", r, &err);
    for (int i = 0; r == 0 && i < 2; i++) {
        const struct inf_encode_text text = {texts[i], strlen(texts[i])};

        r = inf_tokenizer_encode_texts(inf_model_tokenizer(model), &text, NULL,
                                       INF_ENCODE_ADD_SPECIAL, INF_CUT_END,
                                       inf_embedder_max_tokens(embedder), &encoded[i]);
        inputs[i] = (struct inf_embed_text){
            .tokens = encoded[i].ids, .types = encoded[i].types, .n_tokens = encoded[i].n};
    }
    if (r == 0)
        r = inf_embedder_submit(embedder, &request, &id, &err);
    if (r == 0) {
        result = inf_embedder_wait_result(embedder, -1);
        r = result ? result->error : -EIO;
    }
    if (r == 0)
        printf("%.4f\n",
               inf_similarity(result->vectors, result->vectors + result->width, result->width));
    else
        talk_failed("no vectors", r, &err);
    inf_embed_result_free(result);
    for (int i = 0; i < 2; i++)
        free(encoded[i].ids);
    inf_embedder_free(embedder);
    return r != 0;
}

int main(int argc, char **argv)
{
    const int is_chat = argc == 4 && strcmp(argv[1], "chat") == 0;
    struct inf_model_params params = {0};
    struct inf_model *model;
    struct inf_err err = {0};
    int failed, r;

    if (!is_chat && (argc != 5 || strcmp(argv[1], "compare") != 0)) {
        fputs("Usage: talk chat MODEL QUESTION | talk compare MODEL TEXT TEXT\n", stderr);
        return 2;
    }
    params.path = argv[2];
    r = inf_model_open(&params, &model, &err);
    if (r < 0)
        return talk_failed(argv[2], r, &err);
    failed = is_chat ? chat(model, argv[3]) : compare(model, argv + 3);
    inf_model_unref(model);
    return failed;
}
