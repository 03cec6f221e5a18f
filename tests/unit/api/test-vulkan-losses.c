/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests requests on a Vulkan device that is lost at random. Each request gives the same result as
 * without losses, and memory use stays constant. There are 240 requests, or 1,000 with
 * SCONCE_TEST_FULL. Without a device the test is skipped.
 */
#include <malloc.h>

#include "api/handle.h"
#include "backend/vulkan/program.h"
#include "core/clock.h"
#include "core/rng.h"
#include "core/str.h"
#include "lib/device.h"

enum { MAX_REQUESTS = 1000, N_WAVES = 4, WAITING_MOST = 48, MAX_PROMPT = 60, MAX_NEW = 16 };

struct job {
    int32_t prompt[MAX_PROMPT];
    struct inf_request q;
    struct str text;
    int32_t tokens[MAX_NEW];
    uint32_t n;
    enum inf_finish finish;
    bool over;
};

static uint32_t n_requests(void)
{
    return test_full() ? MAX_REQUESTS : 240;
}

static void job_init(struct job *j, uint64_t seed, uint32_t n_vocab)
{
    struct rng rng;

    rng_seed(&rng, seed);
    *j = (struct job){.q = {.tokens = j->prompt,
                            .n_tokens = 1 + rng_u32(&rng) % MAX_PROMPT,
                            .max_tokens = 1 + rng_u32(&rng) % MAX_NEW,
                            .n_logprobs = -1}};
    j->q.sampling.temperature = seed % 3 == 0 ? 0 : 0.8f;
    j->q.sampling.top_k = seed % 2 == 0 ? 20 : 0;
    j->q.sampling.has_seed = true;
    j->q.sampling.seed = seed;
    for (size_t i = 0; i < j->q.n_tokens; i++)
        j->prompt[i] = (int32_t)(rng_u32(&rng) % n_vocab);
}

static void take(struct job *j, const struct inf_event *e)
{
    if (e->kind == INF_EVENT_FINISH) {
        if (e->finish == INF_FINISH_ERROR)
            fail_msg("%s", e->error);
        assert_false(j->over);
        j->finish = e->finish;
        j->over = true;
    }
    if (e->kind != INF_EVENT_TOKENS)
        return;
    ASSERT_OK(str_append(&j->text, e->text, e->text_len));
    for (size_t i = 0; i < e->n_tokens; i++)
        j->tokens[j->n++] = e->tokens[i].token;
}

/* Returns the private bytes in use, after the drivers have freed the memory of their compilers. */
static long anonymous_bytes(void)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    long kib = -1;

    assert_non_null(f);
    malloc_trim(0);
    while (fgets(line, sizeof(line), f))
        if (sscanf(line, "RssAnon: %ld", &kib) == 1)
            break;
    fclose(f);
    assert_true(kib > 0);
    return kib << 10;
}

/* Submits @n requests, some tens at a time, and waits until all are finished. */
static void ask_wave(struct inf_engine *engine, struct job *jobs, uint32_t n)
{
    uint32_t n_in = 0, n_over = 0;

    while (n_over < n) {
        struct inf_event e;
        struct inf_err err;
        uint64_t id;

        for (; n_in < n && n_in - n_over < WAITING_MOST; n_in++) {
            jobs[n_in].q.user = &jobs[n_in];
            ASSERT_OK_ERR(inf_engine_submit(engine, &jobs[n_in].q, &id, &err), err);
        }
        assert_int_equal(inf_engine_wait_event(engine, 60000, &e), 1);
        take(e.user, &e);
        n_over += e.kind == INF_EVENT_FINISH;
    }
}

/* Runs all requests. *ret_early, *ret_late: memory use after the first wave and after the last. */
static void ask_all(struct inf_engine *engine, struct job *jobs, long *ret_early, long *ret_late)
{
    const uint64_t begin = clock_usec();
    struct inf_engine_stats stats;

    for (uint32_t i = 0; i < N_WAVES; i++) {
        ask_wave(engine, jobs + i * (n_requests() / N_WAVES), n_requests() / N_WAVES);
        *ret_late = anonymous_bytes();
        if (i == 0)
            *ret_early = *ret_late;
        inf_engine_stats(engine, &stats);
        print_message("wave %u: %llu losses, %.1f s, %.1f MiB\n", i,
                      (unsigned long long)stats.n_device_losses,
                      (double)(clock_usec() - begin) * 1e-6, (double)*ret_late / (1 << 20));
    }
}

static struct inf_engine *open_engine(struct inf_model *model, const struct test_target *on)
{
    const struct inf_engine_params params = {
        .model = model, .device = on->device, .n_threads = 2, .n_ctx = 128, .max_seqs = 16};
    struct inf_engine *engine;
    struct inf_err err;

    ASSERT_OK_ERR(inf_engine_new(&params, &engine, &err), err);
    return engine;
}

/* From now on the share @rate of all submissions loses the device. */
static void set_losses(struct inf_engine *engine, uint64_t seed, double rate)
{
    struct backend *b = engine->sched->runner->backend;

    ASSERT_STREQ(b->ops->name, "vulkan");
    ((struct vkb_backend *)b)->fault = (struct vkb_fault){.rng = seed, .rate = rate};
}

static void compare(struct job *with, struct job *without)
{
    for (uint32_t i = 0; i < n_requests(); i++) {
        assert_true(with[i].over && without[i].over);
        if (with[i].finish != without[i].finish || with[i].n != without[i].n ||
            memcmp(with[i].tokens, without[i].tokens, with[i].n * sizeof(int32_t)) != 0)
            fail_msg("request %u: %u tokens, not the %u of a run without losses", i, with[i].n,
                     without[i].n);
        assert_int_equal(with[i].text.len, without[i].text.len);
        assert_memory_equal(with[i].text.data, without[i].text.data, with[i].text.len);
        str_done(&with[i].text);
        str_done(&without[i].text);
    }
}

TEST(requests_survive_a_device_that_is_lost_at_random)
{
    static struct job with[MAX_REQUESTS], without[MAX_REQUESTS];
    const struct inf_model_params params = {.path = test_golden("models/llama-gqa")};
    struct inf_engine_stats stats;
    struct inf_engine *engine;
    struct inf_model *model;
    struct test_target on;
    struct inf_err err;
    long early, late;

    if (!test_target_at(0, &on))
        skip();
    ASSERT_OK_ERR(inf_model_open(&params, &model, &err), err);
    for (uint32_t i = 0; i < n_requests(); i++) {
        job_init(&with[i], i, inf_model_info(model)->n_vocab);
        job_init(&without[i], i, inf_model_info(model)->n_vocab);
    }
    engine = open_engine(model, &on);
    ask_all(engine, without, &early, &late);
    inf_engine_free(engine);

    engine = open_engine(model, &on);
    set_losses(engine, 3, 0.01);
    ask_all(engine, with, &early, &late);
    inf_engine_stats(engine, &stats);
    inf_engine_free(engine);
    compare(with, without);
    assert_int_equal(stats.n_finished, n_requests());
    assert_true(stats.n_device_losses >= n_requests() / 100);
    assert_true(late - early < 4 << 20);
    inf_model_unref(model);
}

RUN_TESTS(cmocka_unit_test(requests_survive_a_device_that_is_lost_at_random))
