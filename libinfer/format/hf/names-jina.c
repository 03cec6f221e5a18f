/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts tensor names of jina-embeddings-v4, a Qwen 2.5 VL with adapters.
 *
 * "base_model.model.model.language_model.layers.7.self_attn.q_proj.lora_A.retrieval.weight" becomes
 * "blk.7.attn_q.lora_a.retrieval". Tensors that only images or text generation need are ignored.
 */
#include <stdio.h>
#include <string.h>

#include "core/text.h"
#include "format/hf/names.h"

/* Returns the rest of @name after @start, or @name if it does not begin with @start. */
static const char *skip_start(const char *name, const char *start)
{
    const char *rest = text_after(name, start);

    return rest ? rest : name;
}

/* Returns the length of @name before ".weight"; 0: it does not end with ".weight". */
static size_t stem_length(const char *name)
{
    return text_ends_with(name, ".weight") ? strlen(name) - strlen(".weight") : 0;
}

/* Converts the name of a tensor of the model itself. */
static bool name_whole(const struct arch_desc *desc, const char *name, char out[HF_NAME_MAX])
{
    const char *projector = text_after(name, "multi_vector_projector.");

    if (projector)
        return snprintf(out, HF_NAME_MAX, "multi_vector.%s", projector) < HF_NAME_MAX;
    return hf_name_slot(desc, name, out);
}

/* Converts the name of a low-rank matrix. @side: "a" or "b"; @task is followed by ".weight". */
static bool name_part(const struct arch_desc *desc, const char *name, size_t n_base,
                      const char *side, const char *task, char out[HF_NAME_MAX])
{
    char whole[HF_NAME_MAX], base[HF_NAME_MAX];
    size_t n, n_task;

    task = skip_start(task, "default.");
    n_task = stem_length(task);
    if (n_task == 0 ||
        snprintf(whole, sizeof(whole), "%.*s.weight", (int)n_base, name) >= HF_NAME_MAX ||
        !name_whole(desc, whole, base))
        return false;
    n = stem_length(base);
    return n > 0 && snprintf(out, HF_NAME_MAX, "%.*s.lora_%s.%.*s", (int)n, base, side, (int)n_task,
                             task) < HF_NAME_MAX;
}

bool hf_name_jina(const struct arch_desc *desc, const char *name, char *out)
{
    const char *s = skip_start(name, "base_model.model."), *part;

    if (text_starts_with(skip_start(s, "model."), "visual.") || text_starts_with(s, "lm_head.")) {
        out[0] = 0;
        return true;
    }
    s = skip_start(skip_start(s, "model."), "language_model.");
    s = skip_start(s, "model.");
    part = strstr(s, ".lora_A.");
    if (part)
        return name_part(desc, s, (size_t)(part - s), "a", part + strlen(".lora_A."), out);
    part = strstr(s, ".lora_B.");
    if (part)
        return name_part(desc, s, (size_t)(part - s), "b", part + strlen(".lora_B."), out);
    return name_whole(desc, s, out);
}
