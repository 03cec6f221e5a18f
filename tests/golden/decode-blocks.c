/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decodes blocks for check_gguf_blocks.py: reads blocks of the format that its argument names, and
 * writes floats. Without an argument it prints the names of the formats that it decodes.
 */

#include <stdio.h>
#include <string.h>

#include "quant/dtype.h"

#define MAX_ELEMS 256u
#define MAX_BYTES 1024u

static const struct dtype_info *find(const char *name)
{
    for (int d = 0; d < INF_DTYPE_N; d++)
        if (strcmp(dtype_info((enum inf_dtype)d)->name, name) == 0)
            return dtype_info((enum inf_dtype)d);
    return NULL;
}

static int list(void)
{
    for (int d = 0; d < INF_DTYPE_N; d++)
        if (dtype_info((enum inf_dtype)d)->decode)
            puts(dtype_info((enum inf_dtype)d)->name);
    return 0;
}

int main(int argc, char **argv)
{
    const struct dtype_info *info;
    unsigned char block[MAX_BYTES];
    float x[MAX_ELEMS];

    if (argc < 2)
        return list();
    info = find(argv[1]);
    if (!info || !info->decode || info->block_elems > MAX_ELEMS || info->block_bytes > MAX_BYTES) {
        fprintf(stderr, "decode-blocks: there are no blocks of %s\n", argv[1]);
        return 2;
    }
    while (fread(block, info->block_bytes, 1, stdin) == 1) {
        info->decode(block, x, info->block_elems);
        if (fwrite(x, sizeof(float), info->block_elems, stdout) != info->block_elems)
            return 2;
    }
    return 0;
}
