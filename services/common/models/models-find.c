/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds installed models in a list by name or by task (see models.h).
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/config/config.h"
#include "common/models/files.h"
#include "common/models/models.h"
#include "core/str.h"
#include "core/text.h"

static bool name_is(const char *name, const char *text, size_t len)
{
    return strncasecmp(name, text, len) == 0 && name[len] == '\0';
}

/* Finds a model by the first @len bytes of @name. */
static const struct models_entry *models_find_len(const struct models *m, const char *name,
                                                  size_t len)
{
    for (size_t i = 0; i < models_count(m); i++)
        if (name_is(models_at(m, i)->name, name, len))
            return models_at(m, i);
    for (size_t i = 0; i < models_count(m); i++)
        for (const char *const *a = models_at(m, i)->aliases; *a; a++)
            if (name_is(*a, name, len))
                return models_at(m, i);
    return NULL;
}

const struct models_entry *models_find(const struct models *m, const char *name)
{
    static const char tag[] = ":latest", hub[] = "hf.co/";
    const struct models_entry *entry = models_find_len(m, name, strlen(name));
    const char *bare = text_after(name, hub);

    if (!entry && bare) {
        name = bare;
        entry = models_find_len(m, name, strlen(name));
    }
    if (entry || !text_ends_with_nocase(name, tag))
        return entry;
    return models_find_len(m, name, strlen(name) - (sizeof(tag) - 1));
}

const struct models_entry *models_find_drafter(const struct models *m, const struct config *config,
                                               const struct model_settings *settings)
{
    const char *name = settings->drafter ? settings->drafter : config->speculative.model;
    const struct models_entry *hidden = models_hidden_drafter(m);

    if (!name)
        return NULL;
    return hidden ? hidden : models_find(m, name);
}

const struct models_entry *models_find_adapted(const struct models *m, const char *name)
{
    const char *colon = strrchr(name, ':');
    const struct models_entry *entry =
        colon ? models_find_len(m, name, (size_t)(colon - name)) : NULL;

    for (size_t i = 0; entry && entry->settings.adapters && entry->settings.adapters[i]; i++)
        if (strcasecmp(entry->settings.adapters[i], colon + 1) == 0)
            return entry;
    return NULL;
}

const struct models_broken *models_find_broken(const struct models *m, const char *name)
{
    for (size_t i = 0; i < models_n_broken(m); i++)
        if (strcasecmp(models_broken_at(m, i)->name, name) == 0)
            return models_broken_at(m, i);
    return NULL;
}

const struct models_entry *models_default(const struct models *m, const struct config *config)
{
    if (config->default_model)
        return models_find(m, config->default_model);
    return models_only(m, MODELS_CHAT);
}

const struct models_entry *models_only(const struct models *m, enum models_task task)
{
    const struct models_entry *found = NULL;

    for (size_t i = 0; i < models_count(m); i++) {
        if (models_at(m, i)->task != task)
            continue;
        if (found)
            return NULL;
        found = models_at(m, i);
    }
    return found;
}

/* Returns the names of the models whose task is in @tasks, a set of 1u << enum models_task. */
static char *names_of(const struct models *m, unsigned tasks)
{
    struct str s = {0};
    int r = 0;

    for (size_t i = 0; i < models_count(m) && r == 0; i++) {
        if (!(tasks & 1u << models_at(m, i)->task))
            continue;
        if (s.len > 400) {
            r = str_puts(&s, ", …");
            break;
        }
        r = str_printf(&s, "%s%s", s.len ? ", " : "", models_at(m, i)->name);
    }
    if (r < 0) {
        str_done(&s);
        return NULL;
    }
    return str_take(&s, NULL);
}

char *models_names(const struct models *m)
{
    return names_of(m, ~0u);
}

char *models_names_of(const struct models *m, enum models_task task)
{
    return names_of(m, 1u << task);
}

int models_scan(const struct config *config, struct models **ret_models)
{
    _cleanup_(model_files_freep) struct model_files *files = NULL;
    const int r = model_files_new(config, NULL, NULL, false, &files);

    return r < 0 ? r : models_scan_with(config, files, ret_models);
}
