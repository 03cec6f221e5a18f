/* SPDX-License-Identifier: Apache-2.0 */
/* Parses any bytes as an importance matrix, and finds a matrix. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "convert/imatrix.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct imatrix *m;
    struct inf_err err;
    const float *x;
    uint64_t n = 0;

    if (imatrix_parse(data, size, &m, &err) < 0)
        return 0;
    x = imatrix_find(m, "a", &n);
    for (uint64_t i = 0; x && i < n; i++)
        assert(isfinite(x[i]) && x[i] >= 0);
    assert(imatrix_n_entries(m) > 0 && imatrix_dataset(m));
    imatrix_close(m);
    return 0;
}
