/* SPDX-License-Identifier: Apache-2.0 */
/* Loads "normalizer", "pre_tokenizer" and "decoder" of tokenizer.json. */
#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "core/utf8.h"
#include "tokenizer/load-json.h"

typedef int (*load_fn)(struct json_load *l, const json_t *j);

static int load_sequence(struct json_load *l, const json_t *list, load_fn fn)
{
    int r = 0;

    if (!json_is_array(list))
        return err_set(l->reterr, EINVAL, "a \"Sequence\" has no list");
    if (++l->depth > JSON_LOAD_DEPTH)
        return err_set(l->reterr, EINVAL, "\"Sequence\" is nested too deeply");
    for (size_t i = 0; r == 0 && i < json_array_size(list); i++)
        r = fn(l, json_array_get(list, i));
    l->depth--;
    return r;
}

static int decode_base64(const char *s, size_t len, struct str *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0;
    unsigned n = 0;

    for (size_t i = 0; i < len && s[i] != '='; i++) {
        const char *p = s[i] ? strchr(digits, s[i]) : NULL;

        if (!p)
            return -EINVAL;
        bits = bits << 6 | (uint32_t)(p - digits);
        n += 6;
        if (n >= 8) {
            n -= 8;
            if (str_putc(out, (char)(bits >> n)) < 0)
                return -ENOMEM;
        }
    }
    return 0;
}

static int load_charsmap(struct json_load *l, const json_t *j)
{
    const json_t *map = json_object_get(j, "precompiled_charsmap");
    struct norm_step *st = normalizer_add(&l->tok->norm, NORM_CHARSMAP);
    _cleanup_str_ struct str blob = {0};
    int r;

    if (!st)
        return -ENOMEM;
    if (!json_is_string(map))
        return err_set(l->reterr, EINVAL, "\"Precompiled\" has no charsmap");
    r = decode_base64(json_string_value(map), json_string_length(map), &blob);
    if (r == -EINVAL)
        return err_set(l->reterr, EINVAL, "the charsmap is not base64");
    return r < 0 ? r : charsmap_init(&st->map, blob.data, blob.len, l->reterr);
}

static int load_bert(struct json_load *l, const json_t *j)
{
    struct norm_step *st = normalizer_add(&l->tok->norm, NORM_BERT);

    if (!st)
        return -ENOMEM;
    st->clean = json_load_bool(j, "clean_text", true);
    st->chinese = json_load_bool(j, "handle_chinese_chars", true);
    st->lower = json_load_bool(j, "lowercase", true);
    st->accents = json_load_bool(j, "strip_accents", st->lower);
    return 0;
}

static int load_replace(struct json_load *l, const json_t *j)
{
    struct norm_step *st = normalizer_add(&l->tok->norm, NORM_REPLACE);

    if (!st)
        return -ENOMEM;
    st->content = json_load_text(l, json_object_get(j, "content"), &st->content_len);
    if (!st->content)
        return err_set(l->reterr, EINVAL, "\"Replace\" has no \"content\"");
    return json_load_pattern(l, json_object_get(j, "pattern"), &st->needle, &st->needle_len,
                             &st->regex);
}

int json_load_normalizer(struct json_load *l, const json_t *j)
{
    static const struct {
        const char *type;
        enum norm_kind kind;
    } plain[] = {
        {"NFC", NORM_NFC},
        {"NFD", NORM_NFD},
        {"NFKC", NORM_NFKC},
        {"NFKD", NORM_NFKD},
        {"Lowercase", NORM_LOWERCASE},
        {"StripAccents", NORM_STRIP_ACCENTS},
        {"Nmt", NORM_NMT},
        {"ByteLevel", NORM_BYTES},
    };
    const char *type = json_load_type(j);
    struct norm_step *st;

    for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
        if (strcmp(type, plain[i].type) == 0)
            return normalizer_add(&l->tok->norm, plain[i].kind) ? 0 : -ENOMEM;
    if (strcmp(type, "Sequence") == 0)
        return load_sequence(l, json_object_get(j, "normalizers"), json_load_normalizer);
    if (strcmp(type, "BertNormalizer") == 0 || strcmp(type, "Bert") == 0)
        return load_bert(l, j);
    if (strcmp(type, "Precompiled") == 0)
        return load_charsmap(l, j);
    if (strcmp(type, "Replace") == 0)
        return load_replace(l, j);
    if (strcmp(type, "Strip") != 0 && strcmp(type, "Prepend") != 0)
        return json_load_unsupported(l, "normalizer", j);
    st = normalizer_add(&l->tok->norm, *type == 'S' ? NORM_STRIP : NORM_PREPEND);
    if (!st)
        return -ENOMEM;
    st->left = json_load_bool(j, "strip_left", true);
    st->right = json_load_bool(j, "strip_right", true);
    if (st->kind == NORM_STRIP)
        return 0;
    st->content = json_load_text(l, json_object_get(j, "prepend"), &st->content_len);
    return st->content ? 0 : err_set(l->reterr, EINVAL, "\"Prepend\" has no \"prepend\"");
}

static int load_behavior(struct json_load *l, const json_t *j, enum split_behavior *ret)
{
    static const char *const behaviors[] = {
        [SPLIT_REMOVED] = "Removed",
        [SPLIT_ISOLATED] = "Isolated",
        [SPLIT_MERGED_PREVIOUS] = "MergedWithPrevious",
        [SPLIT_MERGED_NEXT] = "MergedWithNext",
        [SPLIT_CONTIGUOUS] = "Contiguous",
    };
    const json_t *b = json_object_get(j, "behavior");

    if (!b)
        return 0;
    for (size_t i = 0; json_is_string(b) && i < ARRAY_SIZE(behaviors); i++) {
        if (strcmp(json_string_value(b), behaviors[i]) == 0) {
            *ret = (enum split_behavior)i;
            return 0;
        }
    }
    return err_set(l->reterr, EINVAL, "unknown \"behavior\" of a splitter");
}

static int load_split(struct json_load *l, const json_t *j)
{
    const json_t *pattern = json_object_get(j, "pattern"), *regex;
    struct split_step *st = splitter_add(&l->tok->split, SPLIT_STRING);
    bool isolated;
    int r;

    if (!st)
        return -ENOMEM;
    st->invert = json_load_bool(j, "invert", false);
    r = load_behavior(l, j, &st->behavior);
    if (r < 0)
        return r;
    /* There are hand-written splitters for some regular expressions. The matches of such an
     * expression cover all of a text without gaps, so "Isolated" and inverted "Removed" give the
     * same words. */
    isolated = (st->behavior == SPLIT_ISOLATED) || (st->behavior == SPLIT_REMOVED && st->invert);
    regex = json_object_get(pattern, "Regex");
    if (isolated && json_is_string(regex) &&
        split_fast_find(json_string_value(regex), json_string_length(regex), &st->fast,
                        &st->fold)) {
        st->kind = SPLIT_FAST;
        return 0;
    }
    r = json_load_pattern(l, pattern, &st->text, &st->text_len, &st->regex);
    if (r == 0 && st->regex)
        st->kind = SPLIT_REGEX;
    else if (r == 0 && st->text_len == 0) {
        st->kind = SPLIT_REGEX;
        r = pattern_compile("", 0, UNI_16, &st->regex, l->reterr);
    }
    return r;
}

static int load_metaspace_scheme(struct json_load *l, const json_t *j, enum split_prepend *ret)
{
    const json_t *scheme = json_object_get(j, "prepend_scheme");

    *ret = SPLIT_PREPEND_ALWAYS;
    if (json_is_string(scheme)) {
        const char *s = json_string_value(scheme);

        if (strcmp(s, "never") == 0)
            *ret = SPLIT_PREPEND_NEVER;
        else if (strcmp(s, "first") == 0)
            *ret = SPLIT_PREPEND_FIRST;
        else if (strcmp(s, "always") != 0)
            return err_set(l->reterr, EINVAL, "unknown prepend_scheme '%.20s'", s);
    }
    if (!json_load_bool(j, "add_prefix_space", true))
        *ret = SPLIT_PREPEND_NEVER;
    return 0;
}

static int load_metaspace(struct json_load *l, const json_t *j)
{
    struct split_step *st = splitter_add(&l->tok->split, SPLIT_METASPACE);

    if (!st)
        return -ENOMEM;
    st->text = json_load_text(l, json_object_get(j, "replacement"), &st->text_len);
    if (!st->text || st->text_len == 0)
        return err_set(l->reterr, EINVAL, "\"Metaspace\" has no \"replacement\"");
    st->split = json_load_bool(j, "split", true);
    return load_metaspace_scheme(l, j, &st->prepend);
}

static int load_byte_level(struct json_load *l, const json_t *j)
{
    struct split_step *st;

    if (json_load_bool(j, "add_prefix_space", true)) {
        st = splitter_add(&l->tok->split, SPLIT_METASPACE);
        if (!st)
            return -ENOMEM;
        st->text = " ";
        st->text_len = 1;
        st->prepend = SPLIT_PREPEND_ALWAYS;
    }
    if (json_load_bool(j, "use_regex", true)) {
        st = splitter_add(&l->tok->split, SPLIT_FAST);
        if (!st)
            return -ENOMEM;
        st->fast = SPLIT_GPT2;
    }
    return splitter_add(&l->tok->split, SPLIT_BYTES) ? 0 : -ENOMEM;
}

/* Loads BERT's splitter, which removes white space, then isolates punctuation. */
static int load_bert_splitter(struct json_load *l)
{
    struct split_step *st = splitter_add(&l->tok->split, SPLIT_SPACES);

    if (st)
        st->behavior = SPLIT_REMOVED;
    return st && splitter_add(&l->tok->split, SPLIT_PUNCTUATION) ? 0 : -ENOMEM;
}

int json_load_splitter(struct json_load *l, const json_t *j)
{
    static const struct {
        const char *type;
        enum split_kind kind;
        enum split_behavior behavior;
    } plain[] = {
        {"Whitespace", SPLIT_WORDS, SPLIT_REMOVED},
        {"WhitespaceSplit", SPLIT_SPACES, SPLIT_REMOVED},
        {"Punctuation", SPLIT_PUNCTUATION, SPLIT_ISOLATED},
        {"Digits", SPLIT_DIGITS, SPLIT_CONTIGUOUS},
        {"UnicodeScripts", SPLIT_SCRIPTS, SPLIT_ISOLATED},
        {"CharDelimiterSplit", SPLIT_CHAR, SPLIT_REMOVED},
        {"FixedLength", SPLIT_LENGTH, SPLIT_ISOLATED},
    };
    const char *type = json_load_type(j);
    struct split_step *st;
    int64_t length;
    size_t i = 0;

    if (strcmp(type, "Sequence") == 0)
        return load_sequence(l, json_object_get(j, "pretokenizers"), json_load_splitter);
    if (strcmp(type, "ByteLevel") == 0)
        return load_byte_level(l, j);
    if (strcmp(type, "Metaspace") == 0)
        return load_metaspace(l, j);
    if (strcmp(type, "Split") == 0)
        return load_split(l, j);
    if (strcmp(type, "BertPreTokenizer") == 0)
        return load_bert_splitter(l);
    while (i < ARRAY_SIZE(plain) && strcmp(type, plain[i].type) != 0)
        i++;
    if (i == ARRAY_SIZE(plain))
        return json_load_unsupported(l, "pre_tokenizer", j);
    st = splitter_add(&l->tok->split, plain[i].kind);
    if (!st)
        return -ENOMEM;
    st->behavior = plain[i].behavior;
    if (st->kind == SPLIT_DIGITS && json_load_bool(j, "individual_digits", false))
        st->behavior = SPLIT_ISOLATED;
    length = json_load_uint(json_object_get(j, "length"), INT32_MAX);
    st->length = length > 0 ? (size_t)length : 5;
    if (st->kind == SPLIT_PUNCTUATION)
        return load_behavior(l, j, &st->behavior);
    if (st->kind != SPLIT_CHAR)
        return 0;
    st->text = json_load_text(l, json_object_get(j, "delimiter"), &st->text_len);
    return st->text && st->text_len
               ? 0
               : err_set(l->reterr, EINVAL, "\"CharDelimiterSplit\" has no \"delimiter\"");
}

static int load_dec_text(struct json_load *l, const json_t *j, const char *key,
                         const char *otherwise, const char **ret, size_t *ret_len)
{
    const json_t *text = json_object_get(j, key);

    if (!text && otherwise) {
        *ret = otherwise;
        *ret_len = strlen(otherwise);
        return 0;
    }
    *ret = json_load_text(l, text, ret_len);
    return *ret ? 0 : err_set(l->reterr, EINVAL, "a decoder has no \"%s\"", key);
}

static int load_dec_metaspace(struct json_load *l, const json_t *j, struct dec_step *st)
{
    enum split_prepend prepend;
    int r = load_metaspace_scheme(l, j, &prepend);

    st->first = prepend != SPLIT_PREPEND_NEVER;
    if (r == 0)
        r = load_dec_text(l, j, "replacement", NULL, &st->text, &st->text_len);
    return r;
}

static int load_dec_strip(struct json_load *l, const json_t *j, struct dec_step *st)
{
    const int64_t start = json_load_uint(json_object_get(j, "start"), INT32_MAX);
    const int64_t stop = json_load_uint(json_object_get(j, "stop"), INT32_MAX);
    int r = load_dec_text(l, j, "content", NULL, &st->text, &st->text_len);

    if (r == 0 && (st->text_len == 0 || start < 0 || stop < 0))
        r = err_set(l->reterr, EINVAL, "\"Strip\" has no \"content\", \"start\" or \"stop\"");
    st->start = (size_t)start;
    st->stop = (size_t)stop;
    return r;
}

int json_load_decoder(struct json_load *l, const json_t *j)
{
    static const struct {
        const char *type;
        enum dec_kind kind;
    } kinds[] = {
        {"ByteLevel", DEC_BYTES},
        {"Metaspace", DEC_METASPACE},
        {"WordPiece", DEC_WORDPIECE},
        {"BPEDecoder", DEC_SUFFIX},
        {"Fuse", DEC_FUSE},
        {"ByteFallback", DEC_BYTE_FALLBACK},
        {"Strip", DEC_STRIP},
        {"Replace", DEC_REPLACE},
        {"CTC", DEC_CTC},
    };
    const char *type = json_load_type(j);
    struct dec_step *st;
    size_t i = 0;
    int r;

    if (strcmp(type, "Sequence") == 0)
        return load_sequence(l, json_object_get(j, "decoders"), json_load_decoder);
    while (i < ARRAY_SIZE(kinds) && strcmp(type, kinds[i].type) != 0)
        i++;
    if (i == ARRAY_SIZE(kinds))
        return json_load_unsupported(l, "decoder", j);
    st = decoder_add(&l->tok->dec, kinds[i].kind);
    if (!st)
        return -ENOMEM;
    st->cleanup = json_load_bool(j, "cleanup", true);
    switch (st->kind) {
    case DEC_METASPACE:
        return load_dec_metaspace(l, j, st);
    case DEC_WORDPIECE:
        return load_dec_text(l, j, "prefix", "##", &st->text, &st->text_len);
    case DEC_SUFFIX:
        return load_dec_text(l, j, "suffix", "</w>", &st->text, &st->text_len);
    case DEC_STRIP:
        return load_dec_strip(l, j, st);
    case DEC_REPLACE:
        r = load_dec_text(l, j, "content", NULL, &st->content, &st->content_len);
        return r < 0 ? r
                     : json_load_pattern(l, json_object_get(j, "pattern"), &st->text, &st->text_len,
                                         &st->regex);
    case DEC_CTC:
        r = load_dec_text(l, j, "pad_token", "<pad>", &st->text, &st->text_len);
        return r < 0 ? r
                     : load_dec_text(l, j, "word_delimiter_token", "|", &st->content,
                                     &st->content_len);
    default:
        return 0;
    }
}
