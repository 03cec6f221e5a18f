/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads manifests, small YAML files that give a model a name.
 *
 *     path: store/qwen3-0.6b.gguf   # a file or directory, relative to the manifest's directory
 *     name: small                   # default: the manifest's file name without .yaml
 *     aliases: [gpt-4o]
 *     matryoshka: true              # its vectors may be shortened
 *     sampling:                     # defaults of its sampling parameters (sampling.h)
 *       temperature: 0.6
 */

#include <infer/types.h>

#include "common/models/sampling.h"
#include "core/arena.h"
#include "core/macros.h"

struct model_manifest {
    const char *path;           /* the path as it is in the file */
    const char *name;           /* NULL: not given */
    const char *const *aliases; /* NULL-terminated; may be empty */
    bool matryoshka;            /* its vectors may be shortened */
    struct inf_sampling sampling;
    size_t line, column; /* place of `path` in the file, counted from 1; after a failure: place of
                            the error; 0: unknown */
};

/* Reads the manifest in @file. @arena owns its texts. -EBADMSG: it is not a manifest; -ENOMEM; or
 * the error from reading the file. */
int model_manifest_read(struct arena *arena, const char *file, struct model_manifest *ret,
                        struct inf_err *reterr);
