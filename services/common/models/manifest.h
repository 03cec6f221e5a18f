/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads manifests, small YAML files that describe a model.
 *
 *     path: qwen3-0.6b-q4_k_m.gguf  # a file or directory, relative to the manifest's directory
 *     name: small                   # default: see below
 *     aliases: [gpt-4o]
 *     matryoshka: true              # its vectors may be shortened
 *     sampling:                     # defaults of its sampling parameters (sampling.h)
 *       temperature: 0.6
 *     stop: ["USER:"]               # texts that end an answer, besides those of a request
 *     context: 16384                # tokens of a conversation
 *     kv_type: q8_0                 # number format of keys and values
 *     template: chatml              # a built-in template (templates.h), or a file beside this one
 *     system: Answer in one line.   # the system message of conversations that have none
 *     messages:                     # what each conversation begins with
 *       - role: user                # or assistant
 *         content: Hello.
 *     keep_alive: 30min             # how long it stays in memory after its last use
 *     pinned: true                  # it stays until it is unloaded by command
 *     drafter: tiny                 # the name of its draft model
 *     adapters: [legal]             # names of adapters; this version applies none
 *     source: hf:org/repo           # where the model came from
 *     revision: 1f0c…               # the revision of the source
 *     licence: apache-2.0
 *     files:                        # what `sconce verify` compares
 *       - name: qwen3-0.6b-q4_k_m.gguf
 *         size: 396705472
 *         sha256: 9ab1…
 *
 * A manifest NAME.yaml gives its model the name NAME and needs a path. A manifest with the name
 * manifest.yaml belongs to its directory: if it gives no other name or path, the model has the name
 * of the directory, and its path is the directory itself.
 */

#include <infer/types.h>

#include "common/models/sampling.h"
#include "common/models/settings.h"
#include "core/arena.h"
#include "core/macros.h"

/* The name of the manifest that belongs to its directory. */
#define MODEL_MANIFEST "manifest.yaml"

enum {
    MODEL_MANIFEST_MAX_FILE = 1 << 20,
    MODEL_MANIFEST_MAX_ALIASES = 32,
    MODEL_MANIFEST_MAX_FILES = 4096,
    MODEL_MANIFEST_MAX_ARENA = 32 << 20, /* an arena with more bytes takes no further manifest */
};

struct model_manifest_file {
    const char *name;   /* a safe path (safe-path.h), relative to the manifest's directory */
    uint64_t size;      /* in bytes; UINT64_MAX: not given */
    const char *sha256; /* 64 hexadecimal digits; NULL: not given */
};

struct model_manifest {
    const char *path;           /* as it is in the file; NULL: not given */
    const char *name;           /* NULL: not given */
    const char *const *aliases; /* NULL-terminated; may be empty */
    bool matryoshka;            /* its vectors may be shortened */
    struct inf_sampling sampling;
    struct model_settings settings; /* after model_manifest_read() its template is the name of a
                                       built-in one, or a path */
    size_t template_line, template_column;   /* place of `template`, as for `path` below */
    const char *source, *revision, *licence; /* NULL: not given */
    const struct model_manifest_file *files; /* [n_files] */
    size_t n_files;
    size_t line, column; /* place of `path` in the file, counted from 1; after a failure: place of
                            the error; 0: unknown */
    /* The place of the value of `aliases` in the file, in bytes; both 0: not given. */
    size_t aliases_start, aliases_end;
};

/* Reads the manifest in @text. @arena owns the texts of *ret. On failure only `line`, `column` and
 * `name` of *ret count. -EBADMSG: it is not a manifest; -ENOMEM. */
int model_manifest_parse(struct arena *arena, const char *text, size_t len,
                         struct model_manifest *ret, struct inf_err *reterr);
/* Reads the manifest in @file, like model_manifest_parse(), or returns the error from reading the
 * file. -EFBIG: the arena, in which a list of models has all its manifests, is full. */
int model_manifest_read(struct arena *arena, const char *file, struct model_manifest *ret,
                        struct inf_err *reterr);
