/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Bodies of the type multipart/form-data (RFC 7578), parsed piece by piece
 *
 * The bytes of parts are passed on as they arrive and not stored. Stored data (the boundary, the
 * head of one part) has a fixed size. Names are decoded as browsers and client libraries encode
 * them: "%22" and "\"" are quotes. A part with a Content-Transfer-Encoding other than the identity
 * is refused, because it would not be decoded.
 */

#include <infer/types.h>

#include "core/macros.h"

struct multipart;

struct multipart_part {
    const char *name;     /* UTF-8; never empty */
    const char *filename; /* NULL: a field, not a file */
};

/* A negative result ends the parsing and is returned to the caller. */
struct multipart_events {
    int (*part)(void *user, const struct multipart_part *part);
    int (*data)(void *user, const char *data, size_t len);
    int (*end)(void *user); /* end of the part */
};

/* @type: the value of Content-Type. -EINVAL with a sentence: it is another type, or its boundary is
 * missing or malformed; -ENOMEM. */
int multipart_new(const char *type, size_t len, const struct multipart_events *events, void *user,
                  struct multipart **ret_multipart, struct inf_err *reterr);
struct multipart *multipart_free(struct multipart *multipart);
DEFINE_CLEANUP(struct multipart *, multipart_free);
/* Parses the next piece of the body, of any size. -EINVAL with a sentence, or the result of an
 * event. */
int multipart_feed(struct multipart *multipart, const char *data, size_t len,
                   struct inf_err *reterr);
/* Ends the body. -EINVAL: it was not complete. */
int multipart_finish(const struct multipart *multipart, struct inf_err *reterr);
