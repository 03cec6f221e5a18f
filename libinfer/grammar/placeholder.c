/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include "core/err.h"
#include "grammar/builder.h"
int grammar_read_gbnf(struct grammar_builder *b, const char *p, size_t len, grammar_node *n,
                      struct inf_err *reterr)
{
    (void)b;
    (void)p;
    (void)len;
    (void)n;
    return err_set(reterr, EINVAL, "no GBNF yet");
}
int grammar_read_lark(struct grammar_builder *b, const char *p, size_t len, grammar_node *n,
                      struct inf_err *reterr)
{
    (void)b;
    (void)p;
    (void)len;
    (void)n;
    return err_set(reterr, EINVAL, "no Lark yet");
}
