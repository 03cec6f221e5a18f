/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs one pull on a thread, and keeps its progress for the event loop.
 *
 * The thread writes the progress and the loop reads it, both under a lock.
 */

#include "common/pull/pull.h"

/* Describes a file of a pull for clients. */
struct progress_file {
    char what[64];   /* "pulling DIGEST", with the first digits of the digest, or the file's name */
    char digest[80]; /* "sha256:HEX" or "sha1:HEX"; "": unknown */
    uint64_t size;   /* UINT64_MAX: unknown */
};

enum progress_phase {
    PROGRESS_WAITING,   /* waits for other pulls */
    PROGRESS_MANIFEST,  /* finds out which files the model has */
    PROGRESS_FETCHING,  /* fetches the file `at` */
    PROGRESS_VERIFYING, /* verifies the files, which have all arrived */
};

struct progress_now {
    enum progress_phase phase;
    size_t n_files;               /* 0: not known yet */
    size_t at;                    /* files that have arrived */
    uint64_t bytes;               /* bytes of the file `at` that have arrived */
    uint64_t verified, to_verify; /* bytes of all files */
};

struct progress;

/* Prepares a pull. The texts are borrowed; @source is copied. -ENOMEM. */
int progress_new(const struct config *config, const struct pull_secrets *secrets, const char *store,
                 const char *socket, const struct pull_source *source,
                 struct progress **ret_progress);
/* May be called when progress_run() does not run. */
struct progress *progress_free(struct progress *p);

/* Pulls the model; called once, on a thread. -ECANCELED: progress_stop() stopped the pull. */
int progress_run(struct progress *p, struct inf_err *reterr);

/* The functions below may be called on any thread. */

/* Stops the pull. A pull that is already verifying its files continues to its end. */
void progress_stop(struct progress *p);
void progress_read(struct progress *p, struct progress_now *ret);
/* Returns the file @i < n_files. It does not change any more. */
const struct progress_file *progress_file(struct progress *p, size_t i);
