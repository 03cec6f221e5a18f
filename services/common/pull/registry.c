/* SPDX-License-Identifier: Apache-2.0 */
/* Reads manifests of Ollama's registry (see pull.h). */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "common/pull/pull.h"
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

/* Returns the digest of a layer in hexadecimal digits, and its size; NULL: it has none. */
static const char *layer_digest(const json_t *layer, uint64_t *ret_size)
{
    const char *digest = json_string_value(json_object_get(layer, "digest"));
    const char *hex = digest ? text_after(digest, "sha256:") : NULL;
    const json_t *size = json_object_get(layer, "size");

    if (!hex || !sha256_is_text(hex) || !json_is_integer(size) || json_integer_value(size) < 0)
        return NULL;
    *ret_size = (uint64_t)json_integer_value(size);
    return hex;
}

/* Adds the file of a layer to the plan. @limit is the largest size in bytes. */
static int add_layer(struct pull_plan *plan, const char *registry, const char *repo,
                     const json_t *layer, const char *name, uint64_t limit, struct inf_err *reterr)
{
    _cleanup_str_ struct str url = {0};
    uint64_t size;
    const char *hex = layer_digest(layer, &size);

    if (!hex || size > limit)
        return err_set(reterr, EBADMSG, "the registry's manifest of %s has no usable %s", repo,
                       name);
    if (str_printf(&url, "%s/v2/%s%s/blobs/sha256:%s", registry,
                   strchr(repo, '/') ? "" : "library/", repo, hex) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    return pull_plan_add(
        plan, &(struct pull_file){.name = name, .url = url.data, .size = size, .sha256 = hex},
        reterr);
}

/* Adds the weights, and the layers from which the installed model's own manifest (NAME.yaml) gets
 * settings. */
static int add_layers(struct pull_plan *plan, const char *registry, const char *repo,
                      const json_t *layers, struct inf_err *reterr)
{
    static const struct {
        const char *kind, *name;
    } others[] = {{"params", OLLAMA_PARAMS},
                  {"template", OLLAMA_TEMPLATE},
                  {"system", OLLAMA_SYSTEM},
                  {"messages", OLLAMA_MESSAGES}};
    const char *base = strrchr(repo, '/');
    char name[320];
    int r;

    snprintf(name, sizeof(name), "%s.gguf", base ? base + 1 : repo);
    if (layer_of(layers, "adapter"))
        return err_set(reterr, EOPNOTSUPP, "%s has an adapter, which sconce does not support",
                       repo);
    r = add_layer(plan, registry, repo, layer_of(layers, "model"), name, UINT64_MAX - 1, reterr);
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(others); i++) {
        const json_t *layer = layer_of(layers, others[i].kind);

        if (layer)
            r = add_layer(plan, registry, repo, layer, others[i].name, OLLAMA_MAX_LAYER, reterr);
    }
    return r;
}

int registry_read(const char *text, size_t len, const char *registry,
                  const struct pull_source *source, struct pull_plan *plan, struct inf_err *reterr)
{
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *layers = json_object_get(root, "layers");
    int r;

    if (!layer_of(layers, "model") && !layer_of(layers, "adapter"))
        r = err_set(reterr, EBADMSG, "the registry's manifest of %s names no weights",
                    source->repo);
    else
        r = add_layers(plan, registry, source->repo, layers, reterr);
    json_decref(root);
    plan->is_gguf = true;
    if (!plan->name[0])
        snprintf(plan->name, sizeof(plan->name), "%.140s%s%.140s", source->repo,
                 source->selector[0] && strcmp(source->selector, "latest") != 0 ? ":" : "",
                 strcmp(source->selector, "latest") != 0 ? source->selector : "");
    return r;
}
