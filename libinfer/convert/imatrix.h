/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads importance matrices.
 *
 * An importance matrix has a number for each column of each matrix of a model: the mean of the
 * squares of the numbers by which the column was multiplied while the model read a text. Quantizing
 * counts the error of a weight in proportion to this number. The formats are those of llama.cpp
 * (tools/imatrix/README.md of August 2026): a GGUF file with a tensor "NAME.in_sum2" of sums and a
 * tensor "NAME.counts" for each matrix NAME, and the older .dat file.
 */

#include <infer/types.h>

#include "core/macros.h"
#include "core/sha256.h"

struct imatrix;

/* Opens a file of either format. -EBADMSG: the file is damaged, or a number in it is not finite or
 * is negative. */
int imatrix_open(const char *path, struct imatrix **ret, struct inf_err *reterr);
/* Parses a file in memory, which need not outlive *ret. Tests and fuzzers call this function. */
int imatrix_parse(const void *data, uint64_t size, struct imatrix **ret, struct inf_err *reterr);
struct imatrix *imatrix_close(struct imatrix *m);
DEFINE_CLEANUP(struct imatrix *, imatrix_close);

/* Returns the numbers of a matrix [n_matrices, n_cols]; there are several matrices if the weight
 * has experts. NULL: the file does not have the matrix. *ret_n receives the count of all numbers.
 */
const float *imatrix_find(const struct imatrix *m, const char *name, uint64_t *ret_n);
size_t imatrix_n_entries(const struct imatrix *m);
/* Returns how many chunks of text the numbers come from, and the name of the first text; "": the
 * file does not say. */
uint32_t imatrix_n_chunks(const struct imatrix *m);
const char *imatrix_dataset(const struct imatrix *m);
/* Returns a digest of the file. */
const uint8_t *imatrix_digest(const struct imatrix *m);
