/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of the formats of calls and of thinking
 *
 * The rows come from the chat templates that the makers of these models published until 2026. The
 * first row that fits a template is used. Therefore rows with rarer markers come first.
 */
#include <string.h>

#include "chat/reply/parser-state.h"

static const struct reply_format formats[] = {
    {
        .name = "harmony", /* gpt-oss */
        .needles = {"<|channel|>", "<|message|>"},
        .openers = {"<|channel|>", "<|start|>"},
        .body = BODY_HARMONY,
        .step = call_harmony_step,
        .stops = {"<|call|>", "<|return|>"},
        .shown = {"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>"},
    },
    {
        .name = "gemma4",
        .needles = {"<|tool_call>", "<tool_call|>"},
        .openers = {"<|tool_call>"},
        .body = BODY_GEMMA,
        .marks = {.open = "<|tool_call>", .close = "<tool_call|>", .surrounds = true},
        .step = call_literal_step,
        .stops = {"<|tool_response>"},
        .shown = {"<|\"|>"},
    },
    {
        .name = "minimax", /* MiniMax M2 */
        .needles = {"<minimax:tool_call>"},
        .openers = {"<minimax:tool_call>"},
        .body = BODY_XML,
        .marks = {.open = "<minimax:tool_call>",
                  .call = "<invoke name=\"",
                  .name_end = "\">",
                  .key = "<parameter name=\"",
                  .key_end = "\">",
                  .value_end = "</parameter>",
                  .call_end = "</invoke>",
                  .close = "</minimax:tool_call>"},
        .step = call_xml_step,
    },
    {
        .name = "deepseek-v3.2",
        .needles = {"｜DSML｜"},
        .openers = {"<｜DSML｜function_calls>"},
        .body = BODY_XML,
        .marks = {.open = "<｜DSML｜function_calls>",
                  .call = "<｜DSML｜invoke name=\"",
                  .name_end = "\">",
                  .key = "<｜DSML｜parameter name=\"",
                  .key_end = "\" string=\"",
                  .value_end = "</｜DSML｜parameter>",
                  .call_end = "</｜DSML｜invoke>",
                  .close = "</｜DSML｜function_calls>",
                  .typed = true},
        .step = call_xml_step,
        .shown = {"｜DSML｜"},
    },
    {
        .name = "deepseek-v3", /* DeepSeek V3 and R1 */
        .needles = {"<｜tool▁calls▁begin｜>", "```json"},
        .openers = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>"},
        .body = BODY_NAMED,
        .marks = {.open = "<｜tool▁calls▁begin｜>",
                  .call = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
                  .name_end = "```json",
                  .call_end = "```<｜tool▁call▁end｜>",
                  .close = "<｜tool▁calls▁end｜>",
                  .newline = "\n"},
        .step = call_json_step,
    },
    {
        .name = "deepseek-v3.1",
        .needles = {"<｜tool▁calls▁begin｜>"},
        .openers = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"},
        .body = BODY_NAMED,
        .marks = {.open = "<｜tool▁calls▁begin｜>",
                  .call = "<｜tool▁call▁begin｜>",
                  .name_end = "<｜tool▁sep｜>",
                  .call_end = "<｜tool▁call▁end｜>",
                  .close = "<｜tool▁calls▁end｜>"},
        .step = call_json_step,
    },
    {
        .name = "kimi-k2",
        .needles = {"<|tool_calls_section_begin|>"},
        .openers = {"<|tool_calls_section_begin|>", "<|tool_call_begin|>"},
        .body = BODY_NAMED,
        .marks = {.open = "<|tool_calls_section_begin|>",
                  .call = "<|tool_call_begin|>",
                  .name_end = "<|tool_call_argument_begin|>",
                  .call_end = "<|tool_call_end|>",
                  .close = "<|tool_calls_section_end|>"},
        .ids = ID_KIMI,
        .step = call_json_step,
    },
    {
        .name = "glm", /* GLM 4.5 and later */
        .needles = {"<arg_key>", "<arg_value>"},
        .openers = {"<tool_call>"},
        .body = BODY_XML,
        .marks = {.open = "<tool_call>",
                  .key = "<arg_key>",
                  .key_end = "</arg_key>",
                  .value = "<arg_value>",
                  .value_end = "</arg_value>",
                  .call_end = "</tool_call>",
                  .surrounds = true},
        .step = call_xml_step,
    },
    {
        .name = "qwen-xml", /* Qwen3-Coder, Qwen3.5 and later */
        .needles = {"<function=", "<parameter="},
        .openers = {"<tool_call>", "<function="},
        .body = BODY_XML,
        .marks = {.open = "<tool_call>",
                  .call = "<function=",
                  .name_end = ">",
                  .key = "<parameter=",
                  .key_end = ">",
                  .value_end = "</parameter>",
                  .call_end = "</function>",
                  .close = "</tool_call>",
                  .surrounds = true,
                  .trims = true},
        .step = call_xml_step,
    },
    {
        .name = "granite", /* Granite 3, Phi-4-mini */
        .needles = {"<|tool_call|>"},
        .openers = {"<|tool_call|>", "<tool_call>"},
        .body = BODY_ARRAY,
        .marks = {.open = "<|tool_call|>", .close = "<|/tool_call|>"},
        .argument_key = "arguments",
        .step = call_json_step,
    },
    {
        .name = "lfm2",
        .needles = {"<|tool_call_start|>"},
        .or_needle = "<|tool_list_start|>",
        .openers = {"<|tool_call_start|>"},
        .body = BODY_PYTHON,
        .marks = {.open = "<|tool_call_start|>", .close = "<|tool_call_end|>"},
        .step = call_literal_step,
    },
    {
        .name = "mistral-named", /* Mistral Small 3.2, Magistral, Devstral, Ministral 3 */
        .needles = {"[TOOL_CALLS]", "[ARGS]"},
        .openers = {"[TOOL_CALLS]"},
        .body = BODY_NAMED,
        .marks = {.open = "[TOOL_CALLS]", .name_end = "[ARGS]", .surrounds = true},
        .ids = ID_NINE,
        .step = call_json_step,
    },
    {
        .name = "mistral", /* Mistral 7B v0.3, Nemo, Small 3.1 */
        .needles = {"[TOOL_CALLS]"},
        .openers = {"[TOOL_CALLS]"},
        .body = BODY_ARRAY,
        .marks = {.open = "[TOOL_CALLS]", .name_end = "[ARGS]"},
        .ids = ID_NINE,
        .argument_key = "arguments",
        .step = call_json_step,
    },
    {
        .name = "hermes", /* Qwen2.5, Qwen3, Hermes, Bonsai, Granite 4, SmolLM3 */
        .needles = {"<tool_call>"},
        .openers = {"<tool_call>"},
        .body = BODY_OBJECT,
        .marks = {.open = "<tool_call>", .close = "</tool_call>", .surrounds = true},
        .argument_key = "arguments",
        .step = call_json_step,
    },
    {
        .name = "pythonic", /* Llama 3.2 and 4 with calls in Python's syntax */
        .needles = {"[func_name1("},
        .openers = {"<|python_start|>"},
        .bare = true,
        .body = BODY_PYTHON,
        .marks = {.close = "<|python_end|>"},
        .step = call_literal_step,
        .stops = {"<|eom_id|>", "<|eom|>"},
    },
    {
        .name = "llama3",
        .needles = {"tools", "\"parameters\": "},
        .or_needle = "<|python_tag|>",
        .openers = {"<|python_tag|>"},
        .bare = true,
        .body = BODY_OBJECT,
        .argument_key = "parameters",
        .step = call_json_step,
        .stops = {"<|eom_id|>", "<|eot_id|>"},
    },
    {
        .name = "json", /* templates with tools, but without a format that is known here */
        .needles = {"tools"},
        .bare = true,
        .body = BODY_OBJECT,
        .argument_key = "arguments",
        .step = call_json_step,
    },
};

/* The first row whose `needle` is in the template is used. */
static const struct thinking_marks thinkings[] = {
    {"<|channel|>analysis<|message|>", "<|end|>", "<|channel|>"},
    {"<|channel>thought\n", "<channel|>", "<channel|>"},
    {"[THINK]", "[/THINK]", "[THINK]"},
    {"<seed:think>", "</seed:think>", "<seed:think>"},
    {"<|START_THINKING|>", "<|END_THINKING|>", "<|START_THINKING|>"},
    {"◁think▷", "◁/think▷", "◁think▷"},
    {"<think>", "</think>", "<think>"},
    {"<think>", "</think>", "</think>"},
};

static bool format_fits(const struct reply_format *f, const char *source)
{
    if (f->or_needle && strstr(source, f->or_needle))
        return true;
    for (size_t i = 0; i < ARRAY_SIZE(f->needles) && f->needles[i]; i++)
        if (!strstr(source, f->needles[i]))
            return false;
    return true;
}

const struct reply_format *reply_format_find(const char *source)
{
    for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
        if (format_fits(&formats[i], source))
            return &formats[i];
    return NULL;
}

const struct reply_format *reply_format_at(size_t i)
{
    return i < ARRAY_SIZE(formats) ? &formats[i] : NULL;
}

const struct reply_format *reply_format_named(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

const struct thinking_marks *thinking_find(const char *source)
{
    for (size_t i = 0; i < ARRAY_SIZE(thinkings); i++)
        if (strstr(source, thinkings[i].needle))
            return &thinkings[i];
    return NULL;
}
