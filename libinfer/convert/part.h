/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes the file of a conversion under a temporary name, so that an interrupted conversion can be
 * continued.
 *
 * The file OUT.part has the layout of the finished file OUT: header, then the data of the tensors
 * in order. But until all data are written, it begins with a mark instead of the header. The mark
 * has a digest of everything that determines the data, and the number of tensors that are safely on
 * the disk. At the end the header replaces the mark, and the file is renamed to OUT.
 */

#include <infer/types.h>

#include "core/macros.h"
#include "core/sha256.h"

struct part;

struct part_params {
    const char *target;
    const char *header; /* [header_size], borrowed; at least PART_MARK_BYTES */
    uint64_t header_size;
    uint64_t total; /* bytes of the finished file */
    uint8_t digest[SHA256_BYTES];
    bool replace; /* an existing file @target is replaced */
};

/* Bytes of the mark. */
#define PART_MARK_BYTES 48u

/* Opens or creates OUT.part. *ret_n_done is the number of tensors that OUT.part has already.
 * -EEXIST: OUT exists, or OUT.part is not the file of a conversion; -EBUSY: another process writes
 * OUT.part; -ENOSPC: the disk has no room for the rest. */
int part_open(const struct part_params *params, struct part **ret_part, uint64_t *ret_n_done,
              struct inf_err *reterr);
/* Writes at @offset of the finished file, after its header. Bytes that are never written are 0.
 * Several threads may write different bytes at the same time. */
int part_write(struct part *p, uint64_t offset, const void *data, uint64_t n,
               struct inf_err *reterr);
/* Says that @n_done tensors were written. */
int part_done(struct part *p, uint64_t n_done, struct inf_err *reterr);
/* Writes the header, and renames the file. -EEXIST: the file OUT appeared in the meantime. */
int part_finish(struct part *p, struct inf_err *reterr);
/* Closes the file. If it was not finished, it stays for the next attempt, unless it has no tensor
 * yet. */
struct part *part_close(struct part *p);
DEFINE_CLEANUP(struct part *, part_close);
