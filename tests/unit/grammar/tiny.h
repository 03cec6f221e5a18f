/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Provides a tiny tokenizer for tests of grammars. */

#include "lib/test.h"

#include "grammar/grammar.h"
#include "tokenizer/tokenizer.h"

/* The ids of tokens. */
enum {
    TINY_A = 0,
    TINY_B = 1,
    TINY_C = 2,
    TINY_N = 13, /* the number of plain tokens */
    TINY_END = 13,
    TINY_CALL,
    TINY_TAG,
    TINY_ALL,
};

static const char *const TINY_TEXTS[TINY_ALL] = {"a",   "b",     "c",      "ab",   "ba", "cc",
                                                 "abc", "aaa",   "cab",    "(",    ")",  "\"",
                                                 "bb",  "<end>", "<call>", "<tag>"};

static inline struct inf_tokenizer *tiny_tokenizer(void)
{
    static const char json[] =
        "{\"added_tokens\":[{\"id\":13,\"content\":\"<end>\",\"special\":true},"
        "{\"id\":14,\"content\":\"<call>\",\"special\":true},"
        "{\"id\":15,\"content\":\"<tag>\",\"special\":false}],"
        "\"decoder\":{\"type\":\"ByteLevel\"},\"pre_tokenizer\":{\"type\":\"ByteLevel\","
        "\"add_prefix_space\":false,\"use_regex\":false},"
        "\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,"
        "\"ba\":4,\"cc\":5,\"abc\":6,\"aaa\":7,\"cab\":8,\"(\":9,\")\":10,\"\\\"\":11,\"bb\":12}}}";
    static const char config[] = "{\"eos_token\":\"<end>\"}";
    struct inf_tokenizer *tok;
    struct inf_err err = {0};

    ASSERT_OK_ERR(tokenizer_parse_json(json, strlen(json), config, strlen(config), &tok, &err),
                  err);
    return tok;
}

/* Feeds bytes that have tokens of their own. Returns whether all were accepted. */
static inline bool tiny_feed(struct grammar_matcher *m, const char *text)
{
    for (; *text; text++) {
        int32_t id = 0;

        while (TINY_TEXTS[id][0] != *text || TINY_TEXTS[id][1] != '\0')
            id++;
        if (grammar_matcher_accept(m, id) != 0)
            return false;
    }
    return true;
}
