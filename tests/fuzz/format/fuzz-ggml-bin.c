/* SPDX-License-Identifier: Apache-2.0 */
/* Parses any bytes as a .bin file of ggml, and reads every byte of every token and tensor. */
#include <stddef.h>
#include <stdint.h>

#include "format/whisper/ggml-bin.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t sum_of(const void *data, uint64_t size)
{
    uint64_t sum = 0;

    for (uint64_t i = 0; i < size; i++)
        sum += ((const unsigned char *)data)[i];
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct ggml_bin_token *tokens;
    volatile uint64_t sink;
    uint64_t sum = 0;
    struct ggml_bin *bin;
    struct inf_err err;
    size_t n;

    if (ggml_bin_parse(data, size, &bin, &err) < 0)
        return 0;
    tokens = ggml_bin_tokens(bin, &n);
    for (size_t i = 0; i < n; i++)
        sum += sum_of(tokens[i].text, tokens[i].len);
    for (size_t i = 0; i < ggml_bin_n(bin); i++) {
        const struct format_tensor *t = ggml_bin_at(bin, i);

        sum += sum_of(t->data, t->size);
        assert(ggml_bin_find(bin, t->name) == t);
    }
    if (ggml_bin_kind(bin) == GGML_BIN_WHISPER)
        sum += ggml_bin_whisper(bin)->n_mels;
    sink = sum;
    (void)sink;
    ggml_bin_close(bin);
    return 0;
}
