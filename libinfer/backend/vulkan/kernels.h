/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kernels, and which of them a device gets
 *
 * A kernel is a shader of shaders/, compiled for one format and one way of access. A choice adds
 * values for its specialization constants and says how much one workgroup does.
 */

#include "backend/backend.h"
#include "backend/vulkan/gpu.h"
#include "backend/vulkan/pipelines.h"

struct vkb_kernel {
    const char *name; /* "matmul/rows q4_k texel" */
    const uint32_t *code;
    size_t code_size;  /* bytes */
    uint32_t texel_u4; /* bit i: slot i is read as texels of 4 uints */
    uint32_t texel_f4; /* bit i: slot i is read as texels of 4 floats */
};

/* The table that the build makes of the shaders. */
size_t vkb_n_kernels(void);
const struct vkb_kernel *vkb_kernel_at(size_t i);

/* The numbers that a product takes rows of x in, beside floats as they are. */
enum vkb_pack {
    VKB_PACK_NONE,
    VKB_PACK_Q8,  /* matmul/quantise */
    VKB_PACK_F16, /* matmul/halve */
    VKB_PACK_N,
};

struct vkb_choice {
    const struct vkb_kernel *kernel;
    enum vkb_pack pack;                  /* products: what slot 2 holds */
    uint32_t spec[VKB_SPEC_MAX], n_spec; /* constants 0 … n_spec - 1 */
    uint32_t columns, rows;              /* of the result that one workgroup computes */
};

/* Steps are of three classes by their rows; each has its own recorded commands. */
enum vkb_class {
    VKB_ONE,  /* 1 row */
    VKB_FEW,  /* up to VKB_FEW_ROWS */
    VKB_MANY, /* more */
    VKB_CLASS_N,
};

#define VKB_FEW_ROWS 16u

/* By name, as "matmul/rows q4_k"; the variant that reads texels where the device likes them and
 * there is one. NULL: none. */
const struct vkb_kernel *vkb_kernel_find(const struct vkb_caps *caps, const char *name);

/* x of K columns by weights of N rows. */
struct vkb_product {
    enum inf_dtype dtype;
    uint32_t K, N;
    bool glu;     /* two matrices and an activation */
    bool aligned; /* rows of weights start at multiples of 16 bytes */
};

/* pick-product.c. False: there is no kernel for it. */
bool vkb_pick_product(const struct vkb_caps *caps, const struct vkb_product *p,
                      enum vkb_class class, struct vkb_choice *ret_choice);
/* What packs rows of @width columns: a workgroup does ret_choice->columns of one row. */
bool vkb_pick_pack(const struct vkb_caps *caps, enum vkb_pack pack, struct vkb_choice *ret_choice);
/* Bytes of that many rows, packed. */
uint64_t vkb_pack_size(enum vkb_pack pack, uint32_t rows, uint32_t width);
bool vkb_pick_embed(const struct vkb_caps *caps, enum inf_dtype dtype,
                    struct vkb_choice *ret_choice);
/* Attention of heads in a KV store. */
struct vkb_attention {
    struct vkb_choice choice;
    uint32_t tile_rows;   /* rows that go over their context together */
    uint32_t rows_from;   /* tiles of fewer rows are left to the choice for few rows */
    uint32_t heads;       /* heads of a KV head that do */
    uint32_t max_ctx;     /* the longest context; UINT32_MAX: any */
    uint32_t part_tokens; /* the context is summed up in parts: the same for all classes */
    bool split;           /* a workgroup does one part, and attention/merge puts them together */
    bool finishes;        /* but contexts of one part, which are finished at once */
};

/* STORE_… of push.h. */
uint32_t vkb_store_format(const struct kv_layout *layout);
bool vkb_pick_attention(const struct vkb_caps *caps, const struct kv_layout *layout,
                        uint32_t n_heads, enum vkb_class class, struct vkb_attention *ret_choice);
/* "norm", "heads", "glu", "add", "scale", "rows", "topk"…: kernels that have no formats. */
bool vkb_pick_plain(const struct vkb_caps *caps, const char *name, struct vkb_choice *ret_choice);
