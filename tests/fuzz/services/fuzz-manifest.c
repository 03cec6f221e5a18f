/* SPDX-License-Identifier: Apache-2.0 */
/* Reads any bytes as the manifest of a model, and as a manifest of Ollama's store. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/models/foreign.h"
#include "common/models/manifest.h"
#include "common/models/safe-path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Checks what the callers of the parser rely on. */
static void check(const struct model_manifest *m, size_t size)
{
    if (m->aliases_start > m->aliases_end || m->aliases_end > size)
        abort();
    for (size_t i = 0; i < m->n_files; i++)
        if (!path_is_safe(m->files[i].name) ||
            (m->files[i].sha256 && !sha256_is_text(m->files[i].sha256)))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char blob[FOREIGN_BLOB_LENGTH + 1];
    struct model_manifest manifest;
    struct arena arena = {0};
    struct inf_err err;

    if (model_manifest_parse(&arena, (const char *)data, size, &manifest, &err) == 0)
        check(&manifest, size);
    arena_done(&arena);
    if (!foreign_ollama_blob((const char *)data, size, blob) &&
        (strlen(blob) != FOREIGN_BLOB_LENGTH || !sha256_is_text(blob + strlen("sha256-"))))
        abort();
    return 0;
}
