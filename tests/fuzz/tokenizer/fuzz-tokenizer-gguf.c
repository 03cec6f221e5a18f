/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a tokenizer from any bytes as a GGUF file. */
#include <stdint.h>

#include "format/gguf/gguf.h"
#include "fuzz/tokenizer/exercise.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(gguf_closep) struct gguf *g = NULL;
    struct inf_tokenizer *tok = NULL;
    struct inf_err err;

    if (gguf_parse(data, size, &g, &err) < 0)
        return 0;
    if (tokenizer_open_gguf(g, &tok, &err) == 0)
        exercise(tok);
    tokenizer_free(tok);
    return 0;
}
