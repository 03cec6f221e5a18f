/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damages the headers of tiny models with coded matrices (quant/coded.h), and checks that opening
 * them fails with an error that names the tensor. test-quantized.c compares the models with
 * transformers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "format/format.h"
#include "golden/logits-case.h"
#include "model/model.h"

/* A change of the header after the name of a tensor, and a part of the error. */
static const struct damage {
    const char *model, *tensor, *from, *to, *error;
} damages[] = {
    {"gptq4", "down_proj.qweight", "\"I32\"", "\"U32\"", "down_proj.qweight is stored as U32"},
    {"gptq4", "down_proj.qweight", "[12,64]", "[64,12]", "down_proj.qweight is 64 x 12"},
    {"gptq4", "down_proj.qzeros", "[3,8]", "[8,3]", "down_proj.qzeros is 8 x 3, expected 3 x 8"},
    {"gptq4", "down_proj.scales", "[3,64]", "[64,3]", "down_proj.scales is 64 x 3"},
    {"gptq4", "down_proj.g_idx", "\"I32\"", "\"F32\"", "down_proj.g_idx is not a list of 96"},
    {"gptq4", "down_proj.qzeros", "qzeros", "qzerox", "ffn_down.qzeros is missing"},
    {"awq4", "down_proj.qweight", "[96,8]", "[8,96]", "down_proj.qweight is 8 x 96"},
    {"awq4", "down_proj.scales", "\"F16\"", "\"I16\"", "down_proj.scales is stored as I16"},
    {"ct4", "down_proj.weight_packed", "[64,12]", "[12,64]", "down_proj.weight_packed: 64 words"},
    {"ct4", "down_proj.weight_scale", "[64,3]", "[3,64]", "down_proj.weight_scale is 3 x 64"},
    {"ct4", "down_proj.weight_zero_point", "[8,3]", "[3,8]", "weight_zero_point is 3 x 8"},
    {"ct4", "down_proj.weight_shape", "\"I64\"", "\"F64\"", "weight_shape does not say 64 x 96"},
    {"fp8", "down_proj.weight_scale_inv", "\"F32\"", "\"I32\"", "scale_inv is stored as I32"},
    {"ctfp4", "down_proj.weight_scale", "E4M3", "E5M2", "weight_scale is stored as F8_E5M2"},
    {"paro", "down_proj.theta", "\"F16\"", "\"I16\"", "down_proj.theta is stored as I16"},
    {"paro", "down_proj.theta", "[8,48]", "[48,8]", "theta does not have 1 to 16 rounds"},
    {"paro", "down_proj.pairs", "[8,96]", "[96,8]", "pairs is 96 x 8, expected 8 x 96"},
    {"paro", "down_proj.pairs", "\"I16\"", "\"F16\"", "down_proj.pairs is stored as F16"},
    {"paro", "down_proj.pairs", "pairs", "pairz", "ffn_down.weight has only some of theta"},
    {"paro", "down_proj.channel_scales", "[1,96]", "[96,1]", "channel_scales is 96 x 1"},
    {"nf4", "down_proj.weight.absmax", "\"U8\"", "\"I8\"", "weight.absmax is not a list of 192"},
    {"nf4", "down_proj.weight.quant_map", "[16]", "[16]", NULL},
};

/* Writes a file of @size bytes into a directory. */
static void put_file(const char *dir, const char *name, const void *data, size_t size)
{
    char *path = path_join(dir, name);
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
    free(path);
}

/* Copies a file of a model, and applies the damage if there is one. */
static void copy_file(const char *from, const char *to, const char *name, const struct damage *d)
{
    char *path = path_join(from, name), *copy, *at;
    struct file_map map = {0};
    struct inf_err err = {0};

    ASSERT_OK_ERR(file_map_open(path, &map, &err), err);
    copy = malloc(map.size);
    assert_non_null(copy);
    memcpy(copy, map.data, map.size);
    if (d) {
        at = memmem(copy, map.size, d->tensor, strlen(d->tensor));
        assert_non_null(at);
        at = memmem(at, map.size - (size_t)(at - copy), d->from, strlen(d->from));
        assert_non_null(at);
        memcpy(at, d->to, strlen(d->to));
    }
    put_file(to, name, copy, map.size);
    file_map_done(&map);
    free(copy);
    free(path);
}

static void remove_file(const char *dir, const char *name)
{
    char *path = path_join(dir, name);

    unlink(path);
    free(path);
}

/* Opens a model, and returns 0 or the error. */
static int open_dir(const char *dir, struct inf_err *err)
{
    struct model *m = NULL;
    struct format *f;
    int r = format_open(dir, 0, model_archs(), &f, err);

    if (r < 0)
        return r;
    r = model_open(f, &m, err);
    if (r == 0)
        model_close(m);
    format_close(f);
    return r;
}

TEST(damaged_tensors_are_refused_by_name)
{
    for (size_t i = 0; i < ARRAY_SIZE(damages); i++) {
        char dir[] = "/tmp/sconce-test-XXXXXX";
        struct inf_err err = {0};
        struct golden g;
        int r;

        assert_non_null(mkdtemp(dir));
        golden_open(&g, damages[i].model);
        copy_file(g.path, dir, "config.json", NULL);
        copy_file(g.path, dir, "model.safetensors", &damages[i]);
        r = open_dir(dir, &err);
        if (damages[i].error) {
            assert_true(r < 0);
            ASSERT_CONTAINS(err.text, damages[i].error);
        } else {
            ASSERT_OK_ERR(r, err);
        }
        remove_file(dir, "config.json");
        remove_file(dir, "model.safetensors");
        rmdir(dir);
        golden_done(&g);
    }
}

RUN_TESTS(cmocka_unit_test(damaged_tensors_are_refused_by_name))
