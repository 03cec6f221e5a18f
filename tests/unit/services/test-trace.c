/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"

#include "lib/test.h"
#include "sim.h"

#define M(ids, tokens)                                                                             \
    "{\"timestamp\": 5, \"input_length\": " #tokens ", \"output_length\": 3, \"hash_ids\": " ids   \
    "}\n"
#define Q(ids, tokens)                                                                             \
    "{\"chat_id\": 1, \"parent_chat_id\": -1, \"timestamp\": 0.25, \"input_length\": " #tokens     \
    ", \"output_length\": 3, \"type\": \"text\", \"turn\": 1, \"hash_ids\": " ids "}\n"

static int read_text(const char *text, bool partial, struct trace **ret, struct inf_err *err)
{
    FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    int r;

    assert_non_null(f);
    r = trace_read(f, partial, ret, err);
    fclose(f);
    return r;
}

TEST(both_formats_are_recognized_by_their_first_line)
{
    struct inf_err err;
    struct trace *t = NULL;

    ASSERT_OK_ERR(read_text(M("[7, 8]", 1024) M("[7, 9]", 1024), false, &t, &err), err);
    ASSERT_STREQ(t->format, "mooncake");
    assert_int_equal(t->block_tokens, 512);
    assert_int_equal(t->n_requests, 2);
    assert_int_equal(t->n_blocks, 3);
    assert_int_equal(t->chain[0], t->chain[2]);
    assert_int_equal(t->parents[t->chain[3]], t->chain[0]);
    assert_int_equal(t->parents[t->chain[0]], TRACE_NO_BLOCK);
    trace_free(t);

    ASSERT_OK_ERR(read_text("\n" Q("[5, 6, 7]", 48), false, &t, &err), err);
    ASSERT_STREQ(t->format, "qwen");
    assert_int_equal(t->block_tokens, 16);
    assert_int_equal(t->n_chain, 3);
    trace_free(t);
}

TEST(blocks_that_are_not_full_are_left_out_unless_asked_for)
{
    struct inf_err err;
    struct trace *t = NULL;

    ASSERT_OK_ERR(read_text(M("[1, 2, 3]", 1025) M("[4]", 100), false, &t, &err), err);
    assert_int_equal(t->n_chain, 2);
    assert_int_equal(t->requests[1].n, 0);
    trace_free(t);
    ASSERT_OK_ERR(read_text(M("[1, 2, 3]", 1025) M("[4]", 100), true, &t, &err), err);
    assert_int_equal(t->n_chain, 4);
    trace_free(t);
}

TEST(one_hash_behind_two_prefixes_is_two_blocks)
{
    struct inf_err err;
    struct trace *t = NULL;

    ASSERT_OK_ERR(read_text(M("[1, 3]", 1024) M("[2, 3]", 1024), false, &t, &err), err);
    assert_int_equal(t->n_blocks, 4);
    trace_free(t);
}

TEST(bad_lines_are_reported_by_number)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"", "no requests"},
        {M("[1]", 512) "{\"timestamp\"\n", "line 2, column"},
        {"[1]\n", "line 1: an object"},
        {M("[1]", 512) Q("[1]", 16), "line 2: this is of another format"},
        {M("[1]", 512) M("[\"1\"]", 512), "line 2: hash_ids has an entry"},
        {M("{}", 512), "line 1: hash_ids"},
        {M("[1]", -1), "line 1: input_length"},
        {M("[1]", "a"), "line 1: input_length"},
        {"{\"timestamp\": 0.5, \"input_length\": 1, \"hash_ids\": []}\n", "line 1: timestamp"},
        {"{\"input_length\": 1, \"hash_ids\": []}\n", "line 1: timestamp"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct inf_err err = {0};
        struct trace *t = NULL;

        ASSERT_ERROR(read_text(cases[i].text[0] ? cases[i].text : "\n", false, &t, &err), EINVAL);
        ASSERT_CONTAINS(err.text, cases[i].want);
    }
}

TEST(a_slice_has_numbers_of_its_own)
{
    struct inf_err err;
    struct trace *t = NULL, *part = NULL;

    ASSERT_OK_ERR(read_text(M("[1, 2]", 1024) M("[5, 6]", 1024) M("[5, 7]", 1024), false, &t, &err),
                  err);
    ASSERT_OK(trace_slice(t, 1, 3, &part));
    assert_int_equal(part->n_requests, 2);
    assert_int_equal(part->n_blocks, 3);
    assert_int_equal(part->chain[0], 0);
    assert_int_equal(part->chain[2], 0);
    assert_int_equal(part->parents[part->chain[3]], 0);
    trace_free(part);
    trace_free(t);
}

TEST(only_whole_prefixes_hit)
{
    static const char text[] =
        M("[1, 2, 3]", 1536) M("[1, 2, 3]", 1536) M("[8, 9]", 1024) M("[1, 2, 3]", 1536);
    struct sim_result result;
    struct inf_err err;
    struct trace *t = NULL;

    ASSERT_OK_ERR(read_text(text, false, &t, &err), err);
    for (int who = 0; who < SIM_CONTENDERS; who++) {
        ASSERT_OK(sim_run(t, (enum contender_id)who, 100, &result));
        assert_int_equal(result.asked, 11);
        assert_int_equal(result.hits, 6);
    }
    /* Three blocks fit. The last blocks of chains are evicted first, so two of the three blocks
     * make room for the two new blocks. */
    ASSERT_OK(sim_run(t, SIM_LRU, 3, &result));
    assert_int_equal(result.hits, 4);
    ASSERT_OK(sim_run(t, SIM_OPTIMAL, 3, &result));
    assert_int_equal(result.hits, 6);
    assert_int_equal(result.late, 5);
    assert_int_equal(result.late_hits, 3);
    trace_free(t);
}

RUN_TESTS(cmocka_unit_test(both_formats_are_recognized_by_their_first_line),
          cmocka_unit_test(blocks_that_are_not_full_are_left_out_unless_asked_for),
          cmocka_unit_test(one_hash_behind_two_prefixes_is_two_blocks),
          cmocka_unit_test(bad_lines_are_reported_by_number),
          cmocka_unit_test(a_slice_has_numbers_of_its_own),
          cmocka_unit_test(only_whole_prefixes_hit))
