/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs the regular expressions of tokenizer files.
 *
 * The files use Oniguruma's Ruby dialect; the engine is PCRE2 without its JIT. Compiling an
 * expression translates nested and intersected classes, \h, Ruby's meaning of (?m), ^ and $, and \s
 * \w \d \b and \p{…}. The translation lists code points that some versions of PCRE2 do not know, so
 * that every version gives the same matches. A compiled expression is immutable and shared by
 * threads; each thread has its own struct pattern_work.
 */

#include <infer/types.h>

#include "core/macros.h"
#include "core/str.h"
#include "tokenizer/codepoint.h"

struct pattern;
struct pattern_work;

int pattern_compile(const char *pattern, size_t len, enum uni_version version,
                    struct pattern **ret_pattern, struct inf_err *reterr);
struct pattern *pattern_free(struct pattern *re);
DEFINE_CLEANUP(struct pattern *, pattern_free);

int pattern_work_new(struct pattern_work **ret_work);
struct pattern_work *pattern_work_free(struct pattern_work *work);
DEFINE_CLEANUP(struct pattern_work *, pattern_work_free);

/* Conditions that functions return as positive numbers. */
enum {
    PATTERN_NONE = 1, /* there is no further match */
};

/*
 * Finds the first match at or after @from in @text, which is valid UTF-8. Returns 0, PATTERN_NONE,
 * -ENOMEM, or -E2BIG if the expression exceeds the limits.
 */
int pattern_find(const struct pattern *re, struct pattern_work *work, const char *text, size_t len,
                 size_t from, size_t *ret_start, size_t *ret_end);

/* State of a walk over all matches in a text. All zero: the walk begins. */
struct pattern_walk {
    size_t from, last_end;
    bool began;
};

/* Finds the next match. Results are those of pattern_find(). An empty match right after another
 * match is skipped, as in Rust's regex. */
int pattern_next(const struct pattern *re, struct pattern_work *work, const char *text, size_t len,
                 struct pattern_walk *walk, size_t *ret_start, size_t *ret_end);

/* Translates an expression without compiling it. pattern.c and tests call it. */
int pattern_translate(const char *pattern, size_t len, enum uni_version version, struct str *out,
                      struct inf_err *reterr);
