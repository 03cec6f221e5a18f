/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Unicode properties as the tokenizers use with which models were trained
 *
 * The system's libraries implement one Unicode version, the reference implementations several;
 * codepoint-tables.h has the differences. All functions are pure.
 */

#include "core/macros.h"

/* Version of Unicode up to which assignments count. */
enum uni_version {
    UNI_15_1, /* GGUF's named splitters */
    UNI_16,   /* tokenizer.json */
};

enum uni_class {
    UNI_L = 1 << 0,
    UNI_N = 1 << 1,
    UNI_P = 1 << 2,
    UNI_S = 1 << 3,
    UNI_M = 1 << 4,
    UNI_SPACE = 1 << 5, /* White_Space */
};

/* A set of enum uni_class. */
unsigned uni_class(uint32_t cp, enum uni_version version);
bool uni_space(uint32_t cp);
/* \w of Oniguruma, and that of Rust's regex. */
bool uni_word_rust(uint32_t cp);
bool uni_numeric(uint32_t cp);
/* Punctuation, control characters and accents as BERT's splitter and clean-up define them. */
bool uni_bert_punct(uint32_t cp);
bool uni_bert_control(uint32_t cp);
bool uni_bert_accent(uint32_t cp);
bool uni_bert_chinese(uint32_t cp);
/* Combining marks as StripAccents defines them. */
bool uni_mark(uint32_t cp);
/* Lower case. Writes 1 or 2 code points and returns how many. */
size_t uni_lower(uint32_t cp, uint32_t out[2]);
/* Number of the script for splitting by scripts; -1 matches any. */
int uni_script(uint32_t cp);

/* Cc, Cf and Co. */
bool uni_control(uint32_t cp);
/* Simple lower case. */
uint32_t uni_lower_simple(uint32_t cp);

enum uni_form {
    UNI_NFC,
    UNI_NFD,
    UNI_NFKC,
    UNI_NFKD,
};

/* Normalizes @n code points at @in, of which the first @zero come from the start of a text. The
 * caller frees *ret_out. *ret_zero is the same count for the output. */
int uni_normalize(enum uni_form form, const uint32_t *in, size_t n, size_t zero, uint32_t **ret_out,
                  size_t *ret_n, size_t *ret_zero);

/* Iterates over ranges with one of the general categories @names (such as "L" or "Nd") that were
 * assigned after Unicode 14 and up to @version. Returns false past the last. */
bool uni_new_range(const char *name, enum uni_version version, size_t *i, uint32_t *ret_first,
                   uint32_t *ret_last);
/* Ranges that \w matches besides letters, marks, decimal digits and connectors. */
bool uni_word_range(size_t i, uint32_t *ret_first, uint32_t *ret_last);
