/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the numbers and times of an answer's tokens (see timings.h).
 *
 * The computation of the prompt yields the first token. Therefore the speed of generating is
 * computed without the first token.
 */
#include "chat/api/timings.h"

#include "common/wire/json.h"

static double milliseconds(uint64_t from_usec, uint64_t to_usec)
{
    return from_usec && to_usec > from_usec ? (double)(to_usec - from_usec) / 1e3 : 0;
}

/* Writes ,"NAME_n":…,"NAME_ms":…,"NAME_per_token_ms":…,"NAME_per_second":… The last two values are
 * computed from @n_steps tokens in @ms milliseconds. */
static int put_part(struct str *out, const char *name, uint64_t n, uint64_t n_steps, double ms)
{
    int r = str_printf(out, ",\"%s_n\":%llu,\"%s_ms\":", name, (unsigned long long)n, name);

    r = r < 0 ? r : json_put_double(out, ms);
    r = r < 0 ? r : str_printf(out, ",\"%s_per_token_ms\":", name);
    r = r < 0 ? r : json_put_double(out, n_steps ? ms / (double)n_steps : 0);
    r = r < 0 ? r : str_printf(out, ",\"%s_per_second\":", name);
    return r < 0 ? r : json_put_double(out, ms > 0 ? 1e3 / ms * (double)n_steps : 0);
}

int timings_put(const struct choice *c, struct str *out)
{
    const struct prompt *p = c->prompt;
    const uint64_t n_done = p->computed_usec ? p->n_tokens - p->n_cached : p->n_processed;
    const uint64_t until = p->computed_usec ? p->computed_usec : p->progress_usec;
    int r = str_printf(out, "{\"cache_n\":%u", p->n_cached);

    r = r < 0 ? r : put_part(out, "prompt", n_done, n_done, milliseconds(p->start_usec, until));
    r = r < 0 ? r
              : put_part(out, "predicted", c->n_generated, c->n_generated ? c->n_generated - 1 : 0,
                         c->n_generated > 1 ? milliseconds(p->computed_usec, c->last_usec) : 0);
    return r < 0 ? r : str_putc(out, '}');
}

int timings_put_progress(const struct prompt *p, struct str *out)
{
    int r =
        str_printf(out, "{\"total\":%zu,\"cache\":%u,\"processed\":%llu,\"time_ms\":", p->n_tokens,
                   p->n_cached, (unsigned long long)p->n_cached + p->n_processed);

    r = r < 0 ? r : json_put_double(out, milliseconds(p->start_usec, p->progress_usec));
    return r < 0 ? r : str_putc(out, '}');
}
