/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds pieces of answers to Anthropic's API, and checks the events of the stream and the whole
 * answer. */
#include "chat/generation.h"
#include "chat/template.h"
#include "lib/test.h"

/* These functions replace the rest of the service. */
struct usage generation_usage(const struct generation *g)
{
    return (struct usage){100, 64, g->n_finished ? 7 : 0, g->n_finished ? 3 : 0};
}

const char *generation_finish_word(const struct generation *g, const struct choice *c)
{
    return g->api->finishes[c->finish];
}

size_t generation_max_prompt(const struct generation *g)
{
    (void)g;
    return 0;
}

int conversation_prepare(struct generation *g, struct problem *problem)
{
    (void)g;
    (void)problem;
    return 0;
}

struct rig {
    struct generation g;
    struct choice choice;
    struct chat_resident resident;
    char name[8];
};

static void rig_init(struct rig *rig, bool streaming)
{
    const struct chat_api *api = &api_anthropic_messages;

    *rig = (struct rig){.name = "tiny"};
    rig->resident.base.name = rig->name;
    rig->g = (struct generation){.api = api,
                                 .id = "msg_1",
                                 .resident = &rig->resident,
                                 .choices = &rig->choice,
                                 .n_choices = 1,
                                 .request.streaming = streaming};
    rig->g.own = calloc(1, api->own_size);
    rig->choice.own = calloc(1, api->choice_size);
    assert_true(rig->g.own && rig->choice.own);
    ASSERT_OK(api->begin(&rig->g));
}

static void rig_done(struct rig *rig)
{
    free(rig->g.own);
    free(rig->choice.own);
    str_done(&rig->g.out);
    str_done(&rig->choice.text);
    str_done(&rig->choice.reasoning);
}

static void feed(struct rig *rig, enum piece_kind kind, const char *text)
{
    const struct piece piece = {.kind = kind, .text = text, .len = strlen(text), .id = "call_1"};

    ASSERT_OK(rig->g.api->piece(&rig->g, &rig->choice, &piece));
}

static void end(struct rig *rig, enum finish finish)
{
    rig->choice.finish = finish;
    rig->g.n_finished = 1;
    ASSERT_OK(rig->g.api->finish(&rig->g, &rig->choice));
    ASSERT_OK(rig->g.api->end(&rig->g));
}

#define EVENT(name, rest) "event: " name "\ndata: {\"type\":\"" name "\"" rest "}\n\n"
#define START                                                                                      \
    EVENT("message_start",                                                                         \
          ",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\","            \
          "\"model\":\"tiny\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,"         \
          "\"usage\":{\"input_tokens\":36,\"cache_creation_input_tokens\":0,"                      \
          "\"cache_read_input_tokens\":64,\"output_tokens\":0,"                                    \
          "\"output_tokens_details\":{\"thinking_tokens\":0},\"service_tier\":\"standard\"}}")
#define DELTA(i, type, field, text)                                                                \
    EVENT("content_block_delta",                                                                   \
          ",\"index\":" i ",\"delta\":{\"type\":\"" type "\",\"" field "\":\"" text "\"}")
#define BLOCK(i, block) EVENT("content_block_start", ",\"index\":" i ",\"content_block\":" block)
#define STOP(i)         EVENT("content_block_stop", ",\"index\":" i)
#define END(reason, sequence)                                                                      \
    EVENT("message_delta",                                                                         \
          ",\"delta\":{\"stop_reason\":\"" reason "\",\"stop_sequence\":" sequence                 \
          "},\"usage\":{\"input_tokens\":36,\"cache_creation_input_tokens\":0,"                    \
          "\"cache_read_input_tokens\":64,\"output_tokens\":7,"                                    \
          "\"output_tokens_details\":{\"thinking_tokens\":3}}")                                    \
    EVENT("message_stop", "")
#define TEXT     "{\"type\":\"text\",\"text\":\"\"}"
#define THINKING "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}"

TEST(blocks_follow_each_other_in_order)
{
    struct rig rig;

    rig_init(&rig, true);
    feed(&rig, PIECE_REASONING, "Let me");
    feed(&rig, PIECE_REASONING, " see.");
    feed(&rig, PIECE_TEXT, "I \"look\".");
    feed(&rig, PIECE_CALL, "Bash");
    feed(&rig, PIECE_ARGUMENTS, "{\"a\"");
    feed(&rig, PIECE_ARGUMENTS, ":1}");
    feed(&rig, PIECE_CALL, "Stop");
    end(&rig, FINISH_CALLS);
    ASSERT_STREQ(
        rig.g.out.data,
        START BLOCK("0", THINKING) DELTA("0", "thinking_delta", "thinking",
                                         "Let me") DELTA("0", "thinking_delta", "thinking", " see.")
            DELTA("0", "signature_delta", "signature", "msg_1") STOP("0") BLOCK("1", TEXT)
                DELTA("1", "text_delta", "text", "I \\\"look\\\".") STOP("1") BLOCK(
                    "2", "{\"type\":\"tool_use\",\"id\":\"call_1\",\"name\":\"Bash\",\"input\":{}}")
                    DELTA("2", "input_json_delta", "partial_json", "{\\\"a\\\"")
                        DELTA("2", "input_json_delta", "partial_json", ":1}") STOP("2")
                            BLOCK("3", "{\"type\":\"tool_use\",\"id\":\"call_1\","
                                       "\"name\":\"Stop\",\"input\":{}}") STOP("3")
                                END("tool_use", "null"));
    rig_done(&rig);
}

TEST(an_empty_answer_has_no_block)
{
    struct rig rig;

    rig_init(&rig, true);
    end(&rig, FINISH_LENGTH);
    ASSERT_STREQ(rig.g.out.data, START END("max_tokens", "null"));
    rig_done(&rig);
}

TEST(the_stop_sequence_is_told)
{
    struct rig rig;

    rig_init(&rig, true);
    rig.choice.stop_text = "\n";
    feed(&rig, PIECE_TEXT, "a");
    end(&rig, FINISH_STOP_TEXT);
    ASSERT_STREQ(rig.g.out.data, START BLOCK("0", TEXT) DELTA("0", "text_delta", "text", "a")
                                     STOP("0") END("stop_sequence", "\"\\n\""));
    rig_done(&rig);
}

static void collect(struct rig *rig, const char *arguments)
{
    static struct made_call call;
    char id[] = "call_1", name[] = "Bash";

    call = (struct made_call){.id = id, .name = {name, 4, 5}};
    ASSERT_OK(str_puts(&call.arguments, arguments));
    ASSERT_OK(str_puts(&rig->choice.reasoning, "Hm."));
    ASSERT_OK(str_puts(&rig->choice.text, "I look."));
    rig->choice.calls = &call;
    rig->choice.n_calls = 1;
    end(rig, FINISH_CALLS);
    str_done(&call.arguments);
}

#define WHOLE(input)                                                                               \
    "{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"tiny\","            \
    "\"content\":[{\"type\":\"thinking\",\"thinking\":\"Hm.\",\"signature\":\"msg_1\"},"           \
    "{\"type\":\"text\",\"text\":\"I look.\"},{\"type\":\"tool_use\",\"id\":\"call_1\","           \
    "\"name\":\"Bash\",\"input\":" input "}],\"stop_reason\":\"tool_use\","                        \
    "\"stop_sequence\":null,\"usage\":{\"input_tokens\":36,\"cache_creation_input_tokens\":0,"     \
    "\"cache_read_input_tokens\":64,\"output_tokens\":7,"                                          \
    "\"output_tokens_details\":{\"thinking_tokens\":3},\"service_tier\":\"standard\"}}"

TEST(a_whole_answer_has_the_same_blocks)
{
    static const struct {
        const char *arguments, *answer;
    } cases[] = {
        {"{\"a\":[1]}", WHOLE("{\"a\":[1]}")},
        {"", WHOLE("{}")},
        {"{\"a\":", WHOLE("{\"INVALID_JSON\":\"{\\\"a\\\":\"}")},
        {"[1]", WHOLE("{\"INVALID_JSON\":\"[1]\"}")},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct rig rig;

        rig_init(&rig, false);
        collect(&rig, cases[i].arguments);
        ASSERT_STREQ(rig.g.out.data, cases[i].answer);
        rig_done(&rig);
    }
}

RUN_TESTS(cmocka_unit_test(blocks_follow_each_other_in_order),
          cmocka_unit_test(an_empty_answer_has_no_block),
          cmocka_unit_test(the_stop_sequence_is_told),
          cmocka_unit_test(a_whole_answer_has_the_same_blocks))
