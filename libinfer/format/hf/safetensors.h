/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * safetensors: one JSON header, then the bytes of all tensors without gaps
 *
 * Opening checks everything, as with GGUF. Tensors have the names of the file; their dimensions are
 * reversed, so that the fastest comes first.
 */

#include "core/file.h"
#include "core/macros.h"
#include "format/format.h"

struct safetensors;

/* -ENOENT…, -EBADMSG, -ENOMEM. */
int safetensors_open(const char *path, struct safetensors **ret_st, struct inf_err *reterr);
/* From memory, which must outlive it; for tests and fuzzing. */
int safetensors_parse(const void *data, uint64_t size, struct safetensors **ret_st,
                      struct inf_err *reterr);
struct safetensors *safetensors_close(struct safetensors *st);
DEFINE_CLEANUP(struct safetensors *, safetensors_close);

const struct file_map *safetensors_file(const struct safetensors *st);
size_t safetensors_n(const struct safetensors *st);
const struct format_tensor *safetensors_at(const struct safetensors *st, size_t i);
/* NULL: there is none. */
const struct format_tensor *safetensors_find(const struct safetensors *st, const char *name);
