/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a tokenizer from any bytes as a tokenizer.json, then encodes and decodes texts with it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/tokenizer/exercise.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char config[] = "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\","
                                 "\"add_bos_token\":true,\"add_eos_token\":true}";
    struct inf_tokenizer *tok = NULL;
    struct inf_err err;

    if (tokenizer_parse_json((const char *)data, size, size % 2 ? config : NULL, sizeof(config) - 1,
                             &tok, &err) == 0)
        exercise(tok);
    tokenizer_free(tok);
    return 0;
}
