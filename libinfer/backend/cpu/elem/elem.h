/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the kernels on single rows: norms, rope, gated units, sums, number formats of the KV
 * store.
 *
 * All kernels take unaligned pointers and any length. An output may be the same memory as an input,
 * but must not overlap an input otherwise. elem-ref.c defines what the kernels compute.
 */

#include <infer/types.h>

#include "graph/graph.h"

/* Describes rows, and the groups of columns that elem_fns.turn() prepares in them. y and x do not
 * overlap. */
struct turn_args {
    const struct turn_params *params;
    float *y;
    const float *x;
    size_t ld_y, ld_x;   /* floats from a row to the next */
    uint32_t begin, end; /* groups */
    uint32_t n_rows;
};

struct elem_fns {
    const char *name;   /* the instruction set, for example "avx512" */
    unsigned cpu_flags; /* CPU flags that the kernels need */
    /* y = x / sqrt(mean(x²) + eps) × w */
    void (*rms_norm)(float *y, const float *x, const float *w, float eps, uint32_t n);
    /* x[i] = x[i] × c[i] + partner × s[i] over n (even). The partner of an element is the element
     * at the same place in the other half (rope_half), or its neighbor (rope_pairs). s includes the
     * sign; c (cos) and s (sin) are [n] each. */
    void (*rope_half)(float *x, const float *c, const float *s, uint32_t n);
    void (*rope_pairs)(float *x, const float *c, const float *s, uint32_t n);
    /* y = gate / (1 + exp(-gate)) × up */
    void (*silu_mul)(float *y, const float *gate, const float *up, uint32_t n);
    /* y = (x - mean) / sqrt(variance + eps) × w + b; b may be NULL */
    void (*layer_norm)(float *y, const float *x, const float *w, const float *b, float eps,
                       uint32_t n);
    /* y = x × sqrt(mean(like²)) / sqrt(max(mean(x²), least)) */
    void (*level)(float *y, const float *x, const float *like, float least, uint32_t n);
    /* y = max(x - mean - f × sqrt(variance), 0); NaN if an element is NaN or infinite */
    void (*peaks)(float *y, const float *x, float f, uint32_t n);
    /* y = x × Φ(x), where Φ is the normal distribution function; gelu_tanh approximates it with
     * tanh */
    void (*gelu_erf)(float *y, const float *x, uint32_t n);
    void (*gelu_tanh)(float *y, const float *x, uint32_t n);
    /* y = 1 / (1 + exp(-x)) */
    void (*sigmoid)(float *y, const float *x, uint32_t n);
    /* y = x / (1 + exp(-x)) */
    void (*silu)(float *y, const float *x, uint32_t n);
    /* y = c × tanh(x / c) */
    void (*cap)(float *y, const float *x, float c, uint32_t n);
    /* y = g / (1 + exp(-1.702 × g)) × (u + 1), where g is @gate limited to at most 7, and u is @up
     * limited to -7 … 7 */
    void (*swiglu_limited)(float *y, const float *gate, const float *up, uint32_t n);
    void (*mul)(float *y, const float *a, const float *b, uint32_t n);
    void (*add)(float *y, const float *a, const float *b, uint32_t n);
    void (*scale)(float *y, const float *a, float f, uint32_t n);
    /* y = y + a × f; the product is not rounded before it is added */
    void (*add_scaled)(float *y, const float *a, float f, uint32_t n);
    /* Prepares rows (struct turn_params). Each product and each sum is rounded to float, so all
     * instruction sets give the same bits. */
    void (*turn)(const struct turn_args *args);
    void (*f16_store)(uint16_t *y, const float *x, uint32_t n);
    void (*bf16_store)(uint16_t *y, const float *x, uint32_t n);
    void (*f16_load)(float *y, const uint16_t *x, uint32_t n);
    void (*bf16_load)(float *y, const uint16_t *x, uint32_t n);
};

extern const struct elem_fns elem_ref, elem_avx2, elem_avx512, elem_neon;

/* Returns the best table for these CPU flags (core/cpu.h). */
const struct elem_fns *elem_pick(unsigned cpu_flags);
/* Prepares group @i_group of one row. It is the reference of turn(). */
void elem_turn_group(const struct turn_args *args, uint32_t i_group, uint32_t row);
/* Computes y = act(x). @act is not GRAPH_ACT_SWIGLU_LIMITED, which has two inputs. */
void elem_act(const struct elem_fns *fns, enum graph_act act, float *y, const float *x, uint32_t n);
/* Computes y = act(gate) × up, also for activations without a kernel of their own. For
 * GRAPH_ACT_SWIGLU_LIMITED, does what swiglu_limited() does. */
void elem_glu(const struct elem_fns *fns, enum graph_act act, float *y, const float *gate,
              const float *up, uint32_t n);
/* Works like elem_glu() with a gate whose @n elements are all *@gate. */
void elem_glu_one(const struct elem_fns *fns, enum graph_act act, float *y, const float *gate,
                  const float *up, uint32_t n);
