/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the user's choices of formats, and compares their patterns with names of tensors.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "convert/mix.h"
#include "core/err.h"
#include "format/gguf/ggml-type.h"

int mix_pattern_init(struct mix_override *o, const char *text, struct inf_err *reterr)
{
    const char *equal = strrchr(text, '=');
    PCRE2_UCHAR why[120] = "";
    PCRE2_SIZE at;
    int code;

    if (!equal || equal == text)
        return err_set(reterr, EINVAL, "\"%.64s\" is not PATTERN=TYPE", text);
    o->pattern = pcre2_compile((PCRE2_SPTR)text, (size_t)(equal - text), PCRE2_NEVER_BACKSLASH_C,
                               &code, &at, NULL);
    if (!o->pattern) {
        pcre2_get_error_message(code, why, sizeof(why));
        return err_set(reterr, EINVAL, "the pattern \"%.*s\": %s", (int)MIN(equal - text, 64), text,
                       (char *)why);
    }
    return 0;
}

int mix_override_init(struct mix_override *o, const char *text, struct inf_err *reterr)
{
    const int r = mix_pattern_init(o, text, reterr);

    if (r < 0 || ggml_type_find(strrchr(text, '=') + 1, &o->type))
        return r;
    mix_override_done(o);
    return err_set(reterr, EINVAL, "there is no number format \"%.32s\"", strrchr(text, '=') + 1);
}

bool mix_override_matches(const struct mix_override *o, const char *name)
{
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    int n = -1;

    if (data)
        n = pcre2_match(o->pattern, (PCRE2_SPTR)name, strlen(name), 0, 0, data, NULL);
    pcre2_match_data_free(data);
    return n >= 0;
}

void mix_override_done(struct mix_override *o)
{
    pcre2_code_free(o->pattern);
    o->pattern = NULL;
}
