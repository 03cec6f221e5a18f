/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the terminals of Lark's library "common" as regular expressions. */
#include <string.h>

#include "grammar/lark-common.h"

#define INT     "[0-9]+"
#define EXP     "[eE][+\\-]?" INT
#define DECIMAL "(" INT "\\.(" INT ")?|\\." INT ")"
#define FLOAT   "(" INT EXP "|" DECIMAL "(" EXP ")?)"
#define NUMBER  "(" FLOAT "|" INT ")"

static const struct {
    const char *name, *pattern;
} TERMINALS[] = {
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[0-9a-fA-F]"},
    {"INT", INT},
    {"SIGNED_INT", "[+\\-]?" INT},
    {"DECIMAL", DECIMAL},
    {"FLOAT", FLOAT},
    {"SIGNED_FLOAT", "[+\\-]?" FLOAT},
    {"NUMBER", NUMBER},
    {"SIGNED_NUMBER", "[+\\-]?" NUMBER},
    {"ESCAPED_STRING", "\"([^\"\\\\\\n]|\\\\[^\\n])*\""},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[a-zA-Z]"},
    {"WORD", "[a-zA-Z]+"},
    {"CNAME", "[a-zA-Z_][a-zA-Z_0-9]*"},
    {"WS_INLINE", "[ \\t]+"},
    {"WS", "[ \\t\\f\\r\\n]+"},
    {"CR", "\\r"},
    {"LF", "\\n"},
    {"NEWLINE", "(\\r?\\n)+"},
    {"SH_COMMENT", "#[^\\n]*"},
    {"CPP_COMMENT", "//[^\\n]*"},
    {"C_COMMENT", "/\\*([^*]|\\*+[^*/])*\\*+/"},
    {"SQL_COMMENT", "--[^\\n]*"},
};

const char *lark_common(const char *name, size_t len)
{
    for (size_t i = 0; i < ARRAY_SIZE(TERMINALS); i++)
        if (strlen(TERMINALS[i].name) == len && memcmp(TERMINALS[i].name, name, len) == 0)
            return TERMINALS[i].pattern;
    return NULL;
}
