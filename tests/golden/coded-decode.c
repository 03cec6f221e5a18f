/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes a coded matrix (quant/coded.h) and writes its floats to the standard output, row by row.
 * check_coded.py compares them with those of the programs that define the formats.
 *
 *   coded-decode FORMAT ROWS COLS GROUP GROUP_ROWS SCALE_TYPE ZERO_ADD FACTOR DIRECTORY
 *
 * DIRECTORY has the files codes and scales, and, for matrices that have them, zeros, order and
 * table.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/file.h"
#include "quant/coded.h"
#include "quant/dtype.h"

static enum inf_dtype dtype_named(const char *name)
{
    for (int d = 0; d < INF_DTYPE_N; d++)
        if (strcmp(dtype_info((enum inf_dtype)d)->name, name) == 0)
            return (enum inf_dtype)d;
    fprintf(stderr, "coded-decode: there is no format %s\n", name);
    exit(2);
}

/* Returns the bytes of a file, or NULL if there is no such file. */
static const void *file_bytes(const char *dir, const char *name)
{
    _cleanup_free_ char *path = path_join(dir, name);
    struct file_map map = {0};
    struct inf_err err = {0};

    if (!path || !path_exists(path))
        return NULL;
    if (file_map_open(path, &map, &err) < 0) {
        fprintf(stderr, "coded-decode: %s\n", err.text);
        exit(1);
    }
    return map.data;
}

int main(int argc, char **argv)
{
    struct coded c;
    float *row;

    if (argc != 10) {
        fprintf(stderr, "usage: coded-decode FORMAT ROWS COLS GROUP GROUP_ROWS SCALE_TYPE ZERO_ADD "
                        "FACTOR DIRECTORY\n");
        return 2;
    }
    c = (struct coded){.dtype = dtype_named(argv[1]),
                       .rows = (uint32_t)strtoul(argv[2], NULL, 10),
                       .cols = (uint32_t)strtoul(argv[3], NULL, 10),
                       .group = (uint32_t)strtoul(argv[4], NULL, 10),
                       .group_rows = (uint32_t)strtoul(argv[5], NULL, 10),
                       .scale_type = dtype_named(argv[6]),
                       .zero_add = (uint32_t)strtoul(argv[7], NULL, 10),
                       .factor = strtof(argv[8], NULL),
                       .codes = file_bytes(argv[9], "codes"),
                       .scales = file_bytes(argv[9], "scales"),
                       .zeros = file_bytes(argv[9], "zeros"),
                       .order = file_bytes(argv[9], "order"),
                       .table = file_bytes(argv[9], "table")};
    row = NEW(float, c.cols);
    if (!row || !c.codes || !c.scales)
        return 1;
    for (uint32_t n = 0; n < c.rows; n++) {
        coded_decode_row(&c, n, row);
        if (fwrite(row, sizeof(float), c.cols, stdout) != c.cols)
            return 1;
    }
    free(row);
    return 0;
}
