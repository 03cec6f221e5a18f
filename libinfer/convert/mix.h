/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Chooses the number format of each tensor of a converted GGUF file.
 *
 * A mix is a named choice of formats, such as Q4_K_M: most tensors get one format, and tensors that
 * matter more get a larger one. The names and the choices are those of llama.cpp (llama-quantize),
 * whose files carry the number of the mix in the key general.file_type. Formats are ids of
 * format/gguf/ggml-type.h.
 */

#include <infer/types.h>

#include "core/macros.h"

enum mix {
    MIX_F32,
    MIX_F16,
    MIX_BF16,
    MIX_COPY, /* all tensors keep their formats */
    MIX_Q4_0,
    MIX_Q4_1,
    MIX_Q5_0,
    MIX_Q5_1,
    MIX_Q8_0,
    MIX_Q2_K,
    MIX_Q2_K_S,
    MIX_Q3_K_S,
    MIX_Q3_K_M,
    MIX_Q3_K_L,
    MIX_Q4_K_S,
    MIX_Q4_K_M,
    MIX_Q5_K_S,
    MIX_Q5_K_M,
    MIX_Q6_K,
    MIX_IQ1_S,
    MIX_IQ1_M,
    MIX_IQ2_XXS,
    MIX_IQ2_XS,
    MIX_IQ2_S,
    MIX_IQ2_M,
    MIX_IQ3_XXS,
    MIX_IQ3_XS,
    MIX_IQ3_S,
    MIX_IQ3_M,
    MIX_IQ4_NL,
    MIX_IQ4_XS,
    MIX_TQ1_0,
    MIX_TQ2_0,
    MIX_MXFP4_MOE,
    MIX_NVFP4,
    MIX_Q1_0,
    MIX_N,
};

struct mix_info {
    const char *name;   /* "Q4_K_M" */
    uint32_t file_type; /* general.file_type */
    uint32_t type;      /* the format of most tensors */
};

/* Returns the description of a mix. */
const struct mix_info *mix_info(enum mix mix);
/* Finds a mix by its name, in upper or lower case; Q3_K, Q4_K and Q5_K stand for the mixes with _M
 * at the end, and MXFP4 for MXFP4_MOE. Returns false if there is no such mix. */
bool mix_find(const char *name, enum mix *ret_mix);

/* A choice by the user: tensors whose names match get the format @type. */
struct mix_override {
    void *pattern; /* a compiled regular expression (mix_override_init()) */
    uint32_t type;
};

/* Parses "PATTERN=TYPE", for example "ffn_down=q6_k". PATTERN is a regular expression of PCRE2,
 * which matches any part of a name. -EINVAL: the text or the pattern is wrong. */
int mix_override_init(struct mix_override *o, const char *text, struct inf_err *reterr);
/* Does the same as mix_override_init(), except that the caller parses the text after the last
 * "=". */
int mix_pattern_init(struct mix_override *o, const char *text, struct inf_err *reterr);
bool mix_override_matches(const struct mix_override *o, const char *name);
void mix_override_done(struct mix_override *o);

#define MIX_NO_TYPE UINT32_MAX

/* Holds the properties of a model by which formats are chosen. */
struct mix_model {
    enum mix mix;
    char arch[64];                /* general.architecture */
    uint32_t n_layers;            /* all layers, also those that only predict further tokens */
    uint32_t n_heads, n_kv_heads; /* of the first layer */
    uint32_t n_experts;
    bool importance; /* there is an importance matrix */
    bool pure;       /* all tensors that are quantized get the format of most tensors */
    bool tied;       /* there is no tensor output.weight */
    uint32_t output_type, embedding_type; /* chosen by the user, or MIX_NO_TYPE */
    const struct mix_override *overrides; /* [n_overrides] */
    size_t n_overrides;
    uint32_t n_value_tensors;                   /* all tensors of values (mix_is_values()) */
    uint32_t n_values, n_downs, n_gates, n_ups; /* tensors that mix_choose() has seen; 0 at first */
    uint32_t n_fallback; /* tensors that got another format because of the length of their rows */
};

/* One tensor. */
struct mix_tensor {
    const char *name;
    uint32_t n_dims;
    const uint64_t *dims;
    uint32_t type; /* its present format */
};

/* Returns whether a tensor holds the values of attention, alone or joined with others. */
bool mix_is_values(const char *name);
/* Returns whether a mix other than MIX_COPY may change the format of a tensor. */
bool mix_may_change(const struct mix_tensor *t);
/* Returns the format that a tensor gets. The tensors must come in the order of their layers, with
 * tensors outside the layers first, and by name within a layer. */
uint32_t mix_choose(struct mix_model *m, const struct mix_tensor *t);
/* Returns whether a tensor of this format is useless without an importance matrix. */
bool mix_needs_importance(const struct mix_model *m, const char *name, uint32_t type);
