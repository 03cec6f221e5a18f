/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Parses bodies of the type multipart/form-data (RFC 7578) piece by piece.
 *
 * The parser passes the bytes of parts on as they arrive. It stores only the boundary and the head
 * of one part, both of which have a fixed limit. Names are decoded as browsers and client libraries
 * encode them: "%22" and "\"" are quotes. A part is refused if its Content-Transfer-Encoding is not
 * binary, 8bit or 7bit, because the parser decodes no other encoding.
 */

#include <infer/types.h>

#include "core/macros.h"

struct multipart;

struct multipart_part {
    const char *name;     /* UTF-8; never empty */
    const char *filename; /* NULL: a field, not a file */
};

/* If an event returns a negative result, parsing ends and multipart_feed() returns this result. */
struct multipart_events {
    int (*part)(void *user, const struct multipart_part *part);
    int (*data)(void *user, const char *data, size_t len);
    int (*end)(void *user); /* the part ends */
};

/* Makes a parser. @type is the value of Content-Type. -EINVAL with a sentence: the type is not
 * multipart/form-data, or its boundary is missing or malformed; -ENOMEM. */
int multipart_new(const char *type, size_t len, const struct multipart_events *events, void *user,
                  struct multipart **ret_multipart, struct inf_err *reterr);
struct multipart *multipart_free(struct multipart *multipart);
DEFINE_CLEANUP(struct multipart *, multipart_free);
/* Parses the next piece of the body, which may have any size. -EINVAL with a sentence, or the
 * negative result of an event. */
int multipart_feed(struct multipart *multipart, const char *data, size_t len,
                   struct inf_err *reterr);
/* Ends the body. -EINVAL: it was not complete. */
int multipart_finish(const struct multipart *multipart, struct inf_err *reterr);
