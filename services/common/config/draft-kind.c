/* SPDX-License-Identifier: Apache-2.0 */
#include "common/config/draft-kind.h"

#include <string.h>

bool draft_kind_valid(const char *text)
{
    static const char *const names[] = {"none", "auto",   "ngram",  "suffix",          "model",
                                        "mtp",  "eagle3", "dflash", "gemma4-assistant"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(names[i], text) == 0)
            return true;
    return false;
}

bool draft_kind_uses_model(const char *kind)
{
    return strcmp(kind, "model") == 0 || strcmp(kind, "auto") == 0 || strcmp(kind, "eagle3") == 0 ||
           strcmp(kind, "dflash") == 0 || strcmp(kind, "gemma4-assistant") == 0;
}
