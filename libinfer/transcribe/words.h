/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Words and when they were said
 *
 * Tokens are joined to words at blanks, or code point by code point in languages that write without
 * them. Their times come from those of tokens (transcribe/align.h) and are corrected by the rules
 * of OpenAI's whisper: a word does not last for a pause, and punctuation belongs to its word.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A run of bytes of the text and of the tokens that make them. One without text has gone into
 * another one. */
struct word {
    size_t text, n_text;
    size_t token, n_tokens;
    double start, end; /* seconds */
    double probability;
};

/* The text of all tokens one behind the other: token i ends at byte ends[i]. */
struct words_text {
    const char *text;
    const size_t *ends;
    size_t n_tokens;
};

/* Takes white space off both ends of a text; one that is no UTF-8 stays as it is. */
void words_strip(const char **text, size_t *len);
/* Cuts tokens into words. @words: [n_tokens]; their times are not set. Returns how many. */
size_t words_split(const struct words_text *text, bool has_blanks, struct word *words);

/* Sets times within the window, and probabilities. @frames: [n_tokens + 1], where each token and
 * the end begin, in steps of 20 ms; @probabilities: [n_tokens]. */
void words_set_times(struct word *words, size_t n_words, const uint32_t *frames,
                     const float *probabilities);

struct words_lengths {
    double median, max; /* seconds */
};

/* What is usual among these words; @scratch: [n_words]. */
struct words_lengths words_measure(const struct word *words, size_t n_words, double *scratch);
/* Shortens long words next to the end of a sentence, then joins punctuation with its words. */
void words_join(const struct words_text *text, struct word *words, size_t n_words,
                const struct words_lengths *lengths);

/*
 * Takes the words of the next segment, of @n_tokens tokens, and places them in a recording of which
 * the window begins at @offset. Those with a text are then the first of @words; returns how many,
 * and in *ret_n_taken how many belong to the segment in all.
 */
size_t words_take(struct word *words, size_t n_words, size_t n_tokens, double offset,
                  size_t *ret_n_taken);

struct words_segment {
    double start, end; /* seconds */
};

/*
 * Corrects the first and last of the words that were taken for a segment, and moves the segment's
 * borders to them. @last_end: where speech before it ended. Returns where it ends now.
 */
double words_fit(struct word *words, size_t n_words, struct words_segment *segment, double last_end,
                 const struct words_lengths *lengths);
