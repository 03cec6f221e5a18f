/* SPDX-License-Identifier: Apache-2.0 */
/* Parses any bytes as a safetensors file, and reads every byte of every tensor. */
#include <stddef.h>
#include <stdint.h>

#include "format/hf/names.h"
#include "format/hf/safetensors.h"
#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    volatile uint64_t sink;
    uint64_t sum = 0;
    struct safetensors *st;
    struct inf_err err;

    if (safetensors_parse(data, size, &st, &err) < 0)
        return 0;
    for (size_t i = 0; i < safetensors_n(st); i++) {
        const struct format_tensor *t = safetensors_at(st, i);
        char name[HF_NAME_MAX];

        for (uint64_t j = 0; j < t->size; j++)
            sum += ((const unsigned char *)t->data)[j];
        for (size_t j = 0; j < model_archs()->n; j++)
            sum += hf_name(model_archs()->descs[j], t->name, name);
        assert(safetensors_find(st, t->name) == t);
    }
    sink = sum;
    (void)sink;
    safetensors_close(st);
    return 0;
}
