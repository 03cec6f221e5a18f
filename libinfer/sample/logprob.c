/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log-softmax in double: l - max - log(sum of exp(l - max)).
 */
#include "sample/logprob.h"

#include <assert.h>
#include <math.h>

#include "sample/select.h"

uint32_t logprob_row(const float *logits, uint32_t n_row, uint32_t n_vocab, int32_t token,
                     uint32_t n_top, float *ret_logprob, struct inf_top_logprob *ret_top)
{
    struct cand top[LOGPROB_MAX_TOP];
    const int32_t best = row_argmax(logits, n_row);
    double max, sum = 0;

    assert(n_top <= LOGPROB_MAX_TOP && n_vocab <= n_row && token < (int32_t)n_row);
    *ret_logprob = NAN;
    if (best < 0)
        return 0;
    max = (double)logits[best];
    for (uint32_t i = 0; i < n_row; i++)
        sum += exp((double)logits[i] - max);
    sum = log(sum);
    if (token >= 0)
        *ret_logprob = (float)((double)logits[token] - max - sum);
    n_top = row_top(logits, n_vocab, n_top, top);
    for (uint32_t i = 0; i < n_top; i++)
        ret_top[i] =
            (struct inf_top_logprob){top[i].id, (float)((double)logits[top[i].id] - max - sum)};
    return n_top;
}
