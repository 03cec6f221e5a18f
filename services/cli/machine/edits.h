/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * File changes of `sconce setup`, each atomic and reported on standard output
 *
 * A generated file has a mark in its first line, which covers its content. If the mark is missing
 * or does not match, a person edited the file: it is renamed to NAME.old before the new file
 * replaces it, and this is reported. With dry_run nothing changes, and everything is reported.
 */

#include <sys/types.h>

#include <infer/types.h>

#include "core/macros.h"

struct edits {
    bool dry_run;
    bool quiet;         /* reports only what a person must know */
    uint32_t n_changes; /* changes made, or with dry_run: changes that would be made */
};

enum edit_state {
    EDIT_ABSENT,
    EDIT_OURS,   /* unchanged since it was generated */
    EDIT_PERSON, /* a person changed or created it */
};

/* Determines who wrote a file with this content. */
enum edit_state edit_whose(const char *text);
/* Puts the mark before @body; the caller frees the result; NULL: out of memory. */
char *edit_marked(const char *body);

/* Writes the marked @body to @path; does nothing if the file has this content already. */
int edit_generate(struct edits *e, const char *path, const char *body, struct inf_err *reterr);
/* Replaces the content of a file that people edit too, without a mark. A dry run prints @shown. */
int edit_replace(struct edits *e, const char *path, mode_t mode, const char *text,
                 const char *shown, struct inf_err *reterr);
/* Removes a generated file; a file that a person edited is renamed to NAME.old. */
int edit_remove(struct edits *e, const char *path, struct inf_err *reterr);
/* Creates a symbolic link; does nothing if @path exists, whatever it is. */
int edit_link(struct edits *e, const char *target, const char *path, struct inf_err *reterr);
int edit_unlink(struct edits *e, const char *path, struct inf_err *reterr);
