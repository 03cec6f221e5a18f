/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the output of text: it must have only whole code points, no part of a stop string, and each
 * token once. */
#include "lib/test.h"

#include "core/macros.h"
#include "core/rng.h"
#include "core/str.h"
#include "core/utf8.h"
#include "fake_tokenizer.h"
#include "sched/output.h"

struct result {
    struct str text;
    uint32_t n_tokens;
    int32_t tokens[64];
    bool stopped;
    uint32_t i_stop;
};

static void take(struct output *o, struct result *res)
{
    struct output_part part;

    while (output_ready(o, &part)) {
        assert_true(utf8_valid(part.text, part.len));
        ASSERT_OK(str_append(&res->text, part.text, part.len));
        for (uint32_t i = 0; i < part.n_tokens; i++) {
            assert_true((double)part.tokens[i].logprob == -(double)res->n_tokens);
            assert_int_equal(part.tokens[i].n_top, 1);
            assert_int_equal(part.top[i].token, part.tokens[i].token);
            res->tokens[res->n_tokens++] = part.tokens[i].token;
        }
        output_drop(o, &part);
    }
}

static void run(const struct stop_set *set, const int32_t *tokens, uint32_t n, struct result *res)
{
    const struct output_params params = {.tok = fake_tokenizer, .stops = set, .n_top = 1};
    struct output o;
    int r = 0;

    *res = (struct result){0};
    ASSERT_OK(output_init(&o, &params));
    for (uint32_t i = 0; i < n && r == 0; i++) {
        const struct inf_top_logprob top = {tokens[i], 0};
        const struct output_token token = {.token = tokens[i], .logprob = -(float)i, .n_top = 1};

        r = output_push(&o, &token, &top, true, &res->i_stop);
        ASSERT_OK(r);
        take(&o, res);
    }
    if (r == 0)
        r = output_end(&o, &res->i_stop);
    res->stopped = r == OUTPUT_STOPPED;
    take(&o, res);
    output_done(&o);
}

TEST(stop_strings_match_at_every_split)
{
    static const char text[] = "Grüße: a sto st§top sSTOp stop more";
    static const int32_t as_word = FAKE_WORDS + 2;
    const struct inf_stop stop = {"stop", 4};
    struct stop_set set;
    struct result res;
    int32_t tokens[64];
    uint32_t n = 0;

    ASSERT_OK(stop_set_init(&set, &stop, 1));
    for (const char *p = text; *p; p++)
        tokens[n++] = (unsigned char)*p;
    run(&set, tokens, n, &res);
    assert_true(res.stopped);
    ASSERT_STREQ(res.text.data, "Grüße: a sto st§top sSTOp ");
    assert_int_equal(res.n_tokens, strlen(res.text.data));
    str_done(&res.text);

    /* Uses the same text, with "stop" as one token. */
    n = 0;
    for (const char *p = "xs"; *p; p++)
        tokens[n++] = *p;
    tokens[n++] = as_word;
    run(&set, tokens, n, &res);
    assert_true(res.stopped);
    ASSERT_STREQ(res.text.data, "xs");
    assert_int_equal(res.n_tokens, 2);
    str_done(&res.text);
    stop_set_done(&set);
}

TEST(a_partial_match_is_text_in_the_end)
{
    const struct inf_stop stop = {"stop", 4};
    const int32_t tokens[] = {'a', 's', 't', 'o'};
    struct stop_set set;
    struct result res;

    ASSERT_OK(stop_set_init(&set, &stop, 1));
    run(&set, tokens, 4, &res);
    assert_false(res.stopped);
    ASSERT_STREQ(res.text.data, "asto");
    assert_int_equal(res.n_tokens, 4);
    str_done(&res.text);
    stop_set_done(&set);
}

TEST(unfinished_code_points_leave_as_replacement)
{
    const int32_t tokens[] = {'a', 0xc3, 0xbc, 0xe2, 0x82};
    struct stop_set none = {0};
    struct result res;

    run(&none, tokens, 5, &res);
    ASSERT_STREQ(res.text.data, "aü\xef\xbf\xbd");
    assert_int_equal(res.n_tokens, 5);
    str_done(&res.text);
}

TEST(random_tokens_give_the_text_up_to_the_stop)
{
    static const int32_t alphabet[] = {
        's', 't', 'o', 'p', 0xc3, 0xbc, FAKE_WORDS, FAKE_WORDS + 1, FAKE_WORDS + 2, FAKE_WORDS + 3};
    const struct inf_stop stops[] = {{"stop", 4}, {"pp", 2}, {"ü", 2}};
    const struct stop_set none = {0};
    struct stop_set set;
    struct rng rng;

    rng_seed(&rng, 3);
    ASSERT_OK(stop_set_init(&set, stops, 3));
    for (unsigned round = 0; round < 5000; round++) {
        const uint32_t n = 1 + rng_u32(&rng) % 30;
        struct result whole, cut;
        int32_t tokens[32];
        const char *first = NULL;

        for (uint32_t i = 0; i < n; i++)
            tokens[i] = alphabet[rng_u32(&rng) % ARRAY_SIZE(alphabet)];
        run(&none, tokens, n, &whole);
        run(&set, tokens, n, &cut);
        assert_int_equal(whole.n_tokens, n);
        ASSERT_OK(str_puts(&whole.text, ""));
        ASSERT_OK(str_puts(&cut.text, ""));
        for (size_t i = 0; i < 3; i++) {
            const char *at = strstr(whole.text.data, stops[i].text);

            /* No stop string here overlaps the end of another, so the first match is unique. */
            if (at && (!first || at + stops[i].len < first))
                first = at + stops[i].len;
        }
        assert_int_equal(cut.stopped, first != NULL);
        if (first) {
            const size_t end = (size_t)(first - whole.text.data);

            assert_int_equal(cut.text.len, end - stops[cut.i_stop].len);
        } else {
            assert_int_equal(cut.text.len, whole.text.len);
        }
        assert_memory_equal(cut.text.data, whole.text.data, cut.text.len);
        assert_memory_equal(cut.tokens, tokens, cut.n_tokens * sizeof(tokens[0]));
        str_done(&whole.text);
        str_done(&cut.text);
    }
    stop_set_done(&set);
}

RUN_TESTS(cmocka_unit_test(stop_strings_match_at_every_split),
          cmocka_unit_test(a_partial_match_is_text_in_the_end),
          cmocka_unit_test(unfinished_code_points_leave_as_replacement),
          cmocka_unit_test(random_tokens_give_the_text_up_to_the_stop))
