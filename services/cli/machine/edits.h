/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Changes of files that `sconce setup` makes, each atomic, each told
 *
 * A generated file carries a mark over its content in its first line. A file whose mark is absent
 * or wrong was edited by a person: it is kept beside as NAME.old before the new one takes its
 * place, and that is told. With dry_run nothing changes and everything is told.
 */

#include <sys/types.h>

#include <infer/types.h>

#include "core/macros.h"

struct edits {
    bool dry_run;
    bool quiet;         /* tells only what a person must know */
    uint32_t n_changes; /* made, or with dry_run: that would be made */
};

enum edit_state {
    EDIT_ABSENT,
    EDIT_OURS,   /* as it was generated */
    EDIT_PERSON, /* somebody changed it, or made it */
};

/* Whose a file with this content is. */
enum edit_state edit_whose(const char *text);
/* @body with the mark before it; the caller frees it; NULL: out of memory. */
char *edit_marked(const char *body);

/* Makes @path hold the marked @body; does nothing when it does already. */
int edit_generate(struct edits *e, const char *path, const char *body, struct inf_err *reterr);
/* Replaces a whole file that people edit too: no mark. @shown is what a dry run tells. */
int edit_replace(struct edits *e, const char *path, mode_t mode, const char *text,
                 const char *shown, struct inf_err *reterr);
/* Removes a generated file; one that a person edited is kept as NAME.old. */
int edit_remove(struct edits *e, const char *path, struct inf_err *reterr);
/* A symlink; does nothing when it is there, whatever it points to. */
int edit_link(struct edits *e, const char *target, const char *path, struct inf_err *reterr);
int edit_unlink(struct edits *e, const char *path, struct inf_err *reterr);
