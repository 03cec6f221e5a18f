/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes words of tokens, and finds their times.
 *
 * Tokens are joined to words at blanks, or code point by code point in languages without blanks.
 * The times of words come from the times of tokens (transcribe/align.h) and are corrected by the
 * rules of OpenAI's whisper: a word does not extend over a pause, and punctuation belongs to its
 * word.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A run of bytes of the text, and the tokens that make these bytes. A word without text was merged
 * into another word. */
struct word {
    size_t text, n_text;
    size_t token, n_tokens;
    double start, end; /* seconds */
    double probability;
};

/* The concatenated text of all tokens: token i ends at byte ends[i]. */
struct words_text {
    const char *text;
    const size_t *ends;
    size_t n_tokens;
};

/* Removes white space from both ends of a text. Invalid UTF-8 is left unchanged. */
void words_strip(const char **text, size_t *len);
/* Splits tokens into words. @words: [n_tokens]; their times are not set. Returns how many words
 * there are. */
size_t words_split(const struct words_text *text, bool has_blanks, struct word *words);

/* Sets times within the window, and probabilities. @frames: [n_tokens + 1], where each token and
 * the end begin, in steps of 20 ms; @probabilities: [n_tokens]. */
void words_set_times(struct word *words, size_t n_words, const uint32_t *frames,
                     const float *probabilities);

struct words_lengths {
    double median, max; /* seconds */
};

/* Measures typical lengths of the @n_words words. @scratch: [n_words]. */
struct words_lengths words_measure(const struct word *words, size_t n_words, double *scratch);
/* Shortens long words next to the end of a sentence, then joins punctuation to its words. */
void words_join(const struct words_text *text, struct word *words, size_t n_words,
                const struct words_lengths *lengths);

/*
 * Takes the words of the next segment, which has @n_tokens tokens, and places them in a recording
 * in which the window begins at @offset. Words with text are moved to the front of @words; returns
 * their number, and in *ret_n_taken the number of all words of the segment.
 */
size_t words_take(struct word *words, size_t n_words, size_t n_tokens, double offset,
                  size_t *ret_n_taken);

struct words_segment {
    double start, end; /* seconds */
};

/*
 * Corrects the first and last of the words of a segment, and moves the segment's borders to them.
 * @last_end: the time at which earlier speech ended. Returns the time at which speech ends now.
 */
double words_fit(struct word *words, size_t n_words, struct words_segment *segment, double last_end,
                 const struct words_lengths *lengths);
