/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Implements a tokenizer for tests of the scheduler, so that the tests depend on no vocabulary.
 *
 * Tokens 0–255 are bytes; FAKE_EOS ends the text; FAKE_WORDS + i is the i-th word below. In a
 * program that links this tokenizer, its functions replace those of the library.
 */

#include <infer/tokenizer.h>

#define FAKE_EOS      256
#define FAKE_EOS_TEXT "<eos>" /* the text of the token if the token is shown */
#define FAKE_WORDS    257
#define FAKE_N_WORDS  5
#define FAKE_N_VOCAB  (FAKE_WORDS + FAKE_N_WORDS)

extern const char *const fake_words[FAKE_N_WORDS]; /* "", "ab", "stop", " über", "STOP" */
extern struct inf_tokenizer *const fake_tokenizer;
