/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the tokens that the rules forbid with openai-whisper's logit filters (tests/golden). */
#include "unit/transcribe/golden.h"

#include <math.h>

#include "transcribe/rules.h"

enum { HEAD_VOCAB, HEAD_EOT, HEAD_NO_TIMESTAMPS, HEAD_BEGIN, HEAD_MAX_FIRST };

static void check_case(const struct rules *r, FILE *f)
{
    size_t n_said;
    _cleanup_free_ int32_t *said = golden_row(f, &n_said);
    _cleanup_free_ float *logits = golden_array(f, r->n_vocab, sizeof(float));
    _cleanup_free_ int32_t *forbidden = golden_array(f, r->n_vocab, sizeof(int32_t));

    rules_apply(r, said, n_said, logits);
    for (uint32_t i = 0; i < r->n_vocab; i++)
        assert_int_equal(isinf(logits[i]) != 0, forbidden[i]);
}

TEST(forbidden_tokens_are_those_of_the_reference)
{
    FILE *f = golden_open("audio/rules.bin");
    size_t n_head, n_forbidden, n_first, n_cases = 0;
    _cleanup_free_ int32_t *head = golden_row(f, &n_head);
    _cleanup_free_ int32_t *forbidden = golden_row(f, &n_forbidden);
    _cleanup_free_ int32_t *first = golden_row(f, &n_first);
    const struct rules r = {
        .n_vocab = (uint32_t)head[HEAD_VOCAB],
        .end_of_text = head[HEAD_EOT],
        .no_timestamps = head[HEAD_NO_TIMESTAMPS],
        .timestamp_begin = head[HEAD_BEGIN],
        .forbidden = forbidden,
        .n_forbidden = n_forbidden,
        .not_first = first,
        .n_not_first = n_first,
        .timestamps = true,
        .max_first_at = (uint32_t)head[HEAD_MAX_FIRST],
    };

    for (; !golden_end(f); n_cases++)
        check_case(&r, f);
    assert_int_equal(n_cases, 60);
    fclose(f);
}

TEST(without_times_only_lists_count)
{
    const int32_t forbidden[] = {1}, first[] = {2, 5};
    const struct rules r = {.n_vocab = 9,
                            .end_of_text = 5,
                            .no_timestamps = -1,
                            .timestamp_begin = 6,
                            .forbidden = forbidden,
                            .n_forbidden = 1,
                            .not_first = first,
                            .n_not_first = 2};
    float logits[9] = {0};

    rules_apply(&r, (const int32_t[]){4}, 1, logits);
    for (int i = 0; i < 9; i++)
        assert_int_equal(isinf(logits[i]) != 0, i == 1);
    rules_apply(&r, NULL, 0, logits);
    for (int i = 0; i < 9; i++)
        assert_int_equal(isinf(logits[i]) != 0, i == 1 || i == 2 || i == 5);
}

TEST(the_likeliest_of_some_is_found)
{
    const float logits[] = {9, 3, 1, 4};

    assert_int_equal(rules_likeliest(logits, (const int32_t[]){2, 1, 3}, 3), 2);
    assert_int_equal(rules_likeliest(logits, NULL, 0), -1);
}

RUN_TESTS(cmocka_unit_test(forbidden_tokens_are_those_of_the_reference),
          cmocka_unit_test(without_times_only_lists_count),
          cmocka_unit_test(the_likeliest_of_some_is_found))
