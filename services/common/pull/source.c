/* SPDX-License-Identifier: Apache-2.0 */
/* Reads sources of models, and keeps the plan of what to fetch (see pull.h). */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/pull/pull.h"
#include "common/models/safe-path.h"
#include "common/store/store.h"
#include "core/array.h"
#include "core/err.h"
#include "core/file.h"
#include "core/text.h"

/* Returns whether @text is NAME or OWNER/NAME, of letters, digits, '.', '_' and '-'. */
static bool is_repository(const char *text, bool needs_owner)
{
    const char *slash = strchr(text, '/');

    for (const char *p = text; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("._-/", *p))
            return false;
    return model_name_is_safe(text) && (slash || !needs_owner);
}

static int source_named(const char *rest, bool is_hub, struct pull_source *ret,
                        struct inf_err *reterr)
{
    const char *colon = strchr(rest, ':');
    const size_t n = colon ? (size_t)(colon - rest) : strlen(rest);

    if (n >= sizeof(ret->repo) || (colon && strlen(colon + 1) >= sizeof(ret->selector)))
        return err_set(reterr, EINVAL, "the name of the source is too long");
    memcpy(ret->repo, rest, n);
    ret->repo[n] = 0;
    snprintf(ret->selector, sizeof(ret->selector), "%s", colon ? colon + 1 : "");
    if (!is_repository(ret->repo, is_hub))
        return err_set(reterr, EINVAL, "\"%.200s\" is not %s", ret->repo,
                       is_hub ? "a repository OWNER/REPO" : "the name of a model");
    if (colon && !path_is_safe(ret->selector))
        return err_set(reterr, EINVAL, "\"%.200s\" is not a quantization, a file or a tag",
                       ret->selector);
    if (!is_hub && strchr(ret->selector, '/'))
        return err_set(reterr, EINVAL, "\"%.200s\" is not a tag", ret->selector);
    return 0;
}

int pull_source_read(const char *text, struct pull_source *ret, struct inf_err *reterr)
{
    const char *rest;

    *ret = (struct pull_source){.kind = PULL_HUB, .text = text};
    if (text_starts_with(text, "https://")) {
        ret->kind = PULL_URL;
        return 0;
    }
    if (strstr(text, "://"))
        return err_set(reterr, EINVAL, "only https:// URLs can be fetched, not %.100s", text);
    if ((rest = text_after(text, "ollama:"))) {
        ret->kind = PULL_OLLAMA;
        return source_named(rest, false, ret, reterr);
    }
    if ((rest = text_after(text, "hf:")))
        return source_named(rest, true, ret, reterr);
    if (text[0] == '/' || text[0] == '.' || path_exists(text)) {
        ret->kind = PULL_PATH;
        return 0;
    }
    return source_named(text, true, ret, reterr);
}

int pull_source_read_name(const char *text, struct pull_source *ret, struct inf_err *reterr)
{
    static const struct {
        const char *prefix;
        bool is_hub;
    } rows[] = {{"hf.co/", true},
                {"huggingface.co/", true},
                {"hf:", true},
                {"ollama:", false},
                {"registry.ollama.ai/", false}};
    bool is_hub = strchr(text, '/') != NULL;
    const char *rest = text;

    if (strstr(text, "://") || text[0] == '/' || text[0] == '.')
        return err_set(reterr, EINVAL,
                       "\"%.200s\" is a URL or a path; clients may name repositories of the hub "
                       "and models of Ollama's registry alone",
                       text);
    for (size_t i = 0; rest == text && i < ARRAY_SIZE(rows); i++)
        if (text_after(text, rows[i].prefix)) {
            rest = text_after(text, rows[i].prefix);
            is_hub = rows[i].is_hub;
        }
    *ret = (struct pull_source){.kind = is_hub ? PULL_HUB : PULL_OLLAMA, .text = text};
    return source_named(rest, is_hub, ret, reterr);
}

void pull_source_put(const struct pull_source *source, char *ret, size_t size)
{
    if (source->kind == PULL_HUB || source->kind == PULL_OLLAMA)
        snprintf(ret, size, "%s:%s%s%s", source->kind == PULL_HUB ? "hf" : "ollama", source->repo,
                 source->selector[0] ? ":" : "", source->selector);
    else
        snprintf(ret, size, "%s", source->text);
}

void pull_plan_done(struct pull_plan *plan)
{
    for (size_t i = 0; i < plan->n; i++)
        store_growing_free(plan->files[i].growing);
    free(plan->files);
    arena_done(&plan->arena);
    *plan = (struct pull_plan){0};
}

static const char *plan_text(struct pull_plan *plan, const char *text)
{
    return text ? arena_strndup(&plan->arena, text, strlen(text)) : NULL;
}

int pull_plan_add(struct pull_plan *plan, const struct pull_file *file, struct inf_err *reterr)
{
    char local[32];
    struct pull_file *f;

    if (!path_is_safe(file->name))
        return err_set(reterr, EBADMSG, "the source has a file with the name \"%.100s\"",
                       file->name);
    if (plan->n == PULL_MAX_FILES)
        return err_set(reterr, E2BIG, "the source has more than %d files", PULL_MAX_FILES);
    if (ARRAY_GROW(plan->files, plan->cap, plan->n + 1) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    snprintf(local, sizeof(local), "f%zu", plan->n);
    f = &plan->files[plan->n];
    *f = (struct pull_file){
        .name = plan_text(plan, file->name),
        .url = plan_text(plan, file->url),
        .local = plan_text(plan, file->sha256 ? file->sha256 : local),
        .size = file->size,
        .sha256 = plan_text(plan, file->sha256),
        .sha1 = plan_text(plan, file->sha1),
        .is_verified = file->is_verified,
    };
    if (!f->name || !f->local || (file->url && !f->url) || (file->sha256 && !f->sha256) ||
        (file->sha1 && !f->sha1))
        return err_set(reterr, ENOMEM, "out of memory");
    plan->n++;
    return 0;
}

uint64_t pull_plan_bytes(const struct pull_plan *plan)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < plan->n; i++)
        if (plan->files[i].size != UINT64_MAX && !size_add(bytes, plan->files[i].size, &bytes))
            return UINT64_MAX;
    return bytes;
}
