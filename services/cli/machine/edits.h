/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Changes files for `sconce setup`, each atomically, and reports the changes on standard output.
 *
 * The first line of a generated file is a mark with a hash of the other lines. If the mark is
 * missing or does not match, a person edited the file: it is renamed to NAME.old before the new
 * file replaces it, and this is reported. With dry_run the changes are only reported.
 */

#include <sys/types.h>

#include <infer/types.h>

#include "core/macros.h"

struct edits {
    bool dry_run;
    bool quiet;         /* reports only the files that a person edited */
    uint32_t n_changes; /* changes made, or with dry_run: changes that would be made */
};

enum edit_state {
    EDIT_ABSENT,
    EDIT_OURS,   /* unchanged since it was generated */
    EDIT_PERSON, /* a person changed or created it */
};

/* Determines who wrote a file that has the content @text. */
enum edit_state edit_whose(const char *text);
/* Returns @body with the mark before it; the caller frees the result; NULL: out of memory. */
char *edit_marked(const char *body);

/* Writes the marked @body to @path; does nothing if the file has this content already. */
int edit_generate(struct edits *e, const char *path, const char *body, struct inf_err *reterr);
/* Replaces the content of a file that has no mark, because people edit it too. A dry run prints
 * @shown. */
int edit_replace(struct edits *e, const char *path, mode_t mode, const char *text,
                 const char *shown, struct inf_err *reterr);
/* Removes a generated file; a file that a person edited is renamed to NAME.old. */
int edit_remove(struct edits *e, const char *path, struct inf_err *reterr);
/* Creates a symbolic link at @path; does nothing if @path exists, whatever its type. */
int edit_link(struct edits *e, const char *target, const char *path, struct inf_err *reterr);
int edit_unlink(struct edits *e, const char *path, struct inf_err *reterr);
