/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes a matrix in a format with planes (quant/planes.h), for check_mlx_planes.py.
 *
 *     decode-planes FORMAT TYPE GROUP ROWS COLS < PLANES > FLOATS
 *
 * TYPE is the number of enum plane_type. The standard input has the codes, then the scales, and in
 * the affine formats the offsets; the output has ROWS × COLS floats.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/weight.h"
#include "quant/dtype.h"

static enum inf_dtype find_dtype(const char *name)
{
    for (enum inf_dtype d = 0; d < INF_DTYPE_N; d++)
        if (dtype_info(d)->planes && strcmp(dtype_info(d)->name, name) == 0)
            return d;
    fprintf(stderr, "decode-planes: there is no format %s with planes\n", name);
    exit(2);
}

static void *read_bytes(uint64_t n)
{
    void *p = malloc(n);

    if (!p || fread(p, 1, n, stdin) != n) {
        fprintf(stderr, "decode-planes: the input is too short\n");
        exit(2);
    }
    return p;
}

int main(int argc, char **argv)
{
    struct weight w = {.group = 0};
    float *row;

    if (argc != 6)
        return 2;
    w.dtype = find_dtype(argv[1]);
    w.plane_type = (enum plane_type)atoi(argv[2]);
    w.group = (uint32_t)atoi(argv[3]);
    w.rows = (uint32_t)atoi(argv[4]);
    w.cols = (uint32_t)atoi(argv[5]);
    w.data = read_bytes(w.rows * weight_row_bytes(&w));
    for (enum weight_plane p = 0; p < WEIGHT_PLANES; p++)
        if (dtype_info(w.dtype)->planes->needed & 1u << p)
            w.planes[p] = read_bytes(w.rows * weight_plane_bytes(&w, p));
    row = malloc(w.cols * sizeof(*row));
    for (uint32_t i = 0; row && i < w.rows; i++) {
        weight_decode_row(&w, i, row);
        if (fwrite(row, sizeof(*row), w.cols, stdout) != w.cols)
            return 1;
    }
    free(row);
    free((void *)(uintptr_t)w.data);
    for (enum weight_plane p = 0; p < WEIGHT_PLANES; p++)
        free((void *)(uintptr_t)w.planes[p]);
    return fflush(stdout) == 0 ? 0 : 1;
}
