/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the kernels, and their selection for a device.
 *
 * A kernel is a shader of shaders/, compiled for one format and one way to read weights. A choice
 * adds values for the kernel's specialization constants and says how much work one workgroup does.
 */

#include "backend/backend.h"
#include "backend/vulkan/gpu.h"
#include "backend/vulkan/pipelines.h"

struct vkb_kernel {
    const char *name;              /* "matmul/rows q4_k texel" */
    const void *packed;            /* the code, compressed by gzip */
    size_t packed_size, code_size; /* bytes */
    uint32_t texel_u4;             /* bit i: slot i is read as texels of 4 uints */
    uint32_t texel_f4;             /* bit i: slot i is read as texels of 4 floats */
};

/* Return the size and the rows of the table that the build generates from the shaders. */
size_t vkb_n_kernels(void);
const struct vkb_kernel *vkb_kernel_at(size_t i);

/* The formats in which a product reads rows of x. VKB_PACK_NONE: plain floats. */
enum vkb_pack {
    VKB_PACK_NONE,
    VKB_PACK_Q8,  /* matmul/quantise */
    VKB_PACK_F16, /* matmul/halve */
    /* matmul/round: rounded for ternary weights, in the form of floats, of Q8 and of F16. */
    VKB_PACK_ROUNDED,
    VKB_PACK_ROUNDED_Q8,
    VKB_PACK_ROUNDED_F16,
    VKB_PACK_N,
};

struct vkb_choice {
    const struct vkb_kernel *kernel;
    enum vkb_pack pack;                  /* products: the format of slot 2 */
    uint32_t spec[VKB_SPEC_MAX], n_spec; /* constants 0 … n_spec - 1 */
    uint32_t columns, rows;              /* size of the result of one workgroup */
};

/* Steps are divided into three classes by their number of rows. Each class has its own recorded
 * commands. */
enum vkb_class {
    VKB_ONE,  /* 1 row */
    VKB_FEW,  /* up to VKB_FEW_ROWS */
    VKB_MANY, /* more rows */
    VKB_CLASS_N,
};

#define VKB_FEW_ROWS 16u

/* Finds a kernel by name, such as "matmul/rows q4_k". If the device prefers texels, returns the
 * variant that reads texels, if there is one. Returns NULL if there is no such kernel. */
const struct vkb_kernel *vkb_kernel_find(const struct vkb_caps *caps, const char *name);

/* A product of x with K columns and weights with N rows. */
struct vkb_product {
    enum inf_dtype dtype; /* on the device (backend/joined.h) */
    uint32_t K, N;
    bool glu;     /* two matrices and an activation */
    bool aligned; /* rows of weights start at multiples of 16 bytes */
    bool experts; /* each row of y has a matrix of its own: that of an expert */
};

/* pick-product.c: selects the kernel for a product. Returns false if there is no kernel. */
bool vkb_pick_product(const struct vkb_caps *caps, const struct vkb_product *p,
                      enum vkb_class class, struct vkb_choice *ret_choice);
/* Selects the kernel that packs rows: a workgroup packs ret_choice->columns columns of one row. */
bool vkb_pick_pack(const struct vkb_caps *caps, enum vkb_pack pack, struct vkb_choice *ret_choice);
/* Returns the bytes of @rows packed rows. */
uint64_t vkb_pack_size(enum vkb_pack pack, uint32_t rows, uint32_t width);
bool vkb_pick_embed(const struct vkb_caps *caps, enum inf_dtype dtype,
                    struct vkb_choice *ret_choice);
/* A kernel for attention over a KV store, and the division of its work. */
struct vkb_attention {
    struct vkb_choice choice;
    uint32_t tile_rows;   /* rows that share a pass over the context */
    uint32_t rows_from;   /* tiles with fewer rows are left to the choice for VKB_FEW */
    uint32_t heads;       /* query heads of a KV head that share a pass */
    uint32_t max_ctx;     /* the longest context; UINT32_MAX: any */
    uint32_t part_tokens; /* the context is summed in parts of this size, the same for all
                             classes */
    bool split;           /* a workgroup computes one part, and attention/merge merges the parts */
    bool finishes;        /* contexts of one part are finished without a merge */
};

/* Returns whether kernels can read and write keys and values in this format. */
bool vkb_store_can(enum codec codec);
/* Returns the number of a format for kernels: STORE_… of push.h. */
uint32_t vkb_store_format(enum codec codec);
/* Returns how the format turns heads: STORE_PLAIN, STORE_ROTATED or STORE_SIGNED. */
uint32_t vkb_store_turn(enum codec codec);
/* Selects the kernel for attention over K and V of a layer. */
bool vkb_pick_attention(const struct vkb_caps *caps, const struct kv_layout *layout,
                        struct state_place place, uint32_t n_heads, enum vkb_class class,
                        struct vkb_attention *ret_choice);
/* Selects a kernel that does not depend on a format, such as "elem/norm" or "sample/tops". */
bool vkb_pick_plain(const struct vkb_caps *caps, const char *name, struct vkb_choice *ret_choice);
