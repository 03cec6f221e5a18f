/* SPDX-License-Identifier: Apache-2.0 */
/* Tests channels, the parts of a text in which a model thinks (sched/channel.h), without an
 * engine. */
#include "lib/test.h"

#include "core/macros.h"
#include "sched/channel.h"

/* Follows the letters of @text as tokens, and writes the resulting letters to @ret_text. Where the
 * channel forces a letter, this letter replaces that of @text. Returns the number of the channel's
 * tokens. */
static uint32_t follow(const struct inf_channel *in, const char *text, char *ret_text,
                       char *ret_kinds)
{
    struct channel_state state;
    struct channel c;
    uint32_t n = 0;

    ASSERT_OK(channel_init(&c, in));
    channel_start(&c, &state);
    while (n < 60) {
        int32_t token = channel_forced(&c, &state);

        if (token < 0 && !*text)
            break;
        if (token < 0)
            token = *text++;
        ret_text[n] = (char)token;
        ret_kinds[n++] = ".tM"[channel_take(&c, &state, token)];
    }
    ret_text[n] = ret_kinds[n] = 0;
    channel_done(&c);
    return state.n_tokens;
}

/* Tokens of letters. */
#define TOKENS(...) ((const int32_t[]){__VA_ARGS__})

static void check(const struct inf_channel *in, const char *text, const char *result,
                  const char *kinds, uint32_t n_tokens)
{
    char got[64], got_kinds[64];

    assert_int_equal(follow(in, text, got, got_kinds), n_tokens);
    ASSERT_STREQ(got, result);
    ASSERT_STREQ(got_kinds, kinds);
}

TEST(a_channel_begins_and_ends_by_itself)
{
    struct inf_channel in = {.open = TOKENS('<', 't'),
                             .n_open = 2,
                             .close = TOKENS('/', '/', 't'),
                             .n_close = 3,
                             .budget = UINT32_MAX};

    check(&in, "<tab///tcd", "<tab///tcd", "MMttMMMM..", 8);
    /* Only the beginning of a text can be a channel, and a text has only one channel. */
    check(&in, "a<tb//t", "a<tb//t", ".......", 0);
    check(&in, "<ab", "<ab", "M..", 0);
    check(&in, "<t//t<ta//t", "<t//t<ta//t", "MMMMM......", 5);
    check(&in, "<ta/b", "<ta/b", "MMtMt", 5);
    in.lead = TOKENS(' ', '<');
    in.n_lead = 2;
    check(&in, "  <ta//tb", "  <ta//tb", "..MMtMMM.", 6);
    check(&in, " a<ta//tb", " a<ta//tb", ".........", 0);
    check(&in, "<<ta//tb", "<<ta//tb", "M.......", 0);
    in.is_open = true;
    check(&in, "ab//tc", "ab//tc", "ttMMM.", 5);
    in.is_open = false;
    in.n_open = 0;
    check(&in, "ab//tc", "ab//tc", "......", 0);
    check(&(struct inf_channel){0}, "ab", "ab", "..", 0);
}

TEST(a_used_up_budget_forces_the_end)
{
    struct inf_channel in = {
        .open = TOKENS('<'), .n_open = 1, .close = TOKENS('/', 't'), .n_close = 2, .budget = 3};

    check(&in, "<abcdef", "<abc/tdef", "MtttMM...", 6);
    check(&in, "<a/tdef", "<a/tdef", "MtMM...", 4);
    /* If the budget is used up within the end of the channel, the end is completed. */
    check(&in, "<ab/def", "<ab/tdef", "MttMM...", 5);
    in.budget = 0;
    check(&in, "<abc", "</tabc", "MMM...", 3);
    check(&in, "abc", "abc", "...", 0);
    in.budget = 2;
    in.forced = TOKENS('.', '/', 't', ' ');
    in.n_forced = 4;
    check(&in, "<abcd", "<ab./t cd", "MttMMMM..", 7);
    check(&in, "<a/cd", "<a/tcd", "MtMM..", 4);
    in.is_open = true;
    in.budget = 0;
    check(&in, "ab", "./t ab", "MMMM..", 4);
}

RUN_TESTS(cmocka_unit_test(a_channel_begins_and_ends_by_itself),
          cmocka_unit_test(a_used_up_budget_forces_the_end))
