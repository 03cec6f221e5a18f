/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Names the layouts of model directories: that of sconce, and those of other programs
 * (foreign.h). */

enum models_layout {
    MODELS_OWN, /* a model directory of sconce */
    MODELS_HUGGING_FACE,
    MODELS_OLLAMA,
    MODELS_LM_STUDIO,
    MODELS_LLAMA_CPP,
};
