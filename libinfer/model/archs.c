/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the architectures that this build supports. */
#include "model/arch.h"

static const struct arch_desc *const archs[] = {
    &arch_llama.desc,     &arch_qwen2.desc,      &arch_qwen3.desc,       &arch_qwen2_moe.desc,
    &arch_qwen3_moe.desc, &arch_bert.desc,       &arch_modern_bert.desc, &arch_gemma_embedding.desc,
    &arch_jina_v4.desc,   &arch_qwen3_next.desc, &arch_qwen35.desc,      &arch_gemma2.desc,
    &arch_gemma3.desc,    &arch_gemma3n.desc,    &arch_gemma4.desc,      &arch_gpt_oss.desc,
    &arch_bitnet.desc,    &arch_eagle3.desc,     &arch_dflash.desc,      &arch_assistant.desc,
};

const struct arch_list *model_archs(void)
{
    static const struct arch_list list = {archs, ARRAY_SIZE(archs)};

    return &list;
}
