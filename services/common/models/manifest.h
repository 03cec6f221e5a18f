/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Manifests: small YAML files that give a model a name
 *
 *     path: store/qwen3-0.6b.gguf   # a file or directory, relative to the manifest's directory
 *     name: small                   # without it: the manifest's file name without .yaml
 *     aliases: [gpt-4o]
 *     matryoshka: true              # beginnings of its vectors are vectors
 */

#include <infer/types.h>

#include "core/arena.h"
#include "core/macros.h"

struct model_manifest {
    const char *path;           /* as it is written */
    const char *name;           /* NULL: the manifest says none */
    const char *const *aliases; /* NULL-terminated; may be empty */
    bool matryoshka;            /* its vectors may be shortened */
    size_t line, column;        /* from 1: of the path; after a failure of what is wrong, 0: the
                                   whole file */
};

/* Reads the manifest in @file. Its texts live in @arena. -EBADMSG: it is no manifest; -ENOMEM; or
 * what reading the file said. */
int model_manifest_read(struct arena *arena, const char *file, struct model_manifest *ret,
                        struct inf_err *reterr);
