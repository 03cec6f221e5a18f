/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Gives the Unicode properties that tokenizers used when models were trained.
 *
 * The system's libraries implement one version of Unicode, and the reference implementations use
 * several. codepoint-tables.h has the differences. All functions are pure.
 */

#include "core/macros.h"

/* The newest version of Unicode whose code points count as assigned. */
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

/* Returns a set of enum uni_class. */
unsigned uni_class(uint32_t cp, enum uni_version version);
bool uni_space(uint32_t cp);
/* Returns whether \w of Rust's regex matches. */
bool uni_word_rust(uint32_t cp);
bool uni_numeric(uint32_t cp);
/* Return whether BERT's splitter and clean-up treat the code point as punctuation, as a control
 * character, as an accent, or as Chinese. */
bool uni_bert_punct(uint32_t cp);
bool uni_bert_control(uint32_t cp);
bool uni_bert_accent(uint32_t cp);
bool uni_bert_chinese(uint32_t cp);
/* Returns whether StripAccents treats the code point as a combining mark. */
bool uni_mark(uint32_t cp);
/* Writes the full lower-case mapping, 1 or 2 code points, and returns their number. */
size_t uni_lower(uint32_t cp, uint32_t out[2]);
/* Returns the number of the script for splitting by scripts; -1: the code point belongs to any
 * script. */
int uni_script(uint32_t cp);

/* Returns whether the general category is Cc, Cf or Co. */
bool uni_control(uint32_t cp);
/* Returns the simple lower-case mapping. */
uint32_t uni_lower_simple(uint32_t cp);

enum uni_form {
    UNI_NFC,
    UNI_NFD,
    UNI_NFKC,
    UNI_NFKD,
};

/* Normalizes @n code points at @in, of which the first @zero come from the first code point of an
 * input (text.h). *ret_zero is the number of code points in the output that come from that code
 * point. The caller frees *ret_out. */
int uni_normalize(enum uni_form form, const uint32_t *in, size_t n, size_t zero, uint32_t **ret_out,
                  size_t *ret_n, size_t *ret_zero);

/* Iterates over the ranges of the general category @name (such as "Nd", or "L" for all letters)
 * that were assigned after Unicode 14 and up to @version. Returns false after the last range. */
bool uni_new_range(const char *name, enum uni_version version, size_t *i, uint32_t *ret_first,
                   uint32_t *ret_last);
/* Iterates over the ranges that \w matches besides letters, marks, decimal digits and
 * connectors. */
bool uni_word_range(size_t i, uint32_t *ret_first, uint32_t *ret_last);
