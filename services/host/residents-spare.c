/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps models that made room for others open (see residents-spare.h). */
#include "host/residents-spare.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "host/residents.h"

/* A spare takes this many bytes besides its weights, for its vocabulary and its page tables. */
#define SPARE_BYTES ((uint64_t)64 << 20)

struct resident_spare {
    struct inf_model *model;
    char *name, *path, *template; /* the template is NULL if the manifest has none */
    uint64_t size;
    int64_t mtime, template_mtime;
    uint64_t since_usec;
    struct resident_spare *next; /* an older one */
};

void resident_spares_free(struct resident_spare *first)
{
    while (first) {
        struct resident_spare *next = first->next;

        inf_model_unref(first->model);
        free(first->name);
        free(first->path);
        free(first->template);
        free(first);
        first = next;
    }
}

static uint64_t spare_bytes(const struct resident_spare *spare)
{
    return inf_model_info(spare->model)->n_bytes + SPARE_BYTES;
}

void resident_spare_keep(const struct resident *r)
{
    const bool has_budget = r->pool->host_budget > 0;
    struct resident_spare *spare = r->model && has_budget ? calloc(1, sizeof(*spare)) : NULL;

    if (!spare)
        return;
    *spare = (struct resident_spare){
        .model = inf_model_ref(r->model),
        .name = strdup(r->name),
        .path = strdup(r->path),
        .template = r->settings.template ? strdup(r->settings.template) : NULL,
        .size = r->size,
        .mtime = r->mtime,
        .template_mtime = r->settings.template_mtime,
        .since_usec = clock_usec(),
    };
    if (!spare->name || !spare->path || (r->settings.template && !spare->template)) {
        resident_spares_free(spare);
        return;
    }
    spare->next = r->pool->spares;
    r->pool->spares = spare;
}

static bool spare_is_of(const struct resident_spare *spare, const struct resident *r)
{
    const char *template = r->settings.template;

    return strcmp(spare->path, r->path) == 0 && spare->size == r->size &&
           spare->mtime == r->mtime && spare->template_mtime == r->settings.template_mtime &&
           (template && spare->template ? strcmp(template, spare->template) == 0
                                        : !template && !spare->template);
}

struct inf_model *resident_spare_take(const struct resident *r)
{
    for (struct resident_spare **at = &r->pool->spares; *at; at = &(*at)->next) {
        struct resident_spare *spare = *at;
        struct inf_model *model;

        if (!spare_is_of(spare, r))
            continue;
        *at = spare->next;
        spare->next = NULL;
        model = inf_model_check(spare->model, NULL) < 0 ? NULL : STEAL(spare->model);
        resident_spares_free(spare);
        return model;
    }
    return NULL;
}

void residents_spare_trim(struct residents *pool, struct resident *heir, uint64_t host_bytes)
{
    uint64_t left = pool->host_budget - MIN(pool->host_budget, host_bytes);
    struct resident_spare **at = &pool->spares, *rest;
    unsigned n = 0;

    while (*at && n < RESIDENT_SPARES && spare_bytes(*at) <= left) {
        left -= spare_bytes(*at);
        n++;
        at = &(*at)->next;
    }
    rest = *at;
    *at = NULL;
    for (at = &heir->spares; *at;)
        at = &(*at)->next;
    *at = rest;
}

uint64_t residents_spare_expire(struct residents *pool)
{
    const uint64_t now = clock_usec();
    struct resident_spare **at = &pool->spares;
    uint64_t next = UINT64_MAX;

    for (; *at && now - (*at)->since_usec < RESIDENT_SPARE_USEC; at = &(*at)->next)
        next = RESIDENT_SPARE_USEC - (now - (*at)->since_usec);
    resident_spares_free(*at);
    *at = NULL;
    return next;
}

void residents_spare_drop(struct residents *pool, const char *name)
{
    struct resident_spare **at = &pool->spares;

    while (*at) {
        struct resident_spare *spare = *at;

        if (name && strcmp(spare->name, name) != 0) {
            at = &spare->next;
            continue;
        }
        *at = spare->next;
        spare->next = NULL;
        resident_spares_free(spare);
    }
}
