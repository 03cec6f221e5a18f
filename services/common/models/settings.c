/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and compares the settings of models (see settings.h). */
#include "common/models/settings.h"

#include <errno.h>
#include <string.h>

void model_settings_clear(struct model_settings *s)
{
    *s = (struct model_settings){.keep_usec = MODEL_KEEP_USUAL};
}

/* Copies a text; NULL stays NULL. */
static int settings_copy_text(struct arena *arena, const char *from, const char **ret)
{
    *ret = from ? arena_strndup(arena, from, strlen(from)) : NULL;
    return from && !*ret ? -ENOMEM : 0;
}

static int settings_copy_list(struct arena *arena, const char *const *from, const char *const **ret)
{
    const char **list;
    size_t n = 0;
    int r = 0;

    *ret = NULL;
    if (!from)
        return 0;
    while (from[n])
        n++;
    list = arena_zalloc(arena, (n + 1) * sizeof(*list));
    if (!list)
        return -ENOMEM;
    for (size_t i = 0; r == 0 && i < n; i++)
        r = settings_copy_text(arena, from[i], &list[i]);
    *ret = list;
    return r;
}

static int settings_copy_messages(struct arena *arena, const struct model_settings *from,
                                  const struct model_message **ret)
{
    struct model_message *copy;
    int r = 0;

    *ret = NULL;
    if (from->n_messages == 0)
        return 0;
    copy = arena_zalloc(arena, from->n_messages * sizeof(*copy));
    if (!copy)
        return -ENOMEM;
    for (size_t i = 0; r == 0 && i < from->n_messages; i++) {
        copy[i].of_assistant = from->messages[i].of_assistant;
        r = settings_copy_text(arena, from->messages[i].text, &copy[i].text);
    }
    *ret = copy;
    return r;
}

int model_settings_copy(struct arena *arena, const struct model_settings *from,
                        struct model_settings *ret)
{
    struct model_settings copy = *from;
    int r = settings_copy_text(arena, from->kv_type, &copy.kv_type);

    r = r < 0 ? r : settings_copy_text(arena, from->template, &copy.template);
    r = r < 0 ? r : settings_copy_text(arena, from->drafter, &copy.drafter);
    r = r < 0 ? r : settings_copy_text(arena, from->system, &copy.system);
    r = r < 0 ? r : settings_copy_messages(arena, from, &copy.messages);
    r = r < 0 ? r : settings_copy_list(arena, from->stops, &copy.stops);
    r = r < 0 ? r : settings_copy_list(arena, from->adapters, &copy.adapters);
    if (r == 0)
        *ret = copy;
    return r;
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_list(const char *const *a, const char *const *b)
{
    static const char *const none[] = {NULL};
    size_t i = 0;

    a = a ? a : none;
    b = b ? b : none;
    while (a[i] && b[i] && strcmp(a[i], b[i]) == 0)
        i++;
    return !a[i] && !b[i];
}

static bool same_messages(const struct model_settings *a, const struct model_settings *b)
{
    size_t i = 0;

    while (i < a->n_messages && i < b->n_messages &&
           a->messages[i].of_assistant == b->messages[i].of_assistant &&
           strcmp(a->messages[i].text, b->messages[i].text) == 0)
        i++;
    return i == a->n_messages && i == b->n_messages;
}

bool model_settings_equal(const struct model_settings *a, const struct model_settings *b)
{
    return a->context == b->context && same_text(a->kv_type, b->kv_type) &&
           same_text(a->template, b->template) && a->template_mtime == b->template_mtime &&
           same_list(a->stops, b->stops) && same_list(a->adapters, b->adapters) &&
           same_text(a->system, b->system) && same_messages(a, b) &&
           same_text(a->drafter, b->drafter) && a->keep_usec == b->keep_usec &&
           a->pinned == b->pinned;
}
