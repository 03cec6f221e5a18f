/* SPDX-License-Identifier: Apache-2.0 */
/* Loads any bytes as a SentencePiece model, a small protobuf that contains a charsmap. */
#include <stdint.h>

#include "fuzz/tokenizer/exercise.h"
#include "tokenizer/load-config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct config none = {0};
    struct inf_tokenizer *tok = NULL;
    struct inf_err err;

    if (tokenizer_load_spm(data, size, &none, &tok, &err) == 0)
        exercise(tok);
    tokenizer_free(tok);
    return 0;
}
