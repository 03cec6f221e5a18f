/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Bodies of the type multipart/form-data (RFC 7578), piece by piece
 *
 * The bytes of parts are handed on as they come and never kept here; what is kept (a boundary, the
 * head of one part) has a fixed size. Names are decoded as browsers and client libraries write
 * them: "%22" and "\"" are quotes. A part with another Content-Transfer-Encoding than the identity
 * is refused, since nobody decodes it.
 */

#include <infer/types.h>

#include "core/macros.h"

struct multipart;

struct multipart_part {
    const char *name;     /* UTF-8; never empty */
    const char *filename; /* NULL: a field, not a file */
};

/* What they return below 0 ends the parsing and is what the caller gets. */
struct multipart_events {
    int (*part)(void *user, const struct multipart_part *part);
    int (*data)(void *user, const char *data, size_t len);
    int (*end)(void *user); /* of the part */
};

/* @type: the value of Content-Type. -EINVAL with a sentence: it is another type, or its boundary
 * is missing or malformed; -ENOMEM. */
int multipart_new(const char *type, size_t len, const struct multipart_events *events, void *user,
                  struct multipart **ret_multipart, struct inf_err *reterr);
struct multipart *multipart_free(struct multipart *multipart);
DEFINE_CLEANUP(struct multipart *, multipart_free);
/* Any cut of the body will do. -EINVAL with a sentence; what an event returned. */
int multipart_feed(struct multipart *multipart, const char *data, size_t len,
                   struct inf_err *reterr);
/* The body is over. -EINVAL: it was not whole. */
int multipart_finish(const struct multipart *multipart, struct inf_err *reterr);
