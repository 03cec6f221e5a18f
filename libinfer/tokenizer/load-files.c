/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads tokenizers from the files that were used before tokenizer.json: vocab.json with merges.txt,
 * or vocab.txt.
 *
 * These files are converted to a tokenizer.json in memory, as Hugging Face's converters do it, and
 * the result is read like any other tokenizer.json. tokenizer_class selects the splitter.
 */
#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "core/text.h"
#include "core/utf8.h"
#include "tokenizer/load-config.h"
#include "tokenizer/load-json.h"

#define QWEN2_PATTERN                                                                              \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+"      \
    "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* Returns whether the class @name is @class, or @class with "Fast" after it. */
static bool is_class(const char *name, const char *class)
{
    const char *rest = text_after(name, class);

    return rest && (rest[0] == 0 || strcmp(rest, "Fast") == 0);
}

/* Returns the tokens of added_tokens_decoder as a list with ids. If there is no
 * added_tokens_decoder, returns the tokens that tokenizer_config.json or special_tokens_map.json
 * names, without ids. */
static json_t *added_tokens(const struct config *config)
{
    static const char *const keys[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                       "pad_token", "cls_token", "mask_token"};
    json_t *list = json_array(), *value;
    const char *key;

    json_object_foreach((json_t *)config_get(config, "added_tokens_decoder"), key, value)
    {
        json_t *copy = json_is_object(value) ? json_copy(value) : NULL;

        if (copy) {
            json_object_set_new(copy, "id", json_real(strtod(key, NULL)));
            json_array_append_new(list, copy);
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        size_t len;
        const char *text = config_token(config, keys[i], &len);

        if (text && !config_get(config, "added_tokens_decoder"))
            json_array_append_new(list, json_pack("{s:s%, s:b, s:b}", "content", text, len,
                                                  "special", 1, "normalized", 0));
    }
    return list;
}

/* Adds the tokens of added_tokens_decoder to the vocabulary, with their ids. */
static int put_ids(json_t *vocab, const json_t *added, struct inf_err *reterr)
{
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *j = json_array_get(added, i);
        const json_t *content = json_object_get(j, "content");
        const int64_t id = json_load_uint(json_object_get(j, "id"), VOCAB_MAX_PIECES - 1);

        if (!json_object_get(j, "id"))
            continue;
        if (id < 0 || !json_is_string(content) ||
            strlen(json_string_value(content)) != json_string_length(content))
            return err_set(reterr, EINVAL, "added_tokens_decoder has a bad id or text");
        if (!json_object_get(vocab, json_string_value(content)))
            json_object_set_new(vocab, json_string_value(content), json_real((double)id));
    }
    return 0;
}

static int load_root(json_t *root, const struct config *config, struct inf_tokenizer **ret_tok,
                     struct inf_err *reterr)
{
    char *text = json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(17));
    int r;

    if (!text)
        return err_set(reterr, EINVAL, "the vocabulary is not text");
    r = tokenizer_load_json(text, strlen(text), config, ret_tok, reterr);
    free(text);
    return r;
}

static json_t *read_merges(const char *s, size_t len)
{
    json_t *list = json_array();
    const char *end = s + len;

    while (s < end) {
        const char *eol = memchr(s, '\n', (size_t)(end - s));
        size_t n = eol ? (size_t)(eol - s) : (size_t)(end - s);

        if (n > 0 && s[n - 1] == '\r')
            n--;
        if (n > 0)
            json_array_append_new(list, json_stringn(s, n));
        s = eol ? eol + 1 : end;
    }
    return list;
}

/* Returns the steps for a tokenizer_class; NULL if the class is unknown. */
static json_t *bpe_steps(const char *class, bool prefix_space)
{
    if (is_class(class, "Qwen2Tokenizer") || is_class(class, "Qwen3Tokenizer"))
        return json_pack("{s:{s:s}, s:{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, {s:s, s:b, s:b}]}, "
                         "s:{s:s}}",
                         "normalizer", "type", "NFC", "pre_tokenizer", "type", "Sequence",
                         "pretokenizers", "type", "Split", "pattern", "Regex", QWEN2_PATTERN,
                         "behavior", "Isolated", "invert", 0, "type", "ByteLevel",
                         "add_prefix_space", prefix_space, "use_regex", 0, "decoder", "type",
                         "ByteLevel");
    if (!*class || is_class(class, "GPT2Tokenizer") || is_class(class, "RobertaTokenizer") ||
        is_class(class, "BartTokenizer") || is_class(class, "CodeGenTokenizer") ||
        is_class(class, "WhisperTokenizer") || is_class(class, "LongformerTokenizer"))
        return json_pack("{s:{s:s, s:b}, s:{s:s}}", "pre_tokenizer", "type", "ByteLevel",
                         "add_prefix_space", prefix_space, "decoder", "type", "ByteLevel");
    return NULL;
}

static int put_roberta(json_t *root, const json_t *vocab, const struct config *config)
{
    size_t len;
    const char *cls = config_token(config, "cls_token", &len);
    const char *sep = config_token(config, "sep_token", &len);

    cls = cls ? cls : "<s>";
    sep = sep ? sep : "</s>";
    if (!json_object_get(vocab, cls) || !json_object_get(vocab, sep))
        return 0;
    return json_object_set_new(root, "post_processor",
                               json_pack("{s:s, s:[sO], s:[sO]}", "type", "RobertaProcessing",
                                         "cls", cls, json_object_get(vocab, cls), "sep", sep,
                                         json_object_get(vocab, sep)))
               ? -ENOMEM
               : 0;
}

int tokenizer_load_bpe(const char *vocab, size_t vocab_len, const char *merges, size_t merges_len,
                       const struct config *config, struct inf_tokenizer **ret_tok,
                       struct inf_err *reterr)
{
    const json_t *class = config_get(config, "tokenizer_class");
    const char *name = json_is_string(class) ? json_string_value(class) : "";
    _cleanup_json_ json_t *root =
        bpe_steps(name, json_is_true(config_get(config, "add_prefix_space")));
    json_t *pieces = NULL, *added = added_tokens(config);
    int r;

    if (!root || !added) {
        json_decref(added);
        return err_set(reterr, ENOTSUP,
                       "vocab.json with tokenizer_class '%.60s' needs a tokenizer.json", name);
    }
    json_object_set_new(root, "added_tokens", added);
    r = json_text_parse(vocab, vocab_len, JSON_TEXT_DUPLICATES | JSON_TEXT_BIG_INTS, "vocab.json",
                        &pieces, reterr);
    if (r < 0)
        return r;
    json_object_set_new(root, "model",
                        json_pack("{s:s, s:o, s:o}", "type", "BPE", "vocab", pieces, "merges",
                                  read_merges(merges, merges_len)));
    r = put_ids(pieces, added, reterr);
    if (r == 0 && text_starts_with(name, "Roberta"))
        r = put_roberta(root, pieces, config);
    return r < 0 ? r : load_root(root, config, ret_tok, reterr);
}

static json_t *read_vocab(const char *s, size_t len, struct inf_err *reterr)
{
    json_t *pieces = json_object();
    const char *end = s + len;

    for (size_t id = 0; s < end; id++) {
        const char *eol = memchr(s, '\n', (size_t)(end - s));
        size_t n = eol ? (size_t)(eol - s) : (size_t)(end - s);
        char *key;

        if (n > 0 && s[n - 1] == '\r')
            n--;
        if (!utf8_valid(s, n) || memchr(s, 0, n)) {
            err_set(reterr, EINVAL, "vocab.txt: line %zu is not text", id + 1);
            json_decref(pieces);
            return NULL;
        }
        key = strndup(s, n);
        if (key && n > 0)
            json_object_set_new(pieces, key, json_real((double)id));
        free(key);
        s = eol ? eol + 1 : end;
    }
    return pieces;
}

static bool lower_case(const struct config *config)
{
    const json_t *j = config_get(config, "do_lower_case");

    return !json_is_false(j);
}

static int put_bert(json_t *root, const json_t *pieces, const struct config *config)
{
    static const char *const names[] = {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"};
    json_t *added = added_tokens(config);
    const json_t *accents = config_get(config, "strip_accents");
    const json_t *chinese = config_get(config, "tokenize_chinese_chars");

    if (json_array_size(added) == 0)
        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
            if (json_object_get(pieces, names[i]))
                json_array_append_new(added, json_pack("{s:s, s:b, s:b}", "content", names[i],
                                                       "special", 1, "normalized", 0));
    json_object_set_new(root, "added_tokens", added);
    json_object_set_new(root, "normalizer",
                        json_pack("{s:s, s:b, s:b, s:b}", "type", "BertNormalizer", "clean_text", 1,
                                  "handle_chinese_chars", !json_is_false(chinese), "lowercase",
                                  lower_case(config)));
    if (json_is_boolean(accents))
        json_object_set(json_object_get(root, "normalizer"), "strip_accents", (json_t *)accents);
    if (!json_object_get(pieces, "[CLS]") || !json_object_get(pieces, "[SEP]"))
        return 0;
    return json_object_set_new(root, "post_processor",
                               json_pack("{s:s, s:[sO], s:[sO]}", "type", "BertProcessing", "cls",
                                         "[CLS]", json_object_get(pieces, "[CLS]"), "sep", "[SEP]",
                                         json_object_get(pieces, "[SEP]")))
               ? -ENOMEM
               : 0;
}

int tokenizer_load_vocab(const char *text, size_t len, const struct config *config,
                         struct inf_tokenizer **ret_tok, struct inf_err *reterr)
{
    _cleanup_json_ json_t *root =
        json_pack("{s:{s:s}, s:{s:s, s:s, s:b}}", "pre_tokenizer", "type", "BertPreTokenizer",
                  "decoder", "type", "WordPiece", "prefix", "##", "cleanup", 0);
    const json_t *class = config_get(config, "tokenizer_class");
    _cleanup_(tokenizer_freep) struct inf_tokenizer *tok = NULL;
    json_t *pieces = read_vocab(text, len, reterr);
    int r;

    if (!pieces)
        return -EINVAL;
    if (!root) {
        json_decref(pieces);
        return -ENOMEM;
    }
    json_object_set_new(root, "model",
                        json_pack("{s:s, s:o, s:s, s:s, s:i}", "type", "WordPiece", "vocab", pieces,
                                  "unk_token", "[UNK]", "continuing_subword_prefix", "##",
                                  "max_input_chars_per_word", 100));
    if (json_is_string(class) && !text_ends_with(json_string_value(class), "BertTokenizer") &&
        !text_ends_with(json_string_value(class), "BertTokenizerFast"))
        return err_set(reterr, ENOTSUP, "vocab.txt with tokenizer_class '%.60s' is not supported",
                       json_string_value(class));
    if (!json_object_get(pieces, "[UNK]"))
        return err_set(reterr, EINVAL, "vocab.txt has no [UNK]");
    r = put_bert(root, pieces, config);
    if (r == 0)
        r = load_root(root, config, &tok, reterr);
    if (r < 0)
        return r;
    if (!json_is_false(config_get(config, "clean_up_tokenization_spaces")) &&
        (!decoder_add(&tok->dec, DEC_FUSE) || !decoder_add(&tok->dec, DEC_CLEANUP)))
        return -ENOMEM;
    *ret_tok = STEAL(tok);
    return 0;
}
