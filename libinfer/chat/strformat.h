/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares formatting functions that str.format and the % operator share. */

#include "chat/jinja.h"

enum { FORMAT_MAX_WIDTH = 100000 };

struct format_spec {
    uint32_t fill;
    char align, sign, group, type;
    bool filled, alt, zero;
    int width, precision; /* precision -1: there is none */
};

void format_str(struct jinja *j, struct jbuf *b, struct jstr *s, const struct format_spec *f);
void format_int(struct jinja *j, struct jbuf *b, int64_t i, const struct format_spec *f);
void format_float(struct jinja *j, struct jbuf *b, double a, const struct format_spec *f);
