/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the internals of source.h. */

#include "convert/source.h"
#include "format/gguf/gguf.h"

struct source {
    struct gguf *gguf;
    char arch[64];
    struct source_tensor *tensors; /* [n] */
    size_t n;
};

/* Open a model of each kind. @s is zeroed. If a function fails, the caller frees @s. */
int source_open_gguf(struct source *s, const char *path, struct inf_err *reterr);
