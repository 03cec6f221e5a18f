/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the beginning of an answer in the form in which the model would have written it. */
#include "chat/reply/prefill.h"

#include <string.h>

#include "chat/reply/parser-state.h"

static int prefill_put_string(const json_t *string, struct str *out)
{
    return string ? str_append(out, json_string_value(string), json_string_length(string)) : 0;
}

/* Writes the thinking, and the header of the message to which the text belongs, as gpt-oss writes
 * them. The prompt ends after <|start|>assistant. If the model must call a tool, the text is not
 * the final message, so its channel is "commentary". */
static int prefill_put_harmony(const struct reply *reply, const json_t *reasoning, struct str *out)
{
    const bool calls = reply->n_tools && reply->choice != TOOLS_AUTO;
    int r = 0;

    if (json_string_length(reasoning)) {
        r = str_puts(out, "<|channel|>analysis<|message|>");
        r = r < 0 ? r : prefill_put_string(reasoning, out);
        r = r < 0 ? r : str_puts(out, "<|end|><|start|>assistant");
    }
    return r < 0 ? r : str_printf(out, "<|channel|>%s<|message|>", calls ? "commentary" : "final");
}

/* Returns whether a prompt ends with the end marker of thinking, apart from whitespace after it.
 * The thinking before the marker may be empty. */
static bool prefill_is_thought(const struct thinking_marks *marks, const char *prompt, size_t len)
{
    const size_t n = strlen(marks->close);

    while (len && parser_is_space(prompt[len - 1]))
        len--;
    return len >= n && memcmp(prompt + len - n, marks->close, n) == 0;
}

static int prefill_put_thinking(const struct reply *reply, const char *prompt, size_t len,
                                const json_t *reasoning, struct str *out)
{
    const struct thinking_marks *marks = reply->thinking;
    const bool is_open = reply_prompt_is_open(marks, prompt, len);
    const bool in_lines = strcmp(marks->close, "</think>") == 0;
    int r = 0;

    if (!is_open && (!json_string_length(reasoning) || prefill_is_thought(marks, prompt, len)))
        return 0;
    if (!is_open)
        r = str_printf(out, "%s%s", marks->open, in_lines ? "\n" : "");
    r = r < 0 ? r : prefill_put_string(reasoning, out);
    return r < 0 ? r : str_printf(out, in_lines ? "\n%s\n\n" : "%s", marks->close);
}

int prefill_put(struct reply *reply, const char *prompt, size_t len, const json_t *reasoning,
                const json_t *text, struct str *out)
{
    const bool harmony = reply->format && reply->format->body == BODY_HARMONY;
    int r = 0;

    reply->continues = json_string_length(text) > 0;
    if (!reply->continues && !json_string_length(reasoning))
        return 0;
    if (harmony) {
        reply->continues = true;
        r = prefill_put_harmony(reply, reasoning, out);
    } else if (reply->thinking) {
        r = prefill_put_thinking(reply, prompt, len, reasoning, out);
    }
    return r < 0 ? r : prefill_put_string(text, out);
}
