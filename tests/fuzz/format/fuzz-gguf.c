/* SPDX-License-Identifier: Apache-2.0 */
/* Parses any bytes as a GGUF file, calls every accessor and reads the hyperparameters. */
#include <stddef.h>
#include <stdint.h>

#include "format/gguf/gguf.h"
#include "format/gguf/hparams.h"
#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads every byte of the ranges that the accessors return. */
static uint64_t touch(const struct gguf *g)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < gguf_n_values(g); i++) {
        const struct gguf_value *v = gguf_value_at(g, i);

        for (uint64_t j = 0; j < v->n; j++) {
            struct gguf_str s;

            if (v->elem != GGUF_STRING) {
                sum += (uint64_t)gguf_elem_i64(v, j) + (gguf_elem_f64(v, j) > 0);
                continue;
            }
            s = gguf_string_at(v, j);
            for (uint64_t k = 0; k < s.len; k++)
                sum += (unsigned char)s.data[k];
        }
        sum += gguf_find(g, v->key) == v;
    }
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct format_tensor *t = gguf_tensor_at(g, i);

        for (uint64_t j = 0; j < t->size; j++)
            sum += ((const unsigned char *)t->data)[j];
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    volatile uint64_t sink;
    struct inf_err err;
    const struct arch_desc *desc;
    struct hparams hp;
    struct gguf *g;

    if (gguf_parse(data, size, &g, &err) < 0)
        return 0;
    sink = touch(g);
    (void)sink;
    if (gguf_hparams(g, model_archs(), &hp, &desc, &err) == 0)
        assert(hp.n_heads % hp.n_kv_heads == 0 && hp.n_layers <= HPARAMS_MAX_LAYERS);
    gguf_close(g);
    return 0;
}
