/* SPDX-License-Identifier: Apache-2.0 */
/* Reads manifests of Ollama's registry (see pull.h). */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/pull/pull.h"
#include "common/models/safe-path.h"
#include "core/err.h"
#include "core/str.h"
#include "core/text.h"

/* Returns the layer of the kind @kind; NULL: there is none. */
static const json_t *layer_of(const json_t *layers, const char *kind)
{
    for (size_t i = 0; i < json_array_size(layers); i++) {
        const json_t *layer = json_array_get(layers, i);
        const char *type = json_string_value(json_object_get(layer, "mediaType"));
        const char *rest = type ? text_after(type, "application/vnd.ollama.image.") : NULL;

        if (rest && strcmp(rest, kind) == 0)
            return layer;
    }
    return NULL;
}

int registry_read(const char *text, size_t len, const char *registry,
                  const struct pull_source *source, struct pull_plan *plan, struct inf_err *reterr)
{
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *layers = json_object_get(root, "layers"), *model = layer_of(layers, "model");
    const char *digest = json_string_value(json_object_get(model, "digest"));
    const char *hex = digest ? text_after(digest, "sha256:") : NULL;
    const json_t *size = json_object_get(model, "size");
    const char *base = strrchr(source->repo, '/');
    _cleanup_str_ struct str url = {0};
    char name[320];
    int r = 0;

    base = base ? base + 1 : source->repo;
    snprintf(name, sizeof(name), "%s.gguf", base);
    if (layer_of(layers, "adapter"))
        r = err_set(reterr, EOPNOTSUPP, "%s has an adapter, which sconce does not support",
                    source->repo);
    else if (!hex || !sha256_is_text(hex) || !json_is_integer(size) || json_integer_value(size) < 0)
        r = err_set(reterr, EBADMSG, "the registry's manifest of %s names no weights",
                    source->repo);
    else if (str_printf(&url, "%s/v2/%s%s/blobs/%s", registry,
                        strchr(source->repo, '/') ? "" : "library/", source->repo, digest) < 0)
        r = err_set(reterr, ENOMEM, "out of memory");
    if (r == 0)
        r = pull_plan_add(plan,
                          &(struct pull_file){.name = name,
                                              .url = url.data,
                                              .size = (uint64_t)json_integer_value(size),
                                              .sha256 = hex},
                          reterr);
    json_decref(root);
    plan->is_gguf = true;
    if (!plan->name[0])
        snprintf(plan->name, sizeof(plan->name), "%.140s%s%.140s", source->repo,
                 source->selector[0] && strcmp(source->selector, "latest") != 0 ? ":" : "",
                 strcmp(source->selector, "latest") != 0 ? source->selector : "");
    return r;
}
