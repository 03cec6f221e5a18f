/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out whether a template accepts system messages in the middle of a conversation, and merges
 * these messages with their neighbours. */
#include "chat/late-system.h"

#include <errno.h>
#include <infer/chat.h>
#include <string.h>

#include "chat/text-run.h"

#define LATE_OPEN  "<system-reminder>\n"
#define LATE_CLOSE "\n</system-reminder>"

static bool late_system_is(const struct conversation *c, size_t i)
{
    const enum message_role role = c->messages[i].role;

    return i > 0 && (role == ROLE_SYSTEM || role == ROLE_DEVELOPER);
}

bool late_system_exists(const struct conversation *c)
{
    for (size_t i = 1; i < c->n_messages; i++)
        if (late_system_is(c, i))
            return true;
    return false;
}

/* Returns where @word is in @text, if it is there exactly once; else NULL. */
static const char *word_once(const char *text, const char *word)
{
    const char *found = strstr(text, word);

    return found && !strstr(found + 1, word) ? found : NULL;
}

bool late_system_is_native(const struct inf_chat_template *tmpl)
{
    static const struct inf_chat_input input = {
        .messages = "[{\"role\":\"system\",\"content\":\"zqA\"},{\"role\":\"user\",\"content\":"
                    "\"zqB\"},{\"role\":\"system\",\"content\":\"zqC\"},{\"role\":\"assistant\","
                    "\"content\":\"zqD\"},{\"role\":\"user\",\"content\":\"zqE\"},"
                    "{\"role\":\"system\",\"content\":\"zqF\"}]",
        .add_generation_prompt = true,
        .limits.max_steps = 200000,
    };
    static const char *const words[] = {"zqA", "zqB", "zqC", "zqD", "zqE", "zqF"};
    _cleanup_free_ char *text = NULL;
    const char *last = NULL;
    struct inf_err err = {};
    size_t len;

    if (inf_chat_render(tmpl, &input, &text, &len, &err) < 0)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        const char *found = word_once(text, words[i]);

        if (!found || (last && found < last))
            return false;
        last = found;
    }
    return true;
}

/* The state of late_system_merge(), which writes the changed messages into the same array. */
struct late_merge {
    struct conversation *c;
    size_t n;            /* number of messages written so far */
    struct text_run run; /* extends the text of the last written message */
};

static struct message *merge_last(const struct late_merge *merge)
{
    return merge->n ? &merge->c->messages[merge->n - 1] : NULL;
}

/* Writes a message into the array. The place is free, because at most one message is written for
 * each message that was read. */
static int merge_add(struct late_merge *merge, struct message m)
{
    const int r = text_run_end(&merge->run);

    if (r < 0) {
        message_done(&m);
        return r;
    }
    merge->c->messages[merge->n++] = m;
    return 0;
}

/* Puts LATE_OPEN and LATE_CLOSE around the text of a system message. NULL: out of memory. */
static json_t *late_marked(const json_t *text)
{
    _cleanup_str_ struct str out = {};
    int r = str_puts(&out, LATE_OPEN);

    r = r < 0 ? r : str_append(&out, json_string_value(text), json_string_length(text));
    r = r < 0 ? r : str_puts(&out, LATE_CLOSE);
    return r < 0 ? NULL : json_stringn_nocheck(out.data, out.len);
}

/* Writes a system message as a paragraph of the message before it, or as a message of the user. */
static int merge_system(struct late_merge *merge, const struct message *system)
{
    struct message *last = merge_last(merge);
    json_t *marked = system->text ? late_marked(system->text) : NULL;
    int r;

    if (!system->text)
        return 0;
    if (!marked)
        return -ENOMEM;
    if (last->role != ROLE_USER && last->role != ROLE_TOOL)
        return merge_add(merge, (struct message){.role = ROLE_USER, .text = marked});
    r = text_run_add(&merge->run, &last->text, "\n\n", marked);
    json_decref(marked);
    return r;
}

/* Writes a message that follows a system message. Takes over @m. If only system messages stood
 * between @m and another message of the user, the two become one message. */
static int merge_follower(struct late_merge *merge, struct message m)
{
    struct message *last = merge_last(merge);
    int r;

    if (m.role != ROLE_USER || last->role != ROLE_USER || !m.text)
        return merge_add(merge, m);
    r = text_run_add(&merge->run, &last->text, "\n\n", m.text);
    message_done(&m);
    return r;
}

int late_system_merge(struct conversation *c)
{
    struct late_merge merge = {.c = c};
    bool after_system = false;
    int r = 0;

    for (size_t i = 0; i < c->n_messages; i++) {
        struct message m = c->messages[i];
        const bool is_late = late_system_is(c, i);

        /* The array must not keep a second copy of the message if an error occurs. */
        c->messages[i] = (struct message){0};
        if (r < 0 || is_late) {
            r = r < 0 ? r : merge_system(&merge, &m);
            message_done(&m);
        } else {
            r = after_system ? merge_follower(&merge, m) : merge_add(&merge, m);
        }
        after_system = is_late;
    }
    r = r < 0 ? r : text_run_end(&merge.run);
    text_run_done(&merge.run);
    c->n_messages = merge.n;
    return r;
}
