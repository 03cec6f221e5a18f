/* SPDX-License-Identifier: Apache-2.0 */
/* Reads bodies of Anthropic's Messages API, and checks the conversations that they become. */
#include <infer/chat.h>

#include "chat/api/anthropic-body.h"
#include "chat/late-system.h"
#include "chat/short-ids.h"
#include "common/wire/json.h"
#include "lib/test.h"

struct result {
    struct params params;
    struct conversation c;
    struct anthropic_wishes wishes;
    struct problem problem;
};

/* Makes a JSON text from a text that has apostrophes instead of quotes. The caller frees it. */
static char *quoted(const char *text)
{
    char *copy = strdup(text);

    assert_non_null(copy);
    for (char *s = copy; *s; s++)
        if (*s == '\'')
            *s = '"';
    return copy;
}

static int read_with(struct result *result, const struct anthropic_rules *rules, const char *body)
{
    char *text = quoted(body);
    json_t *json = NULL;
    struct inf_err err = {};
    int r;

    *result = (struct result){0};
    ASSERT_OK_ERR(json_parse(text, strlen(text), &json, &err), err);
    r = anthropic_body_read(json, rules, &result->params, &result->c, &result->wishes,
                            &result->problem);
    json_decref(json);
    free(text);
    return r;
}

static int read_body(struct result *result, const char *body)
{
    return read_with(result, &(struct anthropic_rules){.drops_countdown = true}, body);
}

static void result_done(struct result *result)
{
    params_done(&result->params);
    conversation_done(&result->c);
}

static void assert_conversation(const struct conversation *c, const char *messages)
{
    struct str out = {0};
    char *want = quoted(messages);

    ASSERT_OK(conversation_put_messages(c, "reasoning", &out));
    ASSERT_STREQ(out.data, want);
    str_done(&out);
    free(want);
}

/* Checks the messages that a body with @fields becomes. */
static void check(const char *fields, const char *messages)
{
    char body[4096];
    struct result result;

    snprintf(body, sizeof(body), "{'max_tokens':1,%s}", fields);
    if (read_body(&result, body) < 0)
        fail_msg("%s", result.problem.message);
    assert_conversation(&result.c, messages);
    result_done(&result);
}

/* Checks that a body is refused, and that the error names the field. */
static void check_refused(const char *fields, const char *param)
{
    char body[4096];
    struct result result;

    snprintf(body, sizeof(body), "{'max_tokens':1,%s}", fields);
    if (read_body(&result, body) >= 0)
        fail_msg("%s is accepted", body);
    assert_int_equal(result.problem.status, 400);
    if (strcmp(result.problem.param, param) != 0)
        fail_msg("%s: the error names '%s' (%s)", body, result.problem.param,
                 result.problem.message);
    result_done(&result);
}

#define USER(content) "'messages':[{'role':'user','content':" content "}]"
#define HI            USER("'Hi'")
#define SAYS(text)    "{'role':'user','content':'" text "'}"

TEST(strings_and_blocks_become_messages)
{
    check("'system':'Be brief.'," HI, "[{'role':'system','content':'Be brief.'}," SAYS("Hi") "]");
    check("'system':[{'type':'text','text':'a','cache_control':{'type':'ephemeral'}},"
          "{'type':'text','text':'b'}]," USER("[{'type':'text','text':'Hi'}]"),
          "[{'role':'system','content':'a\\nb'}," SAYS("Hi") "]");
    check("'system':''," HI, "[" SAYS("Hi") "]");
    check("'messages':[{'role':'user','content':'a'},{'role':'user','content':'b'}]",
          "[" SAYS("a\\nb") "]");
    check(USER("[{'type':'document','title':'T','context':'C','source':{'type':'text',"
               "'media_type':'text/plain','data':'D'}},{'type':'document','source':{'type':"
               "'content','content':[{'type':'text','text':'E'}]}},{'type':'text','text':'?'}]"),
          "[" SAYS("T\\nC\\nD\\nE\\n?") "]");
}

#define CALL                                                                                       \
    "{'role':'user','content':'Hi'},{'role':'assistant','content':[{'type':'thinking',"            \
    "'thinking':'Hm.','signature':'s'},{'type':'redacted_thinking','data':'x'},{'type':'text',"    \
    "'text':'I '},{'type':'text','text':'look.'},{'type':'tool_use','id':'c1','name':'ls',"        \
    "'input':{'all':true}}]}"
#define CALLED                                                                                     \
    SAYS("Hi")                                                                                     \
    ",{'role':'assistant','content':'I look.','reasoning':'Hm.','tool_calls':[{"                   \
    "'type':'function','id':'c1','function':{'name':'ls','arguments':{'all':true}}}]}"
#define RESULT(text) "{'role':'tool','content':'" text "','name':'ls','tool_call_id':'c1'}"

TEST(results_of_tools_become_messages_of_tools)
{
    check("'messages':[" CALL ",{'role':'user','content':[{'type':'tool_result','tool_use_id':"
          "'c1','content':'a.c','is_error':false},{'type':'text','text':'Go on.'}]}]",
          "[" CALLED "," RESULT("a.c") "," SAYS("Go on.") "]");
    check("'messages':[" CALL ",{'role':'user','content':[{'type':'tool_result','tool_use_id':"
          "'c1','content':[{'type':'text','text':'a'},{'type':'text','text':'b'}],"
          "'is_error':true}]}]",
          "[" CALLED "," RESULT("Error: a\\nb") "]");
    check("'messages':[" CALL ",{'role':'user','content':[{'type':'tool_result','tool_use_id':"
          "'c1'}]}]",
          "[" CALLED "," RESULT("") "]");
}

/* Checks what the schema of an answer becomes. */
static void check_schema(const char *schema, const char *expected)
{
    char body[4096];
    char *want = quoted(expected);
    _cleanup_free_ char *text = NULL;
    struct result result;

    snprintf(body, sizeof(body),
             "{'max_tokens':1,'output_config':{'format':{'type':'json_schema','schema':%s}}," HI
             "}",
             schema);
    ASSERT_OK(read_body(&result, body));
    text = json_dumps(result.params.constraint.value, JSON_COMPACT);
    assert_string_equal(text, want);
    result_done(&result);
    free(want);
}

TEST(bounds_in_descriptions_are_restored)
{
    check_schema("{'type':'integer','description':'Days\\n\\n{minimum: 1, maximum: 7}'}",
                 "{'type':'integer','description':'Days\\n\\n{minimum: 1, maximum: 7}',"
                 "'minimum':1,'maximum':7}");
    check_schema("{'properties':{'a':{'description':'{exclusiveMinimum: 0.5, default: x}'}}}",
                 "{'properties':{'a':{'description':'{exclusiveMinimum: 0.5, default: x}',"
                 "'exclusiveMinimum':0.5}}}");
    check_schema("{'items':{'anyOf':[{'description':'{uniqueItems: True, minItems: 2}'}]}}",
                 "{'items':{'anyOf':[{'description':'{uniqueItems: True, minItems: 2}',"
                 "'minItems':2,'uniqueItems':true}]}}");
    check_schema("{'description':'{x}\\n\\nminimum: 1}'}",
                 "{'description':'{x}\\n\\nminimum: 1}'}");
    check_schema("{'description':'{maxLength: many, my minimum: 1, minLength: -}','maxItems':1}",
                 "{'description':'{maxLength: many, my minimum: 1, minLength: -}','maxItems':1}");
}

/* Checks that the answer continues a last message of the assistant with @content. */
static void check_prefill(const char *fields, const char *content, const char *reasoning,
                          const char *text)
{
    char body[4096];
    const struct message *m;
    struct result result;

    snprintf(body, sizeof(body),
             "{'max_tokens':1,%s'messages':[" SAYS("Hi") ",{'role':'assistant','content':%s}]}",
             fields, content);
    if (read_body(&result, body) < 0)
        fail_msg("%s", result.problem.message);
    m = conversation_continued(&result.c);
    assert_non_null(m);
    assert_string_equal(m->reasoning ? json_string_value(m->reasoning) : "", reasoning);
    assert_string_equal(m->text ? json_string_value(m->text) : "", text);
    assert_conversation(&result.c, "[" SAYS("Hi") "]");
    result_done(&result);
}

/* Checks the words of Anthropic's API in an error about a last message of the assistant. */
static void check_prefill_refused(const char *fields, const char *content, const char *words)
{
    char body[4096];
    struct result result;

    snprintf(body, sizeof(body),
             "{'max_tokens':1,%s'messages':[" SAYS("Hi") ",{'role':'assistant','content':%s}]}",
             fields, content);
    assert_true(read_body(&result, body) < 0);
    assert_int_equal(result.problem.status, 400);
    if (!strstr(result.problem.message, words) || !strstr(result.problem.message, "messages"))
        fail_msg("%s: %s", body, result.problem.message);
    result_done(&result);
}

#define THINKS  "'thinking':{'type':'enabled','budget_tokens':9},"
#define THOUGHT "{'type':'thinking','thinking':'Hm.','signature':'s'}"

TEST(an_answer_continues_a_last_message_of_the_assistant)
{
    check_prefill("", "'The answer is'", "", "The answer is");
    check_prefill("", "[{'type':'text','text':'The '},{'type':'text','text':'answer'}]", "",
                  "The answer");
    check_prefill("", "''", "", "");
    check_prefill("", "[]", "", "");
    check_prefill("", "'A'},{'role':'assistant','content':'B'", "", "AB");
    check_prefill(THINKS, "[" THOUGHT ",{'type':'text','text':'It'}]", "Hm.", "It");
    check_prefill("'thinking':{'type':'adaptive'},", "'It'", "", "It");
    check_prefill("'tools':[{'name':'a','input_schema':{}}],'tool_choice':{'type':'any'},", "'I'",
                  "", "I");
    check_prefill_refused("", "'The answer is '", "cannot end with trailing whitespace");
    check_prefill_refused("", "[{'type':'text','text':'x\\n'}]",
                          "cannot end with trailing whitespace");
    check_prefill_refused("", "[{'type':'tool_use','id':'t1','name':'n','input':{}}]",
                          "`tool_use` ids were found without `tool_result` blocks immediately "
                          "after: t1");
    check_prefill_refused("", "[" THOUGHT ",{'type':'text','text':'x'}]",
                          "When thinking is disabled, an `assistant` message in the final position "
                          "cannot contain `thinking`");
    check_prefill_refused(THINKS, "[{'type':'text','text':'x'}]",
                          "messages[1].content[0].type: Expected `thinking` or "
                          "`redacted_thinking`, but found `text`");
    check_prefill_refused(THINKS, "'x'", "Expected `thinking`");
    check_prefill_refused(THINKS, "[" THOUGHT "]",
                          "The final block in an assistant message cannot be `thinking`");
    check_prefill_refused("'output_config':{'format':{'type':'json_schema','schema':{}}},", "'{'",
                          "Prefill is not possible together with 'output_config.format.schema'");
}

TEST(errors_name_the_path)
{
    static const struct {
        const char *fields, *param;
    } cases[] = {
        {"'x':1," HI, "x"},
        {"'model':'m'", "messages"},
        {"'messages':[]", "messages"},
        {"'messages':[1]", "messages[0]"},
        {"'messages':[{'role':'tool','content':'x'}]", "messages[0].role"},
        {"'messages':[{'role':'user'}]", "messages[0].content"},
        {"'messages':[{'role':'user','content':'x','name':'n'}]", "messages[0].name"},
        {USER("[{'type':'text','text':'x','bold':1}]"), "messages[0].content[0].bold"},
        {USER("[{'type':'text','text':1}]"), "messages[0].content[0].text"},
        {USER("[{'type':'text','text':'x','cache_control':1}]"),
         "messages[0].content[0].cache_control"},
        {USER("['x']"), "messages[0].content[0]"},
        {USER("[{'text':'x'}]"), "messages[0].content[0].type"},
        {USER("[{'type':'image','source':{}}]"), "messages[0].content[0]"},
        {USER("[{'type':'document','source':{'type':'base64','data':'x'}}]"),
         "messages[0].content[0].source"},
        {USER("[{'type':'document'}]"), "messages[0].content[0].source"},
        {USER("[{'type':'document','citations':{'enabled':true},'source':{}}]"),
         "messages[0].content[0].citations"},
        {USER("[{'type':'tool_use','id':'1','name':'n','input':{}}]"), "messages[0].content[0]"},
        {USER("[{'type':'tool_result','tool_use_id':'c9'}]"), "messages[0].content[0].tool_use_id"},
        {"'messages':[" CALL ",{'role':'user','content':[{'type':'tool_result','tool_use_id':"
         "'c1','content':[{'type':'image'}]}]}]",
         "messages[2].content[0].content[0]"},
        {"'messages':[" CALL "]", "messages[1]"},
        {"'messages':[{'role':'assistant','content':[{'type':'tool_use','id':'1','name':'n',"
         "'input':'{}'}]}," SAYS("x") "]",
         "messages[0].content[0].input"},
        {"'system':[{'type':'image'}]," HI, "system[0]"},
        {"'system':5," HI, "system"},
        {"'temperature':1.5," HI, "temperature"},
        {"'stop_sequences':['a','']," HI, "stop_sequences[1]"},
        {"'stop_sequences':'a'," HI, "stop_sequences"},
        {"'thinking':{'type':'enabled'}," HI, "thinking.budget_tokens"},
        {"'thinking':{'type':'adaptive','budget_tokens':9}," HI, "thinking.budget_tokens"},
        {"'thinking':{'type':'deep'}," HI, "thinking.type"},
        {"'thinking':{'type':'disabled','x':1}," HI, "thinking.x"},
        {"'output_config':{'effort':'none'}," HI, "output_config.effort"},
        {"'output_config':{'format':{'type':'json_schema'}}," HI, "output_config.format.schema"},
        {"'context_management':{'edits':[{'type':'compact_20260112'}]}," HI,
         "context_management.edits[0]"},
        {"'mcp_servers':[{}]," HI, "mcp_servers"},
        {"'container':'c'," HI, "container"},
        {"'service_tier':'batch'," HI, "service_tier"},
        {"'metadata':{'user_id':1}," HI, "metadata.user_id"},
        {"'tools':[{'name':'a'}]," HI, "tools[0].input_schema"},
        {"'tools':[{'name':'a b','input_schema':{}}]," HI, "tools[0]"},
        {"'tools':[{'name':'a','input_schema':{}},{'name':'a','input_schema':{}}]," HI, "tools[1]"},
        {"'tools':[{'type':'web_search_20250305','name':'web_search'}]," HI, "tools[0]"},
        {"'tools':[{'name':'a','input_schema':{},'x':1}]," HI, "tools[0].x"},
        {"'tools':[{'name':'a','input_schema':{},'allowed_callers':['code']}]," HI,
         "tools[0].allowed_callers"},
        {"'tool_choice':{'type':'any'}," HI, "tool_choice"},
        {"'tool_choice':{'type':'tool','name':'b'}," HI, "tool_choice.name"},
        {"'tool_choice':{'type':'auto','name':'b'}," HI, "tool_choice.name"},
        {"'tool_choice':{'type':'some'}," HI, "tool_choice.type"},
    };
    struct result result;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        check_refused(cases[i].fields, cases[i].param);
    ASSERT_ERROR(read_body(&result, "{" HI "}"), EINVAL);
    ASSERT_STREQ(result.problem.param, "max_tokens");
    result_done(&result);
    ASSERT_OK(read_with(&result, &(struct anthropic_rules){.counts = true}, "{" HI "}"));
    result_done(&result);
}

TEST(tools_get_the_format_of_templates)
{
    struct result result;
    char *want = quoted("[{'type':'function','function':{'name':'a','description':'d',"
                        "'parameters':{'type':'object'},'strict':true}}]");
    char *text;

    ASSERT_OK(read_body(&result, "{'max_tokens':1,'tools':[{'name':'a','description':'d',"
                                 "'input_schema':{'type':'object'},'cache_control':{'type':"
                                 "'ephemeral'},'strict':true}],'tool_choice':{'type':'tool',"
                                 "'name':'a','disable_parallel_tool_use':true}," HI "}"));
    text = json_dumps(result.c.tools, JSON_COMPACT);
    ASSERT_STREQ(text, want);
    assert_int_equal(result.params.tools.choice, TOOLS_NAMED);
    ASSERT_STREQ(json_string_value(result.params.tools.name), "a");
    assert_true(result.params.tools.single);
    free(text);
    free(want);
    result_done(&result);
    ASSERT_OK(read_body(&result, "{'max_tokens':1,'tools':[{'type':'bash_20250124','name':"
                                 "'bash'}],'tool_choice':{'type':'any'}," HI "}"));
    text = json_dumps(result.c.tools, JSON_COMPACT);
    ASSERT_CONTAINS(text, "\"name\":\"bash\"");
    ASSERT_CONTAINS(text, "\"command\"");
    assert_int_equal(result.params.tools.choice, TOOLS_REQUIRED);
    free(text);
    result_done(&result);
}

TEST(parameters_are_read)
{
    struct result result;

    ASSERT_OK(read_body(&result,
                        "{'max_tokens':64000,'temperature':0.5,'top_p':0,'top_k':4,"
                        "'stop_sequences':['a','b'],'stream':true,'thinking':{'type':"
                        "'enabled','budget_tokens':2000,'display':'omitted'},"
                        "'output_config':{'effort':'high','format':{'type':'json_schema',"
                        "'schema':{}}},'metadata':{'user_id':'u'},'context_management':"
                        "{'edits':[{'type':'clear_thinking_20251015','keep':'all'}]},"
                        "'service_tier':'auto','mcp_servers':[],'container':null," HI "}"));
    assert_int_equal(result.params.max_tokens, 64000);
    assert_true(result.params.sampling.temperature == 0.5f);
    assert_true(result.params.sampling.top_p > 0 && result.params.sampling.top_p < 1e-6f);
    assert_int_equal(result.params.sampling.top_k, 4);
    assert_int_equal(result.params.n_stops, 2);
    assert_true(result.params.stream && result.wishes.hides_thinking);
    assert_int_equal(result.params.reasoning.enabled, 1);
    assert_int_equal(result.params.reasoning.budget, 2000);
    ASSERT_STREQ(json_string_value(result.params.reasoning.effort), "high");
    assert_int_equal(result.params.constraint.kind, CONSTRAINT_SCHEMA);
    result_done(&result);
    ASSERT_OK(read_body(&result, "{'max_tokens':1,'thinking':{'type':'adaptive'}," HI "}"));
    assert_int_equal(result.params.reasoning.enabled, -1);
    result_done(&result);
    ASSERT_OK(read_body(&result, "{'max_tokens':1," HI "}"));
    assert_int_equal(result.params.reasoning.enabled, 0);
    result_done(&result);
}

#define BILLING      "x-anthropic-billing-header: cc_version=2.1.197.ba5; cc_entrypoint=cli; cch="
#define LEFT(n)      "<total_tokens>" n " tokens left</total_tokens>"
#define BLOCKS(a, b) "'system':[{'type':'text','text':'" a "'},{'type':'text','text':'" b "'}],"
#define IS(text)     "[{'role':'system','content':'" text "'}," SAYS("Hi") "]"

TEST(volatile_lines_of_claude_code_are_left_out)
{
    check(BLOCKS(BILLING "ab12f;", "You help.") HI, IS("You help."));
    check(BLOCKS("You help.\\n\\n" LEFT("199985") "\\n\\ngitStatus: clean", "b") HI,
          IS("You help.\\n\\ngitStatus: clean\\nb"));
    check(BLOCKS("You help.\\n\\n" LEFT("7"), "b") HI, IS("You help.\\nb"));
    check(BLOCKS("You help.\\n\\n" LEFT("7") "\\n\\n" LEFT("Infinite"), "b") HI,
          IS("You help.\\nb"));
    check("'messages':[" SAYS("Hi") ",{'role':'system','content':'" LEFT("5") "\\n\\n" LEFT(
              "4") "'}]",
          "[" SAYS("Hi") "]");
    check("'messages':[" SAYS("Hi") ",{'role':'system','content':[{'type':'text','text':'Note.\\n"
                                    "\\n" LEFT("4") "'}]}]",
          "[" SAYS("Hi") ",{'role':'system','content':'Note.'}]");
}

TEST(quoted_lines_are_untouched)
{
    /* Here the line is in a text of the user, or in a tool's result. */
    check(USER("'" LEFT("5") "'"), "[" SAYS(LEFT("5")) "]");
    check(
        USER("[{'type':'text','text':'" BILLING "ab12f;'},{'type':'text','text':'" LEFT("5") "'}]"),
        "[" SAYS(BILLING "ab12f;\\n" LEFT("5")) "]");
    check("'messages':[" CALL ",{'role':'user','content':[{'type':'tool_result','tool_use_id':"
          "'c1','content':'" LEFT("5") "'}]}]",
          "[" CALLED "," RESULT(LEFT("5")) "]");
    /* Here the line is not in the field, or not at the place, where the client puts it. */
    check("'system':'" BILLING "ab12f;'," HI, IS(BILLING "ab12f;"));
    check("'system':'" LEFT("5") "'," HI, IS(LEFT("5")));
    check(BLOCKS("You help.", BILLING "ab12f;") HI, IS("You help.\\n" BILLING "ab12f;"));
    check(BLOCKS(BILLING "ab12f;\\nmore", "b") HI, IS(BILLING "ab12f;\\nmore\\nb"));
    check(BLOCKS("It says " BILLING "ab12f;", "b") HI, IS("It says " BILLING "ab12f;\\nb"));
    /* Here the line is not a paragraph of its own, or it has other text. */
    check(BLOCKS("```\\n" LEFT("5") "\\n```", "b") HI, IS("```\\n" LEFT("5") "\\n```\\nb"));
    check(BLOCKS("a\\n\\n> " LEFT("5"), "b") HI, IS("a\\n\\n> " LEFT("5") "\\nb"));
    check(BLOCKS("a\\n\\n" LEFT("five"), "b") HI, IS("a\\n\\n" LEFT("five") "\\nb"));
    check(BLOCKS("a\\n\\n" LEFT("5") ".\\n\\nc", "b") HI, IS("a\\n\\n" LEFT("5") ".\\n\\nc\\nb"));
}

TEST(the_rule_can_be_switched_off)
{
    const struct anthropic_rules rules = {0};
    struct result result;

    ASSERT_OK(
        read_with(&result, &rules, "{'max_tokens':1," BLOCKS(BILLING "ab12f;", LEFT("5")) HI "}"));
    assert_conversation(&result.c, IS(BILLING "ab12f;\\n" LEFT("5")));
    result_done(&result);
}

#define LATE(text) ",{'role':'system','content':'" text "'}"
#define MARK(text) "<system-reminder>\\n" text "\\n</system-reminder>"

static void check_merged(const char *messages, const char *want)
{
    char body[2048];
    struct result result;

    snprintf(body, sizeof(body), "{'max_tokens':1,'system':'S','messages':[%s]}", messages);
    ASSERT_OK(read_body(&result, body));
    assert_true(late_system_exists(&result.c));
    ASSERT_OK(late_system_merge(&result.c));
    assert_false(late_system_exists(&result.c));
    assert_conversation(&result.c, want);
    result_done(&result);
}

TEST(system_messages_in_mid_conversation_can_be_merged)
{
    check_merged(SAYS("Hi") LATE("a") LATE("b"), "[{'role':'system','content':'S'}," SAYS(
                                                     "Hi\\n\\n" MARK("a") "\\n\\n" MARK("b")) "]");
    check_merged(SAYS("a") LATE("b") "," SAYS("c") LATE("d"),
                 "[{'role':'system','content':'S'}," SAYS(
                     "a\\n\\n" MARK("b") "\\n\\nc\\n\\n" MARK("d")) "]");
    check_merged(CALL ",{'role':'user','content':[{'type':'tool_result','tool_use_id':'c1',"
                      "'content':'x'}]}" LATE("a"),
                 "[{'role':'system','content':'S'}," CALLED "," RESULT("x\\n\\n" MARK("a")) "]");
    check_merged(CALL LATE("a") "," SAYS("b"),
                 "[{'role':'system','content':'S'}," CALLED "," SAYS(MARK("a") "\\n\\nb") "]");
}

static bool is_native(const char *template)
{
    struct inf_chat_template *tmpl = NULL;
    struct inf_err err;
    bool native;

    ASSERT_OK_ERR(inf_chat_template_new(template, strlen(template), &tmpl, &err), err);
    native = late_system_is_native(tmpl);
    inf_chat_template_free(tmpl);
    return native;
}

TEST(a_template_is_tried_first)
{
    assert_true(is_native("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"));
    /* The next templates drop late system messages, move them, and refuse them. */
    assert_false(is_native("{% for m in messages %}{% if loop.first or m.role != 'system' %}"
                           "{{ m.content }}{% endif %}{% endfor %}"));
    assert_false(is_native("{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}"
                           "{% endif %}{% endfor %}{% for m in messages %}{% if m.role != 'system' "
                           "%}{{ m.content }}{% endif %}{% endfor %}"));
    assert_false(is_native("{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
                           "{{ raise_exception('no') }}{% endif %}{{ m.content }}{% endfor %}"));
}

TEST(ids_of_calls_can_be_short)
{
    struct result result;
    json_t *id;

    assert_true(short_ids_needed("Tool call IDs should be alphanumeric strings with length 9!"));
    ASSERT_OK(read_body(&result, "{'max_tokens':1,'messages':[" CALL ",{'role':'user','content':["
                                 "{'type':'tool_result','tool_use_id':'c1'}]}]}"));
    ASSERT_OK(short_ids_set(&result.c));
    id = json_incref(result.c.messages[1].calls[0].id);
    assert_int_equal(json_string_length(id), 9);
    assert_true(json_equal(id, result.c.messages[2].call_id));
    ASSERT_OK(short_ids_set(&result.c));
    assert_true(json_equal(id, result.c.messages[2].call_id));
    json_decref(id);
    result_done(&result);
}

RUN_TESTS(cmocka_unit_test(strings_and_blocks_become_messages),
          cmocka_unit_test(results_of_tools_become_messages_of_tools),
          cmocka_unit_test(bounds_in_descriptions_are_restored),
          cmocka_unit_test(an_answer_continues_a_last_message_of_the_assistant),
          cmocka_unit_test(errors_name_the_path),
          cmocka_unit_test(tools_get_the_format_of_templates),
          cmocka_unit_test(parameters_are_read),
          cmocka_unit_test(volatile_lines_of_claude_code_are_left_out),
          cmocka_unit_test(quoted_lines_are_untouched),
          cmocka_unit_test(the_rule_can_be_switched_off),
          cmocka_unit_test(system_messages_in_mid_conversation_can_be_merged),
          cmocka_unit_test(a_template_is_tried_first), cmocka_unit_test(ids_of_calls_can_be_short))
