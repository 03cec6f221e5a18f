/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the architectures that this build supports. */
#include <string.h>

#include "model/arch.h"

static const struct arch *const archs[] = {
    &arch_llama,       &arch_qwen2,           &arch_qwen3,   &arch_bert,
    &arch_modern_bert, &arch_gemma_embedding, &arch_jina_v4,
};

const struct arch *arch_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(archs); i++)
        if (strcmp(archs[i]->name, name) == 0)
            return archs[i];
    return NULL;
}
