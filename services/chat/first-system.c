/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out whether a template knows system messages, and merges them with messages of the user. */
#include "chat/first-system.h"

#include <errno.h>
#include <infer/chat.h>
#include <string.h>

static bool first_system_is(const struct message *m)
{
    return m->role == ROLE_SYSTEM || m->role == ROLE_DEVELOPER;
}

bool first_system_exists(const struct conversation *c)
{
    return c->n_messages && first_system_is(&c->messages[0]);
}

/* Returns whether @messages can be rendered and the rendered text has all words of the
 * NULL-terminated list @words. */
static bool first_system_rendered(const struct inf_chat_template *tmpl, const char *messages,
                                  const char *const *words)
{
    const struct inf_chat_input input = {
        .messages = messages, .add_generation_prompt = true, .limits.max_steps = 200000};
    _cleanup_free_ char *text = NULL;
    struct inf_err err = {};
    size_t len;

    if (inf_chat_render(tmpl, &input, &text, &len, &err) < 0)
        return false;
    while (*words && strstr(text, *words))
        words++;
    return !*words;
}

bool first_system_is_native(const struct inf_chat_template *tmpl)
{
    static const char *const words[] = {"zqA", "zqB", NULL};

    return first_system_rendered(tmpl,
                                 "[{\"role\":\"system\",\"content\":\"zqA\"},{\"role\":\"user\","
                                 "\"content\":\"zqB\"}]",
                                 words) ||
           !first_system_rendered(tmpl, "[{\"role\":\"user\",\"content\":\"zqB\"}]", words + 1);
}

/* Appends the text of a message as a paragraph. */
static int first_system_put(const struct message *m, struct str *out)
{
    int r = 0;

    if (!m->text || !json_string_length(m->text))
        return 0;
    if (out->len)
        r = str_puts(out, "\n\n");
    return r < 0 ? r : str_append(out, json_string_value(m->text), json_string_length(m->text));
}

int first_system_merge(struct conversation *c)
{
    _cleanup_str_ struct str text = {};
    json_t *joined;
    size_t n = 0;
    int r = 0;

    while (n < c->n_messages && first_system_is(&c->messages[n]) && r == 0)
        r = first_system_put(&c->messages[n++], &text);
    if (r < 0 || n == 0)
        return r;
    /* The paragraphs go to message n if it is the user's, and otherwise to the last system
     * message. */
    if (n == c->n_messages || c->messages[n].role != ROLE_USER)
        n--;
    else
        r = first_system_put(&c->messages[n], &text);
    joined = r < 0 ? NULL : json_stringn(text.data ? text.data : "", text.len);
    if (!joined)
        return -ENOMEM;
    json_decref(c->messages[n].text);
    c->messages[n].text = joined;
    c->messages[n].role = ROLE_USER;
    for (size_t i = 0; i < n; i++)
        message_done(&c->messages[i]);
    c->n_messages -= n;
    memmove(c->messages, c->messages + n, c->n_messages * sizeof(*c->messages));
    return 0;
}
