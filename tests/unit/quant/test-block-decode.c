/* SPDX-License-Identifier: Apache-2.0 */

/* Decodes the blocks of tests/golden/quant-blocks.bin, and compares the numbers with those of the
 * gguf package. */

#include "lib/test.h"

#include "quant/dtype.h"

struct golden {
    char name[8];
    uint32_t n_bytes, n_elems;
};

static const struct dtype_info *find_dtype(const char *name)
{
    for (int d = 0; d < INF_DTYPE_N; d++)
        if (strcmp(dtype_info((enum inf_dtype)d)->name, name) == 0)
            return dtype_info((enum inf_dtype)d);
    return NULL;
}

TEST(random_blocks_decode_to_the_bits_of_the_gguf_package)
{
    FILE *f = fopen(test_golden("quant-blocks.bin"), "rb");
    struct golden g;
    unsigned n = 0;

    assert_non_null(f);
    while (fread(&g, sizeof(g), 1, f) == 1) {
        const struct dtype_info *info = find_dtype(g.name);
        uint8_t *bytes = malloc(g.n_bytes);
        float *want = calloc(g.n_elems, sizeof(float)), *got = calloc(g.n_elems, sizeof(float));

        assert_non_null(info);
        assert_int_equal(g.n_bytes, g.n_elems / info->block_elems * info->block_bytes);
        assert_int_equal(fread(bytes, 1, g.n_bytes, f), g.n_bytes);
        assert_int_equal(fread(want, sizeof(float), g.n_elems, f), g.n_elems);
        info->decode(bytes, got, g.n_elems);
        for (uint32_t i = 0; i < g.n_elems; i++)
            if (memcmp(&got[i], &want[i], sizeof(float)) != 0)
                fail_msg("%s[%u] is %.9g, expected %.9g", info->name, i, (double)got[i],
                         (double)want[i]);
        free(bytes);
        free(want);
        free(got);
        n++;
    }
    fclose(f);
    for (int d = 0; d < INF_DTYPE_N; d++)
        n -= dtype_info((enum inf_dtype)d)->decode != NULL;
    assert_int_equal(n, 0);
}

RUN_TESTS(cmocka_unit_test(random_blocks_decode_to_the_bits_of_the_gguf_package))
