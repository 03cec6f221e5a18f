/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads safetensors files: a JSON header, then the bytes of all tensors without gaps.
 *
 * Opening a file checks all of it except the values of tensors. Tensors keep the names that they
 * have in the file. Their dimensions are reversed, so that the dimension that varies fastest comes
 * first.
 */

#include "core/file.h"
#include "core/macros.h"
#include "format/format.h"

struct safetensors;

/* Opens a file. Returns 0, -EBADMSG, -ENOMEM, or an error of opening the file. */
int safetensors_open(const char *path, struct safetensors **ret_st, struct inf_err *reterr);
/* Parses a file in memory, which must outlive *ret_st. Tests and fuzzers call this function. */
int safetensors_parse(const void *data, uint64_t size, struct safetensors **ret_st,
                      struct inf_err *reterr);
struct safetensors *safetensors_close(struct safetensors *st);
DEFINE_CLEANUP(struct safetensors *, safetensors_close);

const struct file_map *safetensors_file(const struct safetensors *st);
size_t safetensors_n(const struct safetensors *st);
const struct format_tensor *safetensors_at(const struct safetensors *st, size_t i);
/* Returns NULL if there is no such tensor. */
const struct format_tensor *safetensors_find(const struct safetensors *st, const char *name);
