/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines GGUF's named splitters.
 *
 * A splitter is a list of expressions. Each expression splits the words that the expressions before
 * it made. The names and their meaning are those of llama.cpp (src/llama-vocab.cpp), including its
 * differences from the models' own files: llama.cpp has one class for upper and lower case letters
 * beyond ASCII, and does not count '~' as a symbol.
 */
#include "tokenizer/pre-names.h"

#include <errno.h>
#include <string.h>

#include "core/err.h"

/* Each of these strings stands for a step that is written in C instead of as an expression. */
#define GPT2   "\1"
#define LLAMA3 "\2"
#define QWEN2  "\3"
#define QWEN35 "\4"
#define O200K  "\5"
#define TEKKEN "\6"
#define MARKS  "\7"
#define GROUPS "\x08"
#define DIGITS "\x0b"

#define CONTRACTIONS "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
#define LEAD         "[^\\r\\n\\p{L}\\p{N}]?"
#define SPACES       "\\s+(?!\\S)|\\s+"
#define TAIL         "|\\s*[\\r\\n]+|" SPACES
#define OTHERS       "| ?[^\\s\\p{L}\\p{N}]+"
#define NEWLINES     "[^\\n]+|[\\n]+"
#define SYMBOLS      "[\\p{S}&&[^~]]"
#define ASCII_PUNCT  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"
#define PUNCT_WORDS                                                                                \
    ASCII_PUNCT "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}" SYMBOLS "]?[\\p{L}\\p{M}]+| ?[\\p{P}" SYMBOLS     \
                "]++[\\r\\n]*" TAIL
#define BLOOM " ?[^(\\s|.,!?…。，、।۔،)]+"
/* White space is excluded from these ranges, because llama.cpp does not match white space in
 * them. */
#define DEEPSEEK_CJK "(?:(?!\\s)[一-龥ࠀ-一가-\\x{d7ff}])++"
#define HAN                                                                                        \
    "[\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{20000}-\\x{2a6df}\\x{2a700}-\\x{2b73f}"            \
    "\\x{2b740}-\\x{2b81f}\\x{2b820}-\\x{2ceaf}\\x{2ceb0}-\\x{2ebef}\\x{f900}-\\x{faff}"           \
    "\\x{2f800}-\\x{2fa1f}]"
#define DEEPSEEK_LETTERS                                                                           \
    "\\s?["                                                                                        \
    "\\x{41}-\\x{5a}\\x{61}-\\x{7a}\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}"          \
    "\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}"         \
    "\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}"                  \
    "\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}"      \
    "\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}"                 \
    "\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}"                 \
    "\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}"        \
    "\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}"         \
    "\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}"                 \
    "\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}"                  \
    "\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}"                   \
    "\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}"        \
    "\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}"         \
    "\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}"                  \
    "\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}"                 \
    "\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}"               \
    "\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}"         \
    "\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"                                                   \
    "]+"

enum pre_kind {
    KIND_DEFAULT,
    KIND_LLAMA3,
    KIND_JAIS2,
    KIND_DEEPSEEK_LLM,
    KIND_DEEPSEEK3,
    KIND_YOUTU,
    KIND_DEEPSEEK_CODER,
    KIND_FALCON,
    KIND_STARCODER,
    KIND_GPT2,
    KIND_QWEN2,
    KIND_QWEN35,
    KIND_BLOOM,
    KIND_VIKING,
    KIND_TEKKEN,
    KIND_CHAMELEON,
    KIND_GPT4O,
    KIND_GRANITE_EMB,
    KIND_TINY_AYA,
    KIND_KIMI,
    KIND_SUPERBPE,
    KIND_BAILING,
    KIND_SEED,
    KIND_AFMOE,
    KIND_LAGUNA,
    KIND_EXAONE_MOE,
    KIND_NEWLINES,
    KIND_MINICPM5,
    KIND_WORDS,
};

static const char *const steps[][7] = {
    [KIND_DEFAULT] = {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"},
    [KIND_LLAMA3] = {LLAMA3},
    [KIND_JAIS2] = {CONTRACTIONS
                    "|" LEAD "\\p{L}+|\\p{N}{1,3}" OTHERS
                    "[\\r\\n]*|(?<![^\\S\\r\\n])\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)|"
                    "\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|"
                    "\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}"},
    /* The lookbehind makes sure that the match of a run of spaces is tried only at its start, which
     * avoids quadratic time. */
    [KIND_DEEPSEEK_LLM] = {"[\r\n]", DEEPSEEK_LETTERS, "\\s?[!-/:-~！-／：-～‘-‟\\x{3001}-。]+",
                           "(?<!\\s)\\s+\\z", DEEPSEEK_CJK, "\\p{N}+"},
    [KIND_DEEPSEEK3] = {"\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", PUNCT_WORDS},
    [KIND_YOUTU] =
        {"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-"
         "ゟ゠-"
         "ヿ]"
         "+",
         LEAD "[\\p{L}\\p{M}]+" CONTRACTIONS "?|\\p{N}" OTHERS "[\\r\\n/]*" TAIL},
    [KIND_DEEPSEEK_CODER] = {"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", DEEPSEEK_CJK, "\\p{N}"},
    [KIND_FALCON] = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"},
    [KIND_STARCODER] = {"\\p{N}", GPT2},
    [KIND_GPT2] = {GPT2},
    [KIND_QWEN2] = {QWEN2},
    [KIND_QWEN35] = {QWEN35},
    [KIND_BLOOM] = {BLOOM},
    [KIND_VIKING] = {BLOOM, "\\p{N}"},
    [KIND_TEKKEN] = {TEKKEN},
    [KIND_CHAMELEON] = {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", "\\p{N}",
                        "[\\p{P}!-/:-@\\[-`{-~]", GPT2},
    [KIND_GPT4O] = {O200K},
    [KIND_GRANITE_EMB] = {MARKS},
    [KIND_TINY_AYA] = {GROUPS, LEAD "[\\p{L}\\p{M}]+" CONTRACTIONS "?|\\p{N}{1,3}" OTHERS
                                    "[\\r\\n/]*" TAIL},
    [KIND_KIMI] = {HAN "+|" LEAD "(?:(?!" HAN ")\\p{L})++" CONTRACTIONS "?|\\p{N}{1,3}" OTHERS
                       "[\\r\\n]*" TAIL},
    [KIND_SUPERBPE] = {"\\p{N}+", DIGITS},
    [KIND_BAILING] = {"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|" LEAD "\\p{L}+|\\p{N}" OTHERS
                      "[\\r\\n]*|\\s*[\\r\\n]|" SPACES},
    [KIND_SEED] = {CONTRACTIONS "|" LEAD "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" TAIL},
    [KIND_AFMOE] =
        {GROUPS,
         "[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-"
         "꧿가-"
         "힯ᄀ-ᇿ]+",
         PUNCT_WORDS},
    [KIND_LAGUNA] = {NEWLINES, QWEN2},
    [KIND_EXAONE_MOE] = {CONTRACTIONS "|" LEAD "\\p{L}(?:[\\p{L}\\p{M}]+| \\p{L})*+|\\p{N}" OTHERS
                                      "[\\r\\n/]?|\\s*[\\r\\n]|" SPACES},
    [KIND_NEWLINES] = {NEWLINES},
    [KIND_MINICPM5] = {"\\p{N}{1,3}",
                       CONTRACTIONS "|" LEAD "\\p{L}+|\\p{N}+" OTHERS "[\\r\\n]*" TAIL},
    [KIND_WORDS] = {"\\S+"},
};

#define LLAMA (PRE_IGNORE_MERGES | PRE_ADD_BOS)

static const struct {
    const char *name;
    enum pre_kind kind;
    unsigned flags;
} names[] = {
    {"default", KIND_DEFAULT, 0},
    {"minicpm5", KIND_MINICPM5, PRE_IGNORE_MERGES},
    {"llama3", KIND_LLAMA3, LLAMA},
    {"llama-v3", KIND_LLAMA3, LLAMA},
    {"llama-bpe", KIND_LLAMA3, LLAMA},
    {"falcon3", KIND_LLAMA3, LLAMA},
    {"falcon-h1", KIND_LLAMA3, LLAMA},
    {"pixtral", KIND_LLAMA3, LLAMA},
    {"midm-2.0", KIND_LLAMA3, LLAMA},
    {"lfm2", KIND_LLAMA3, LLAMA},
    {"jina-v5-nano", KIND_LLAMA3, LLAMA},
    {"deepseek-llm", KIND_DEEPSEEK_LLM, 0},
    {"deepseek-coder", KIND_DEEPSEEK_CODER, 0},
    {"deepseek-v3", KIND_DEEPSEEK3, 0},
    {"youtu", KIND_YOUTU, PRE_IGNORE_MERGES},
    {"falcon", KIND_FALCON, 0},
    {"mpt", KIND_GPT2, 0},
    {"starcoder", KIND_STARCODER, 0},
    {"gpt-2", KIND_GPT2, 0},
    {"phi-2", KIND_GPT2, 0},
    {"jina-es", KIND_GPT2, 0},
    {"jina-de", KIND_GPT2, 0},
    {"gigachat", KIND_GPT2, 0},
    {"jina-v2-es", KIND_GPT2, PRE_MASK_STRIP},
    {"jina-v2-de", KIND_GPT2, PRE_MASK_STRIP},
    {"a.x-4.0", KIND_GPT2, 0},
    {"mellum", KIND_GPT2, 0},
    {"modern-bert", KIND_GPT2, 0},
    {"jais-2", KIND_JAIS2, 0},
    {"gemma4", KIND_NEWLINES, PRE_RAW | PRE_ESCAPE | PRE_NEWLINES | PRE_ADD_BOS},
    {"granite-embed-multi-311m", KIND_NEWLINES, PRE_RAW | PRE_ESCAPE | PRE_NEWLINES | PRE_ADD_BOS},
    {"sarvam-moe", KIND_NEWLINES, PRE_RAW | PRE_ESCAPE},
    {"jina-v1-en", KIND_GPT2, 0},
    {"jina-v2-code", KIND_GPT2, PRE_MASK_STRIP},
    {"roberta-bpe", KIND_GPT2, 0},
    {"whitespace", KIND_WORDS, PRE_RAW},
    {"refact", KIND_STARCODER, 0},
    {"command-r", KIND_STARCODER, 0},
    {"qwen2", KIND_QWEN2, 0},
    {"deepseek-r1-qwen", KIND_QWEN2, 0},
    {"kormo", KIND_QWEN2, 0},
    {"f2llmv2", KIND_QWEN2, 0},
    {"qwen35", KIND_QWEN35, 0},
    {"stablelm2", KIND_QWEN2, 0},
    {"olmo", KIND_GPT2, 0},
    {"dbrx", KIND_LLAMA3, 0},
    {"smaug-bpe", KIND_LLAMA3, 0},
    {"poro-chat", KIND_BLOOM, 0},
    {"glm4", KIND_LLAMA3, PRE_NO_BOS},
    {"chatglm-bpe", KIND_LLAMA3, PRE_NO_BOS},
    {"viking", KIND_VIKING, 0},
    {"jais", KIND_GPT2, 0},
    {"tekken", KIND_TEKKEN, LLAMA},
    {"smollm", KIND_STARCODER, 0},
    {"codeshell", KIND_STARCODER, 0},
    {"bloom", KIND_BLOOM, 0},
    {"gpt3-finnish", KIND_BLOOM, 0},
    {"exaone", KIND_STARCODER, 0},
    {"exaone4", KIND_GPT2, 0},
    {"exaone-moe", KIND_EXAONE_MOE, 0},
    {"chameleon", KIND_CHAMELEON, PRE_ADD_BOS},
    {"minerva-7b", KIND_STARCODER, 0},
    {"megrez", KIND_QWEN2, 0},
    {"gpt-4o", KIND_GPT4O, 0},
    {"llama4", KIND_GPT4O, 0},
    {"kanana2", KIND_GPT4O, 0},
    {"talkie", KIND_GPT4O, 0},
    {"granite-embed-multi-97m", KIND_GRANITE_EMB, PRE_IGNORE_MERGES},
    {"tiny_aya", KIND_TINY_AYA, 0},
    {"cohere2moe", KIND_TINY_AYA, 0},
    {"superbpe", KIND_SUPERBPE, 0},
    {"trillion", KIND_GPT2, 0},
    {"granite-docling", KIND_GPT2, 0},
    {"bailingmoe", KIND_BAILING, 0},
    {"bailingmoe2", KIND_BAILING, 0},
    {"llada-moe", KIND_BAILING, 0},
    {"seed-coder", KIND_SEED, 0},
    {"hunyuan", KIND_QWEN2, 0},
    {"hunyuan-dense", KIND_DEEPSEEK3, 0},
    {"joyai-llm", KIND_DEEPSEEK3, 0},
    {"kimi-k2", KIND_KIMI, 0},
    {"grok-2", KIND_QWEN2, 0},
    {"afmoe", KIND_AFMOE, 0},
    {"laguna", KIND_LAGUNA, 0},
    {"minimax-m2", KIND_GPT4O, 0},
    {"solar-open", KIND_QWEN2, 0},
    {"mellum2", KIND_STARCODER, 0},
};

static int add_step(struct splitter *s, const char *pattern, struct inf_err *reterr)
{
    struct split_step *st;

    if (*pattern == *GROUPS) {
        st = splitter_add(s, SPLIT_GROUPS_OF_3);
    } else if (*pattern == *DIGITS) {
        st = splitter_add(s, SPLIT_ASCII_GROUPS);
    } else if (*pattern < *GROUPS) {
        st = splitter_add(s, SPLIT_FAST);
        if (st)
            st->fast = (enum split_fast)(*pattern - *GPT2);
    } else {
        st = splitter_add(s, SPLIT_REGEX);
    }
    if (!st)
        return -ENOMEM;
    st->version = UNI_15_1;
    return st->kind == SPLIT_REGEX
               ? pattern_compile(pattern, strlen(pattern), UNI_15_1, &st->regex, reterr)
               : 0;
}

int pre_find(const char *name, size_t len, struct splitter *s, unsigned *ret_flags,
             struct inf_err *reterr)
{
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const char *const *p = steps[names[i].kind];
        int r = 0;

        if (strlen(names[i].name) != len || memcmp(names[i].name, name, len) != 0)
            continue;
        for (size_t k = 0; r == 0 && k < ARRAY_SIZE(steps[0]) && p[k]; k++)
            r = add_step(s, p[k], reterr);
        if (r == 0)
            *ret_flags = names[i].flags;
        return r;
    }
    return err_set(reterr, ENOTSUP, "unknown pre-tokenizer '%.*s'", (int)MIN(len, 80u), name);
}
