/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the internals of gguf.h: the parsed file. */

#include "core/arena.h"
#include "core/file.h"
#include "core/map.h"
#include "format/gguf/ggml-type.h"
#include "format/gguf/gguf.h"

struct gguf {
    struct arena arena; /* keys, names, offsets of strings */
    struct gguf_value *values;
    size_t n_values;
    struct map value_map; /* maps a key to an index into values */
    struct format_tensor *tensors;
    size_t n_tensors;
    struct map tensor_map; /* maps a name to an index into tensors */
    struct file_map *maps; /* [n_maps]: one per part; there are none if the file was parsed from
                              memory */
    size_t n_maps;
    struct file_start start; /* private copy of the first part's header and metadata */
};

/* Parses one part. The caller still owns the mapping. */
int gguf_parse_map(const struct file_map *map, struct gguf **ret_gguf, struct inf_err *reterr);
