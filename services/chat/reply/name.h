/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <ctype.h>
#include <stdbool.h>

/* Returns whether a byte may be in the name of a tool. */
static inline bool reply_is_name_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.' || c == ':' || c == '/';
}
