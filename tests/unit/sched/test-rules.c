/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the parameters that restrict a text: grammars, channels, the least number of tokens, tokens
 * that end a text, and tokens that are shown. The grammars are lists of texts (fake_matcher.h).
 */
#include "rig.h"

#include <errno.h>
#include <math.h>
#include <time.h>

#define N_REQUESTS 40

static struct inf_grammar some_texts = {
    .texts = {"yes", "no", "stop it", "abababababababababab", "maybe über", "n"}};

static const int32_t prompt[] = {'a', 'b', 'c'};

/* Generates the bytes of a text after the prompt, then EOS. */
static void scripted(void *data, const struct null_row *row, float *logits, uint32_t n_vocab)
{
    const char *script = data;
    const size_t i = row->pos >= 2 ? row->pos - 2 : 0;

    for (uint32_t v = 0; v < n_vocab; v++)
        logits[v] = (float)(v % 7) * 0.1f;
    logits[i < strlen(script) ? (unsigned char)script[i] : FAKE_EOS] = 10;
}

static struct choice run_script(const char *script, const struct inf_request *q)
{
    const struct null_options null = {
        .logits = scripted, .data = (void *)(uintptr_t)script, .makes_lists = true};
    struct inf_request copy = *q;
    struct outcome o;

    copy.tokens = prompt;
    copy.n_tokens = 3;
    if (!q->n_logprobs)
        copy.n_logprobs = -1;
    rig_alone(&null, 64, &copy, &o);
    return o.choices[0];
}

static void check_script(const char *script, const struct inf_request *q, const char *text,
                         enum inf_finish finish, uint32_t n_generated)
{
    struct choice c = run_script(script, q);

    ASSERT_STREQ(c.text.data ? c.text.data : "", text);
    assert_int_equal(c.finish, finish);
    assert_int_equal(c.n_generated, n_generated);
    str_done(&c.text);
    str_done(&c.ids);
}

static bool is_some_text(const char *text)
{
    for (unsigned i = 0; some_texts.texts[i]; i++)
        if (strcmp(some_texts.texts[i], text) == 0)
            return true;
    return false;
}

static void guided_request(struct random_request *r, uint64_t seed)
{
    static const int32_t open[] = {'m'}, close[] = {' '}, stop[] = {'e'};

    random_request(r, seed, 40, 30);
    if (seed % 4 != 0)
        r->q.grammar = &some_texts;
    if (seed % 3 == 0)
        r->q.min_tokens = (uint32_t)seed % 5;
    if (seed % 5 == 0)
        r->q.channel = (struct inf_channel){
            .open = open, .n_open = 1, .close = close, .n_close = 1, .budget = 4};
    if (seed % 7 == 0) {
        r->q.stop_tokens = stop;
        r->q.n_stop_tokens = 1;
    }
    if (seed % 6 == 0) {
        r->q.sampling.dry_multiplier = 1;
        r->q.sampling.dry_base = 1.5f;
        r->q.sampling.dry_allowed_length = 2;
    }
    if (seed % 8 == 1) {
        r->q.sampling.mirostat = 2;
        r->q.sampling.mirostat_tau = 3;
        r->q.sampling.mirostat_eta = 0.1f;
    }
    r->q.post_logprobs = seed % 9 == 0;
}

static void check_guided(const struct rig_params *params, uint64_t seed)
{
    static struct outcome outcomes[N_REQUESTS];
    static struct random_request requests[N_REQUESTS];
    uint32_t n_whole = 0;
    struct rig rig;
    struct rng rng;

    rng_seed(&rng, seed);
    rig_init(&rig, params);
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        guided_request(&requests[i], seed * 1000 + i);
        outcomes[i] = (struct outcome){.n_choices = requests[i].q.n_choices};
        requests[i].q.user = &outcomes[i];
        outcomes[i].id = rig_submit(&rig, &requests[i].q);
        for (uint32_t k = rng_u32(&rng) % 4; k > 0; k--)
            sched_tick(rig.sched);
        rig_collect(&rig, outcomes, N_REQUESTS);
    }
    rig_finish(&rig, outcomes, N_REQUESTS);
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        const struct choice *c = &outcomes[i].choices[0];
        struct outcome alone;

        rig_alone(&params->null, params->n_ctx, &requests[i].q, &alone);
        outcomes_equal(&outcomes[i], &alone);
        if (requests[i].q.grammar && c->finish == INF_FINISH_STOP && c->stop_token != 'e') {
            assert_true(is_some_text(c->text.data));
            n_whole++;
        }
        outcome_done(&alone);
        outcome_done(&outcomes[i]);
    }
    rig_done(&rig);
    assert_true(n_whole > 5);
    assert_int_equal(some_texts.n_refs, 0);
}

TEST(guided_texts_do_not_depend_on_other_requests)
{
    for (uint64_t seed = 1; seed < 5; seed++) {
        check_guided(&(struct rig_params){.null = {.seed = 7}, .n_ctx = 80}, seed);
        check_guided(&(struct rig_params){.null = {.seed = 7}, .n_ctx = 80, .n_blocks = 22}, seed);
        check_guided(
            &(struct rig_params){.null = {.seed = 7, .makes_lists = true, .lose_one_in = 30},
                                 .n_ctx = 80},
            seed);
    }
}

TEST(a_grammar_ends_the_text_when_it_is_complete)
{
    struct inf_grammar g = {.texts = {"Hello", "Hell", "Help!"}};

    /* After "Hell" the text may end or continue, and the model continues. After "Hello" no further
     * step is needed. */
    check_script("Hello STOP", &(struct inf_request){.grammar = &g}, "Hello", INF_FINISH_STOP, 5);
    check_script("Hell", &(struct inf_request){.grammar = &g}, "Hell", INF_FINISH_STOP, 5);
    /* The model prefers tokens that the grammar forbids. */
    check_script("Hexxx", &(struct inf_request){.grammar = &g}, "Hello", INF_FINISH_STOP, 5);
    check_script("Hello", &(struct inf_request){.grammar = &g, .max_tokens = 3}, "Hel",
                 INF_FINISH_LENGTH, 3);
    check_script("Hell", &(struct inf_request){.grammar = &g, .ignore_eos = true}, "Hello",
                 INF_FINISH_STOP, 5);
    check_script("Hell", &(struct inf_request){.grammar = &g, .min_tokens = 30}, "Hello",
                 INF_FINISH_STOP, 5);
    assert_int_equal(g.n_refs, 0);
}

TEST(errors_of_grammars_end_the_choice)
{
    struct inf_grammar none = {.texts = {NULL}}, broken = {.texts = {"a"}, .mask_error = -E2BIG};
    struct inf_grammar g = {.texts = {"ab"}};
    const struct inf_logit_bias bias = {'b', -100};
    struct choice c;

    c = run_script("a", &(struct inf_request){.grammar = &none});
    assert_int_equal(c.finish, INF_FINISH_ERROR);
    ASSERT_STREQ(c.error, "the grammar permits no token that could come next");
    c = run_script("a", &(struct inf_request){.grammar = &broken});
    assert_int_equal(c.finish, INF_FINISH_ERROR);
    ASSERT_STREQ(c.error, "the grammar reached a limit of its size");
    /* After "c" the grammar permits only the token "b", which the bias excludes. The text "ab"
     * could not be used here, because it is also a single token. */
    g.texts[0] = "cb";
    c = run_script("cb", &(struct inf_request){
                             .grammar = &g, .sampling = {.logit_bias = &bias, .n_logit_bias = 1}});
    assert_int_equal(c.finish, INF_FINISH_ERROR);
    str_done(&c.text);
    str_done(&c.ids);
}

TEST(logprobs_beside_a_grammar_are_those_of_raw_logits)
{
    struct inf_grammar g = {.texts = {"x"}};
    const struct inf_request q = {.grammar = &g, .n_logprobs = 0};
    const struct null_options null = {.logits = scripted, .data = (void *)(uintptr_t) "y"};
    struct inf_request copy = q;
    struct outcome o;
    double sum = 0;

    copy.tokens = prompt;
    copy.n_tokens = 3;
    for (uint32_t v = 0; v < FAKE_N_VOCAB; v++)
        sum += exp(v == 'y' ? 10 : v % 7 * 0.1);
    rig_alone(&null, 64, &copy, &o);
    ASSERT_STREQ(o.choices[0].text.data, "x");
    assert_true(fabs(o.choices[0].logprobs - ('x' % 7 * 0.1 - log(sum))) < 1e-4);
    outcome_done(&o);
    /* After all stages of sampling, which include the mask of the grammar, "x" is certain. */
    copy.post_logprobs = true;
    rig_alone(&null, 64, &copy, &o);
    assert_true(o.choices[0].logprobs == 0);
    outcome_done(&o);
}

TEST(a_channel_hides_stops_and_has_a_budget)
{
    static const int32_t open[] = {'<'}, close[] = {'>'}, stop[] = {'!'};
    const struct inf_stop stops[] = {{"STOP", 4}};
    struct inf_request q = {
        .channel = {.open = open, .n_open = 1, .close = close, .n_close = 1, .budget = UINT32_MAX},
        .stops = stops,
        .n_stops = 1,
        .stop_tokens = stop,
        .n_stop_tokens = 1};
    struct choice c;

    check_script("<a STOP!b>c STOP", &q, "<a STOP!b>c ", INF_FINISH_STOP_TEXT, 16);
    check_script("<a>b!c", &q, "<a>b", INF_FINISH_STOP, 5);
    check_script("a STOP", &q, "a ", INF_FINISH_STOP_TEXT, 6);
    /* The script's letters stand at fixed places, so the forced token replaces one of them. */
    q.channel.budget = 3;
    check_script("<abcdefg", &q, "<abc>efg", INF_FINISH_STOP, 9);
    q.max_tokens = 2;
    check_script("<abcdefg", &q, "<a", INF_FINISH_LENGTH, 2);
    q.channel.beside_length = true;
    check_script("<abcdefg", &q, "<abc>ef", INF_FINISH_LENGTH, 7);
    check_script("abcdefg", &q, "ab", INF_FINISH_LENGTH, 2);
    c = run_script("<abcdefg", &q);
    assert_int_equal(c.n_channel, 5);
    str_done(&c.text);
    str_done(&c.ids);
    /* The model ends the text inside of the channel. */
    q.channel.budget = UINT32_MAX;
    check_script("<ab", &q, "<ab", INF_FINISH_STOP, 4);
}

TEST(a_forced_end_passes_the_grammar)
{
    static const int32_t open[] = {'<'}, close[] = {'>'}, forced[] = {'.', '>'};
    struct inf_grammar g = {.texts = {"<abc>d", "<abcdefg"}}, strict = {.texts = {"<abcdefg"}};
    struct inf_request q = {
        .channel = {.open = open, .n_open = 1, .close = close, .n_close = 1, .budget = 3},
        .grammar = &g,
        .n_logprobs = 2};
    struct choice c;

    check_script("<abcdefg", &q, "<abc>d", INF_FINISH_STOP, 6);
    q.grammar = &strict;
    q.channel.forced = forced;
    q.channel.n_forced = 2;
    c = run_script("<abcdefg", &q);
    assert_int_equal(c.finish, INF_FINISH_ERROR);
    ASSERT_STREQ(c.error, "the grammar does not permit the end of the reasoning");
    str_done(&c.text);
    str_done(&c.ids);
}

TEST(a_text_has_its_least_number_of_tokens)
{
    static const int32_t stop[] = {'b'};
    const struct inf_stop stops[] = {{"cd", 2}};

    check_script("ab", &(struct inf_request){.min_tokens = 2}, "ab", INF_FINISH_STOP, 3);
    /* Because EOS is forbidden, the most likely token is the first whose number is 6 modulo 7. */
    check_script("ab", &(struct inf_request){.min_tokens = 4, .max_tokens = 4}, "ab\x06\x06",
                 INF_FINISH_LENGTH, 4);
    check_script("ab", &(struct inf_request){.stop_tokens = stop, .n_stop_tokens = 1}, "a",
                 INF_FINISH_STOP, 2);
    check_script("ab",
                 &(struct inf_request){.stop_tokens = stop, .n_stop_tokens = 1, .min_tokens = 2},
                 "a\x06", INF_FINISH_STOP, 3);
    check_script("abcdecde", &(struct inf_request){.stops = stops, .n_stops = 1, .min_tokens = 5},
                 "abcde", INF_FINISH_STOP_TEXT, 7);
}

TEST(the_token_that_ended_a_text_is_told_and_shown)
{
    static const int32_t shown[] = {FAKE_EOS};
    struct choice c = run_script("ab", &(struct inf_request){.n_logprobs = 0});

    assert_int_equal(c.stop_token, FAKE_EOS);
    str_done(&c.text);
    str_done(&c.ids);
    check_script("ab", &(struct inf_request){.shown_tokens = shown, .n_shown_tokens = 1},
                 "ab" FAKE_EOS_TEXT, INF_FINISH_STOP, 3);
    c = run_script("ab", &(struct inf_request){.max_tokens = 1});
    assert_int_equal(c.stop_token, -1);
    str_done(&c.text);
    str_done(&c.ids);
}

static uint32_t count_heads(const struct dry_breakers *b, int32_t token, const char *tail)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < b->n_heads; i++) {
        bool same = b->heads[i].token == token && b->heads[i].n_tail == strlen(tail);

        for (uint32_t k = 0; same && k < strlen(tail); k++)
            same = b->tails[b->heads[i].tail + k] == (unsigned char)tail[k];
        n += same;
    }
    return n;
}

TEST(breakers_begin_in_tokens)
{
    static const struct inf_breaker list[] = {{"op", 2}, {"ppx", 3}, {"b", 1}};
    struct dry_breakers found;
    struct breakers b;

    breakers_init(&b, fake_tokenizer, FAKE_N_VOCAB);
    ASSERT_OK(breakers_find(&b, list, 3, &found));
    assert_int_equal(count_heads(&found, FAKE_WORDS + 2, ""), 1);   /* "stop" has "op" in it */
    assert_int_equal(count_heads(&found, FAKE_WORDS + 2, "px"), 1); /* its "p" begins "ppx" */
    assert_int_equal(count_heads(&found, FAKE_WORDS + 1, ""), 1);   /* "ab" */
    assert_int_equal(count_heads(&found, 'o', "p"), 1);
    assert_int_equal(count_heads(&found, 'p', "px"), 1);
    assert_int_equal(count_heads(&found, 'b', ""), 1);
    assert_int_equal(count_heads(&found, FAKE_WORDS + 3, ""), 1); /* " über" */
    assert_int_equal(found.n_heads, 7);
    for (uint32_t i = 1; i < found.n_heads; i++)
        assert_true(found.heads[i - 1].token <= found.heads[i].token);
    dry_breakers_done(&found);
    breakers_done(&b);
}

TEST(masks_are_computed_beside_the_steps)
{
    struct inf_grammar g = {.texts = {"0123456789", "abcdefghij"}, .mask_usec = 200};
    const struct rig_params params = {.null = {.seed = 3}};
    static struct outcome outcomes[6];
    const struct timespec pause = {0, 1000000};
    struct rig rig;

    rig_init(&rig, &params);
    ASSERT_OK(sched_start(rig.sched));
    for (uint32_t i = 0; i < 6; i++) {
        const struct inf_request q = {
            .tokens = prompt, .n_tokens = 3, .grammar = &g, .user = &outcomes[i]};

        outcomes[i] = (struct outcome){.n_choices = 1};
        outcomes[i].id = rig_submit(&rig, &q);
    }
    for (uint32_t n = 0; n < 6;) {
        nanosleep(&pause, NULL);
        rig_collect(&rig, outcomes, 6);
        n = 0;
        for (uint32_t i = 0; i < 6; i++)
            n += outcomes[i].n_finished;
    }
    rig_done(&rig);
    /* One mask is computed for each token. No mask is computed twice, and none after the end. */
    assert_int_equal(g.n_masks, 60);
    assert_int_equal(g.n_refs, 0);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(outcomes[i].choices[0].finish, INF_FINISH_STOP);
        outcome_done(&outcomes[i]);
    }
}

TEST(guided_requests_can_be_canceled_at_any_time)
{
    struct inf_grammar g = {.texts = {"0123456789", "abcdefghij"}, .mask_usec = 50};
    const struct rig_params params = {.null = {.seed = 3}};
    static struct outcome outcomes[30];
    const struct timespec pause = {0, 300000};
    struct rig rig;

    for (unsigned round = 0; round < 4; round++) {
        rig_init(&rig, &params);
        ASSERT_OK(sched_start(rig.sched));
        for (uint32_t i = 0; i < 30; i++) {
            const struct inf_request q = {.tokens = prompt,
                                          .n_tokens = 3,
                                          .n_choices = 2,
                                          .grammar = &g,
                                          .user = &outcomes[i]};

            outcomes[i] = (struct outcome){.n_choices = 2};
            outcomes[i].id = rig_submit(&rig, &q);
            nanosleep(&pause, NULL);
            if (i % 2)
                sched_cancel(rig.sched, outcomes[i].id);
        }
        rig_done(&rig); /* also ends the other requests */
        assert_int_equal(g.n_refs, 0);
    }
}

RUN_TESTS(cmocka_unit_test(guided_texts_do_not_depend_on_other_requests),
          cmocka_unit_test(a_grammar_ends_the_text_when_it_is_complete),
          cmocka_unit_test(errors_of_grammars_end_the_choice),
          cmocka_unit_test(logprobs_beside_a_grammar_are_those_of_raw_logits),
          cmocka_unit_test(a_channel_hides_stops_and_has_a_budget),
          cmocka_unit_test(a_forced_end_passes_the_grammar),
          cmocka_unit_test(a_text_has_its_least_number_of_tokens),
          cmocka_unit_test(the_token_that_ended_a_text_is_told_and_shown),
          cmocka_unit_test(breakers_begin_in_tokens),
          cmocka_unit_test(guided_requests_can_be_canceled_at_any_time),
          cmocka_unit_test(masks_are_computed_beside_the_steps))
