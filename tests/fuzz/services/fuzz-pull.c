/* SPDX-License-Identifier: Apache-2.0 */
/* Reads any bytes as the name of a source, and as the metadata of the hub and of the registry. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/pull/pull.h"
#include "common/models/safe-path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Checks what the installation of the files relies on. */
static void check(const struct pull_plan *plan)
{
    for (size_t i = 0; i < plan->n; i++) {
        const struct pull_file *f = &plan->files[i];

        if (!path_is_safe(f->name) || !f->url || strchr(f->local, '/') ||
            (f->sha256 && !sha256_is_text(f->sha256)) || (!f->sha256 && !f->sha1))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const sources[] = {"org/m", "org/m:Q8_0", "hf:org/m:a/b.gguf"};
    char *text = strndup((const char *)data, size);
    struct pull_plan plan = {0};
    struct pull_source source;
    struct inf_err err;

    if (!text)
        return 0;
    if (pull_source_read(text, &source, &err) == 0 && source.kind == PULL_HUB &&
        (!path_is_safe(source.repo) || !strchr(source.repo, '/')))
        abort();
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        if (pull_source_read(sources[i], &source, &err) < 0)
            abort();
        if (hub_read((const char *)data, size, "https://hub", &source, 1 << 20, &plan, &err) == 0)
            check(&plan);
        pull_plan_done(&plan);
    }
    if (pull_source_read("ollama:m", &source, &err) < 0)
        abort();
    if (registry_read((const char *)data, size, "https://hub", &source, &plan, &err) == 0)
        check(&plan);
    pull_plan_done(&plan);
    free(text);
    return 0;
}
