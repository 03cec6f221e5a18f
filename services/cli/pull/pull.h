/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pulls models: finds out which files a source has, makes sconce-fetch fetch them, and installs
 * them.
 *
 * Nothing that arrives is trusted: metadata is read with limits, names must stay in their
 * directory, and a file gets a name in the store only when it has the digest that the metadata
 * gives.
 */

#include <infer/types.h>

#include "core/arena.h"
#include "core/macros.h"

struct config;

/* --- source.c: what the command line names --- */

enum pull_kind { PULL_HUB, PULL_OLLAMA, PULL_URL, PULL_PATH };

struct pull_source {
    enum pull_kind kind;
    const char *text;   /* as it was given; borrowed */
    char repo[300];     /* "OWNER/REPO", or "NAMESPACE/NAME" of Ollama's registry */
    char selector[256]; /* a quantization, a file or a tag; "": none */
};

/* Reads a source: OWNER/REPO[:WHAT], hf:OWNER/REPO[:WHAT], ollama:[NAMESPACE/]NAME[:TAG], an https
 * URL, or a path. */
int pull_source_read(const char *text, struct pull_source *ret, struct inf_err *reterr);

/* --- plan: what is to be fetched --- */

enum {
    PULL_MAX_FILES = 1024,
    PULL_MAX_METADATA = 16 << 20, /* in bytes */
};

struct pull_file {
    const char *name;   /* a safe path */
    const char *url;    /* NULL: a local file */
    const char *local;  /* the job's file: a digest or "fN" */
    uint64_t size;      /* UINT64_MAX: unknown */
    const char *sha256; /* NULL: unknown */
    const char *sha1;   /* of a blob of git; NULL: unknown */
};

struct pull_plan {
    struct arena arena;
    char name[300];                          /* of the model */
    char alias[300];                         /* "": none */
    const char *source, *revision, *licence; /* NULL: unknown */
    struct pull_file *files;                 /* [n] */
    size_t n, cap;
    bool is_gguf;   /* the first file is the model; false: the directory is */
    char why[200];  /* why these files were chosen; "": they were named */
    char note[240]; /* a sentence about the installed model; "": none */
};

void pull_plan_done(struct pull_plan *plan);
/* Adds a file; copies the texts. -EBADMSG: the name is not safe; -E2BIG; -ENOMEM. */
int pull_plan_add(struct pull_plan *plan, const struct pull_file *file, struct inf_err *reterr);
/* Adds up the sizes that are known. */
uint64_t pull_plan_bytes(const struct pull_plan *plan);

/* --- hub.c, registry.c: metadata --- */

/* Reads the hub's answer about a repository, and chooses the files for @source. @hub is the URL of
 * the hub, and @memory the memory of the machine in bytes. -EBADMSG: the answer is wrong; -ENOENT:
 * nothing suits. */
int hub_read(const char *text, size_t len, const char *hub, const struct pull_source *source,
             uint64_t memory, struct pull_plan *plan, struct inf_err *reterr);
/* Reads a manifest of Ollama's registry at the URL @registry. */
int registry_read(const char *text, size_t len, const char *registry,
                  const struct pull_source *source, struct pull_plan *plan, struct inf_err *reterr);

/* --- ollama.c: parameters and templates of Ollama's registry --- */

/* The names of the files in the model's directory that hold these layers, and the largest size of a
 * layer in bytes. */
#define OLLAMA_PARAMS    "ollama-params.json"
#define OLLAMA_TEMPLATE  "ollama-template.txt"
#define OLLAMA_MAX_LAYER (64 << 10)

struct str;

/* Writes keys of a manifest for the layers with parameters and with a template that the plan has
 * and that are in the directory @model, beside the weights. May set plan->note. */
int ollama_put_settings(const char *model, struct pull_plan *plan, struct str *out,
                        struct inf_err *reterr);
/* Returns the built-in template with the marks of @text, a template in the language of Go; NULL:
 * none has them. */
const char *ollama_match_template(const char *text);

/* --- fetcher.c: the process sconce-fetch --- */

struct fetcher;

/* The settings that sconce-fetch gets; the texts are borrowed. */
struct fetcher_settings {
    const char *token, *token_host, *proxy, *certificates; /* NULL: none */
    const char *private_hosts[2];                          /* NULL: none */
    bool landlock_optional;
};

/* Starts sconce-fetch in the directory @job. */
int fetcher_start(const char *job, const struct fetcher_settings *settings,
                  struct fetcher **ret_fetcher, struct inf_err *reterr);
struct fetcher *fetcher_stop(struct fetcher *f);
DEFINE_CLEANUP(struct fetcher *, fetcher_stop);
/* Fetches @file, whose bytes are then in the job's file `local`, or `local`.part with @parts > 0.
 * @progress may be NULL. *ret_size gets the size of the file. */
int fetcher_get(struct fetcher *f, const struct pull_file *file, const char *accept, uint64_t limit,
                unsigned parts, void (*progress)(void *data, uint64_t bytes, uint64_t size),
                void *data, uint64_t *ret_size, struct inf_err *reterr);

/* --- install.c --- */

/* Compares the files of the job with their digests, and installs the model into the store @dir
 * with one rename. A file with a wrong digest is removed. @progress is called with the bytes that
 * were read. */
int pull_install(const char *dir, const char *job, struct pull_plan *plan,
                 void (*progress)(void *data, uint64_t bytes), void *data, struct inf_err *reterr);
