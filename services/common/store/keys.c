/* SPDX-License-Identifier: Apache-2.0 */
/* Writes keys of manifests (see store.h), so that the reader of manifests reads the same values. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/store/store.h"
#include "core/str.h"
#include "core/utf8.h"

/* Returns whether YAML does not take the code point as it is, or reads it as another one. */
static bool needs_escape(uint32_t cp)
{
    return cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || cp == 0x2028 || cp == 0x2029 || cp == 0xfeff ||
           cp == 0xfffe || cp == 0xffff;
}

int store_put_quoted(struct str *out, const char *text)
{
    const char *end = text + strlen(text);
    int r = str_putc(out, '"');

    while (*text && r == 0) {
        uint32_t cp = 0;
        const size_t n = utf8_decode(text, (size_t)(end - text), &cp);

        if (n > 0 && needs_escape(cp))
            r = str_printf(out, cp < 0x100 ? "\\x%02x" : "\\u%04x", (unsigned)cp);
        else if (cp == '"' || cp == '\\')
            r = str_printf(out, "\\%c", (char)cp);
        else
            r = str_append(out, text, n > 0 ? n : 1);
        text += n > 0 ? n : 1;
    }
    return r < 0 ? r : str_putc(out, '"');
}

int store_put_key(struct str *out, const char *key, const char *value)
{
    int r = value ? str_printf(out, "%s: ", key) : 0;

    if (r == 0 && value)
        r = store_put_quoted(out, value);
    return r < 0 || !value ? r : str_putc(out, '\n');
}

int store_put_sampling(struct str *out, const struct inf_sampling *sampling)
{
    bool any = false;
    int r = 0;

    for (enum sampling_key key = 0; key < N_SAMPLING_KEYS && r == 0; key++) {
        double value = sampling_value(sampling, key);
        char text[40];

        if (!sampling_is_set(sampling, key))
            continue;
        if (key == SAMPLING_DRY_PENALTY_LAST_N && value == 0)
            value = -1;
        r = any ? 0 : str_puts(out, "sampling:\n");
        /* Six digits are what people write; some values need more. */
        snprintf(text, sizeof(text), "%.6g", value);
        if ((float)strtod(text, NULL) != (float)value)
            snprintf(text, sizeof(text), "%.10g", value);
        r = r < 0 ? r : str_printf(out, "  %s: %s\n", sampling_rows[key].name, text);
        any = true;
    }
    return r;
}

int store_put_stops(struct str *out, const char *const *stops, size_t n)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++) {
        r = str_puts(out, i ? ", " : "stop: [");
        r = r < 0 ? r : store_put_quoted(out, stops[i]);
    }
    return r < 0 || n == 0 ? r : str_puts(out, "]\n");
}

int store_put_messages(struct str *out, const struct model_message *messages, size_t n)
{
    int r = n ? str_puts(out, "messages:\n") : 0;

    for (size_t i = 0; r == 0 && i < n; i++) {
        r = str_printf(out,
                       "  - {role: %s, content: ", messages[i].of_assistant ? "assistant" : "user");
        r = r < 0 ? r : store_put_quoted(out, messages[i].text);
        r = r < 0 ? r : str_puts(out, "}\n");
    }
    return r;
}
