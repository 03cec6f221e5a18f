/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/grammar/exercise.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size <= 1 << 12)
        exercise(INF_GRAMMAR_GBNF, data, size);
    return 0;
}
