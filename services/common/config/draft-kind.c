/* SPDX-License-Identifier: Apache-2.0 */
#include "common/config/draft-kind.h"

#include <string.h>

bool draft_kind_valid(const char *text)
{
    static const char *const names[] = {"none", "auto", "ngram", "suffix", "model", "mtp"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(names[i], text) == 0)
            return true;
    return false;
}
