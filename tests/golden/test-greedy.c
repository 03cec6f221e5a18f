/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares greedy texts of small real models with those of other programs, on every instruction set
 * level of the CPU or on $SCONCE_DEVICE. Requests run alone and many at once. The models are not
 * part of the tree; without the data directory these tests are skipped.
 */
#include <infer/engine.h>
#include <infer/tokenizer.h>

#include <errno.h>

#include "core/file.h"
#include "core/macros.h"
#include "core/rng.h"
#include "core/str.h"
#include "lib/open_model.h"
#include "lib/device.h"

struct result {
    struct str text;
    int32_t ids[512];
    size_t n;
};

static void collect(struct inf_engine *engine, struct result *res)
{
    struct inf_event ev;

    while (inf_engine_wait_event(engine, 60000, &ev) == 1) {
        if (ev.kind == INF_EVENT_FINISH) {
            if (ev.finish == INF_FINISH_ERROR)
                fail_msg("%s", ev.error);
            return;
        }
        if (ev.kind != INF_EVENT_TOKENS)
            continue;
        ASSERT_OK(str_append(&res->text, ev.text, ev.text_len));
        for (size_t i = 0; i < ev.n_tokens; i++) {
            assert_true(res->n < 512);
            res->ids[res->n++] = ev.tokens[i].token;
        }
    }
    fail_msg("no event within a minute");
}

static void generate(struct inf_model *model, const struct test_target *on, const int32_t *prompt,
                     size_t n, uint32_t max_tokens, struct result *res)
{
    const struct inf_engine_params params = {
        .model = model, .device = on->device, .isa = on->isa, .n_threads = 2};
    const struct inf_request req = {.tokens = prompt,
                                    .n_tokens = n,
                                    .max_tokens = max_tokens,
                                    .ignore_eos = true,
                                    .n_logprobs = -1};
    struct inf_engine *engine;
    struct inf_err err = {0};
    uint64_t id;

    *res = (struct result){0};
    ASSERT_OK_ERR(inf_engine_new(&params, &engine, &err), err);
    ASSERT_OK_ERR(inf_engine_submit(engine, &req, &id, &err), err);
    collect(engine, res);
    inf_engine_free(engine);
}

static char *read_text(const char *path)
{
    struct inf_err err = {0};
    char *text;
    size_t len;

    ASSERT_OK_ERR(file_read(path, 1 << 20, &text, &len, &err), err);
    return text;
}

/* Returns the example text in the model's own documentation. The text follows a command line, and
 * ends at the end of the code block. */
static char *story(void)
{
    const char *path = test_data("models/stories260K/stories260K.md");
    char *page, *start, *end;

    if (!path)
        return NULL;
    page = read_text(path);
    start = strstr(page, "-t 0.0\n");
    assert_non_null(start);
    start += strlen("-t 0.0\n");
    end = strstr(start, "\n```");
    assert_non_null(end);
    *end = 0;
    memmove(page, start, strlen(start) + 1);
    return page;
}

TEST(stories260k_tells_its_story)
{
    const int32_t bos = 1;
    char *want = story();
    struct test_target on;
    struct inf_model *model;

    if (!want)
        skip();
    model = open_model(test_data("models/stories260K/stories260K.gguf"));
    for (size_t i = 0; test_target_at(i, &on); i++) {
        const char *text;
        struct result res;

        generate(model, &on, &bos, 1, 256, &res);
        assert_int_equal(res.n, 256);
        text = res.text.data;
        /* The first piece starts with the space that SentencePiece puts before a text. */
        ASSERT_STREQ(text[0] == ' ' ? text + 1 : text, want);
        str_done(&res.text);
    }
    inf_model_unref(model);
    free(want);
}

/* Reads the @i-th line that is a list of numbers; returns their count. */
static size_t read_ids(const char *text, unsigned i, int32_t *ids, size_t max)
{
    size_t n = 0;

    for (const char *p = text; (p = strstr(p, "\n[")); p++) {
        if (i-- > 0)
            continue;
        for (p += 2; n < max && *p != ']'; n++) {
            ids[n] = (int32_t)strtol(p, (char **)(uintptr_t)&p, 10);
            p += *p == ',';
        }
        break;
    }
    return n;
}

TEST(tinystories_continues_as_a_plain_forward_pass_does)
{
    const char *path = test_data("models/TinyStories-656K/greedy-reference.txt");
    int32_t prompt[64], all[512];
    struct test_target on;
    struct inf_model *model;
    size_t n_prompt, n_all;
    char *text;

    if (!path)
        skip();
    text = read_text(path);
    n_prompt = read_ids(text, 0, prompt, 64);
    n_all = read_ids(text, 1, all, 512);
    assert_true(n_prompt > 0 && n_all > n_prompt);
    free(text);
    model = open_model(test_data("models/TinyStories-656K"));
    for (size_t i = 0; test_target_at(i, &on); i++) {
        struct result res;

        generate(model, &on, prompt, n_prompt, (uint32_t)(n_all - n_prompt), &res);
        assert_int_equal(res.n, n_all - n_prompt);
        assert_memory_equal(res.ids, all + n_prompt, res.n * sizeof(*all));
        str_done(&res.text);
    }
    inf_model_unref(model);
}

enum { N_ASKED = 16, N_TOKENS = 60, MAX_PROMPT = 150 };

/* Struct asked holds a request and its result. Prompts are parts of different lengths, from
 * different places of the model's own story. */
struct asked {
    int32_t prompt[MAX_PROMPT];
    struct inf_request q;
    struct result res;
    bool over;
};

static void asked_init(struct asked *a, const struct result *told, uint64_t seed)
{
    struct rng rng;

    rng_seed(&rng, seed);
    *a = (struct asked){.q = {.tokens = a->prompt,
                              .n_tokens = 1 + rng_u32(&rng) % MAX_PROMPT,
                              .max_tokens = 1 + rng_u32(&rng) % N_TOKENS,
                              .ignore_eos = true,
                              .n_logprobs = -1}};
    a->prompt[0] = 1;
    for (size_t i = 1; i < a->q.n_tokens; i++)
        a->prompt[i] = told->ids[(i + seed * 7) % told->n];
}

static void take(struct asked *a, const struct inf_event *e)
{
    if (e->kind == INF_EVENT_FINISH)
        a->over = true;
    if (e->kind != INF_EVENT_TOKENS)
        return;
    ASSERT_OK(str_append(&a->res.text, e->text, e->text_len));
    for (size_t i = 0; i < e->n_tokens; i++)
        a->res.ids[a->res.n++] = e->tokens[i].token;
}

/* Submits all requests. Each request is submitted at a random moment while others run, or when all
 * others have ended. */
static void ask_all(struct inf_engine *engine, struct asked *asked, struct rng *rng)
{
    uint32_t n_in = 0, n_over = 0;

    while (n_over < N_ASKED) {
        struct inf_event e;
        struct inf_err err;
        uint64_t id;

        while (n_in < N_ASKED && (n_in == n_over || rng_u32(rng) % 12 == 0)) {
            asked[n_in].q.user = &asked[n_in];
            ASSERT_OK_ERR(inf_engine_submit(engine, &asked[n_in].q, &id, &err), err);
            n_in++;
        }
        assert_int_equal(inf_engine_wait_event(engine, 60000, &e), 1);
        if (e.kind == INF_EVENT_FINISH)
            assert_int_equal(e.finish, INF_FINISH_LENGTH);
        take(e.user, &e);
        n_over += e.kind == INF_EVENT_FINISH;
    }
}

TEST(sixteen_requests_get_what_each_gets_alone)
{
    const struct test_target cpu = {.device = "cpu"};
    const char *path = test_data("models/stories260K/stories260K.gguf");
    static struct asked alone[N_ASKED], together[N_ASKED];
    const int32_t bos = 1;
    struct test_target on;
    struct inf_model *model;
    struct result told;

    if (!path)
        skip();
    model = open_model(path);
    generate(model, &cpu, &bos, 1, 256, &told);
    for (uint32_t i = 0; i < N_ASKED; i++) {
        asked_init(&alone[i], &told, i);
        generate(model, &cpu, alone[i].prompt, alone[i].q.n_tokens, alone[i].q.max_tokens,
                 &alone[i].res);
    }
    for (size_t t = 0; test_target_at(t, &on); t++) {
        const struct inf_engine_params params = {
            .model = model, .device = on.device, .isa = on.isa, .n_threads = 2, .n_ctx = 256};
        struct inf_engine *engine;
        struct inf_err err;
        struct rng rng;

        rng_seed(&rng, t);
        ASSERT_OK_ERR(inf_engine_new(&params, &engine, &err), err);
        for (uint32_t i = 0; i < N_ASKED; i++)
            asked_init(&together[i], &told, i);
        ask_all(engine, together, &rng);
        inf_engine_free(engine);
        for (uint32_t i = 0; i < N_ASKED; i++) {
            assert_int_equal(together[i].res.n, alone[i].res.n);
            ASSERT_STREQ(together[i].res.text.data, alone[i].res.text.data);
            str_done(&together[i].res.text);
        }
    }
    for (uint32_t i = 0; i < N_ASKED; i++)
        str_done(&alone[i].res.text);
    str_done(&told.text);
    inf_model_unref(model);
}

RUN_TESTS(cmocka_unit_test(stories260k_tells_its_story),
          cmocka_unit_test(tinystories_continues_as_a_plain_forward_pass_does),
          cmocka_unit_test(sixteen_requests_get_what_each_gets_alone))
