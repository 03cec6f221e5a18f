/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the sampling parameters that the files of a model recommend.
 *
 * A directory has them in generation_config.json, under the names of transformers. A GGUF file has
 * them in general.sampling.*, as llama.cpp's converter has written them since 2025.
 */
#include <infer/model.h>
#include <string.h>

#include "common/models/sampling.h"

static const struct {
    const char *name;
    enum sampling_key key;
} sampling_names[] = {
    {"generation_config.temperature", SAMPLING_TEMPERATURE},
    {"generation_config.top_k", SAMPLING_TOP_K},
    {"generation_config.top_p", SAMPLING_TOP_P},
    {"generation_config.min_p", SAMPLING_MIN_P},
    {"generation_config.typical_p", SAMPLING_TYPICAL_P},
    {"generation_config.repetition_penalty", SAMPLING_REPETITION_PENALTY},
    {"general.sampling.temp", SAMPLING_TEMPERATURE},
    {"general.sampling.top_k", SAMPLING_TOP_K},
    {"general.sampling.top_p", SAMPLING_TOP_P},
    {"general.sampling.min_p", SAMPLING_MIN_P},
    {"general.sampling.penalty_repeat", SAMPLING_REPETITION_PENALTY},
    {"general.sampling.penalty_last_n", SAMPLING_REPEAT_LAST_N},
    {"general.sampling.xtc_probability", SAMPLING_XTC_PROBABILITY},
    {"general.sampling.xtc_threshold", SAMPLING_XTC_THRESHOLD},
    {"general.sampling.mirostat", SAMPLING_MIROSTAT},
    {"general.sampling.mirostat_tau", SAMPLING_MIROSTAT_TAU},
    {"general.sampling.mirostat_eta", SAMPLING_MIROSTAT_ETA},
};

void sampling_of_model(const struct inf_model *model, struct inf_sampling *ret)
{
    const char *name, *value;

    sampling_clear(ret);
    for (size_t i = 0; inf_model_meta(model, i, &name, &value); i++)
        for (size_t k = 0; k < ARRAY_SIZE(sampling_names); k++)
            if (strcmp(name, sampling_names[k].name) == 0)
                sampling_set_text(ret, sampling_names[k].key, value);
}
