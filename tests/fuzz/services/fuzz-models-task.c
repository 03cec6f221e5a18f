/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the task of a model from any bytes as the start of its file. */
#include <stdint.h>
#include <stdlib.h>

#include "common/models/task.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (models_task_of_gguf((const char *)data, size) > MODELS_SPEECH ||
        models_task_of_config((const char *)data, size) > MODELS_SPEECH)
        abort();
    return 0;
}
