/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a tokenizer from any bytes as a .bin file of whisper.cpp. */
#include <stdint.h>

#include "format/whisper/ggml-bin.h"
#include "fuzz/tokenizer/exercise.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(ggml_bin_closep) struct ggml_bin *bin = NULL;
    struct inf_tokenizer *tok = NULL;
    struct inf_err err;

    if (ggml_bin_parse(data, size, &bin, &err) < 0 || ggml_bin_kind(bin) != GGML_BIN_WHISPER)
        return 0;
    if (tokenizer_open_bin(bin, &tok, &err) == 0)
        exercise(tok);
    tokenizer_free(tok);
    return 0;
}
