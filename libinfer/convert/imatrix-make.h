/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Makes importance matrices (imatrix.h): adds up the squares of the inputs of products. */

#include <infer/types.h>

#include "backend/backend.h"
#include "core/macros.h"

struct imatrix_maker;

/* @head: also for output.weight; otherwise only for the weights of layers. */
int imatrix_maker_new(bool head, struct imatrix_maker **ret);
struct imatrix_maker *imatrix_maker_free(struct imatrix_maker *m);
DEFINE_CLEANUP(struct imatrix_maker *, imatrix_maker_free);

/* Returns the watch for the backend (struct backend_params). It lives as long as the maker. */
const struct product_watch *imatrix_maker_watch(struct imatrix_maker *m);
/* Returns 0, -ENOMEM if a call of the watch had this error, or -EBADMSG if a sum is not finite or
 * too large for F32. */
int imatrix_maker_check(const struct imatrix_maker *m);
size_t imatrix_maker_n(const struct imatrix_maker *m);

struct imatrix_save {
    const char *path;
    const char *dataset; /* the name of the text */
    uint32_t n_chunks, chunk_size;
    bool replace; /* an existing file is replaced */
};
/* Writes llama.cpp's GGUF form. Errors are those of part_open() and of writing. */
int imatrix_maker_save(const struct imatrix_maker *m, const struct imatrix_save *how,
                       struct inf_err *reterr);
