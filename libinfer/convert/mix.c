/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the formats of tensors by rules, which are rows of a table: the first row whose mixes,
 * kind of tensor and conditions match gives the format. A tensor without a row gets the format of
 * most tensors. The choices are those of llama.cpp (src/llama-quant.cpp of August 2026), so that
 * files of one mix are the same in both programs.
 */
#include "convert/mix.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/text.h"
#include "format/gguf/ggml-type.h"

static const struct mix_info mixes[] = {
    [MIX_F32] = {"F32", 0, GGML_TYPE_F32},
    [MIX_F16] = {"F16", 1, GGML_TYPE_F16},
    [MIX_BF16] = {"BF16", 32, GGML_TYPE_BF16},
    [MIX_COPY] = {"COPY", 0, MIX_NO_TYPE},
    [MIX_Q4_0] = {"Q4_0", 2, GGML_TYPE_Q4_0},
    [MIX_Q4_1] = {"Q4_1", 3, GGML_TYPE_Q4_1},
    [MIX_Q5_0] = {"Q5_0", 8, GGML_TYPE_Q5_0},
    [MIX_Q5_1] = {"Q5_1", 9, GGML_TYPE_Q5_1},
    [MIX_Q8_0] = {"Q8_0", 7, GGML_TYPE_Q8_0},
    [MIX_Q2_K] = {"Q2_K", 10, GGML_TYPE_Q2_K},
    [MIX_Q2_K_S] = {"Q2_K_S", 21, GGML_TYPE_Q2_K},
    [MIX_Q3_K_S] = {"Q3_K_S", 11, GGML_TYPE_Q3_K},
    [MIX_Q3_K_M] = {"Q3_K_M", 12, GGML_TYPE_Q3_K},
    [MIX_Q3_K_L] = {"Q3_K_L", 13, GGML_TYPE_Q3_K},
    [MIX_Q4_K_S] = {"Q4_K_S", 14, GGML_TYPE_Q4_K},
    [MIX_Q4_K_M] = {"Q4_K_M", 15, GGML_TYPE_Q4_K},
    [MIX_Q5_K_S] = {"Q5_K_S", 16, GGML_TYPE_Q5_K},
    [MIX_Q5_K_M] = {"Q5_K_M", 17, GGML_TYPE_Q5_K},
    [MIX_Q6_K] = {"Q6_K", 18, GGML_TYPE_Q6_K},
    [MIX_IQ1_S] = {"IQ1_S", 24, GGML_TYPE_IQ1_S},
    [MIX_IQ1_M] = {"IQ1_M", 31, GGML_TYPE_IQ1_M},
    [MIX_IQ2_XXS] = {"IQ2_XXS", 19, GGML_TYPE_IQ2_XXS},
    [MIX_IQ2_XS] = {"IQ2_XS", 20, GGML_TYPE_IQ2_XS},
    [MIX_IQ2_S] = {"IQ2_S", 28, GGML_TYPE_IQ2_XS},
    [MIX_IQ2_M] = {"IQ2_M", 29, GGML_TYPE_IQ2_S},
    [MIX_IQ3_XXS] = {"IQ3_XXS", 23, GGML_TYPE_IQ3_XXS},
    [MIX_IQ3_XS] = {"IQ3_XS", 22, GGML_TYPE_IQ3_S},
    [MIX_IQ3_S] = {"IQ3_S", 26, GGML_TYPE_IQ3_S},
    [MIX_IQ3_M] = {"IQ3_M", 27, GGML_TYPE_IQ3_S},
    [MIX_IQ4_NL] = {"IQ4_NL", 25, GGML_TYPE_IQ4_NL},
    [MIX_IQ4_XS] = {"IQ4_XS", 30, GGML_TYPE_IQ4_XS},
    [MIX_TQ1_0] = {"TQ1_0", 36, GGML_TYPE_TQ1_0},
    [MIX_TQ2_0] = {"TQ2_0", 37, GGML_TYPE_TQ2_0},
    [MIX_MXFP4_MOE] = {"MXFP4_MOE", 38, GGML_TYPE_MXFP4},
    [MIX_NVFP4] = {"NVFP4", 39, GGML_TYPE_NVFP4},
    [MIX_Q1_0] = {"Q1_0", 40, GGML_TYPE_Q1_0},
};

static_assert(ARRAY_SIZE(mixes) == MIX_N, "a row for each mix");

const struct mix_info *mix_info(enum mix mix)
{
    assert((unsigned)mix < MIX_N);
    return &mixes[mix];
}

bool mix_find(const char *name, enum mix *ret_mix)
{
    static const struct {
        const char *name;
        enum mix mix;
    } others[] = {
        {"Q3_K", MIX_Q3_K_M}, {"Q4_K", MIX_Q4_K_M}, {"Q5_K", MIX_Q5_K_M}, {"MXFP4", MIX_MXFP4_MOE}};

    for (size_t i = 0; i < MIX_N; i++)
        if (strcasecmp(mixes[i].name, name) == 0) {
            *ret_mix = (enum mix)i;
            return true;
        }
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        if (strcasecmp(others[i].name, name) == 0) {
            *ret_mix = others[i].mix;
            return true;
        }
    return false;
}

/* Kinds of tensors; a rule has a mask of them. */
enum {
    KIND_OUTPUT = 1 << 0,
    KIND_EMBD = 1 << 1,
    KIND_Q = 1 << 2,
    KIND_K = 1 << 3,
    KIND_V = 1 << 4, /* the values, alone or joined with others */
    KIND_OUT = 1 << 5,
    KIND_UP = 1 << 6,
    KIND_GATE = 1 << 7,
    KIND_DOWN = 1 << 8,
    KIND_OTHER = 1 << 9,
};

/* Conditions of a rule. A tensor's place (tensor_place()) is its number among the tensors of its
 * kind, or its layer. For tensors of values n is their number, and for other kinds the number of
 * layers. */
enum {
    IF_GROUPED = 1 << 0,    /* four or more heads share keys and values */
    IF_EXPERTS_8 = 1 << 1,  /* there are exactly 8 experts */
    IF_NOT_8 = 1 << 2,      /* there are not 8 experts */
    IF_EXPERTS = 1 << 3,    /* there are at least 4 experts */
    IF_IMPORTANCE = 1 << 4, /* there is an importance matrix */
    IF_NONE = 1 << 5,       /* there is no importance matrix */
    IF_FIRST_8TH = 1 << 6,  /* the place is below n / 8 */
    IF_FIRST_16TH = 1 << 7, /* the place is below n / 16 */
    IF_FIRST_2 = 1 << 8,    /* the place is below 2 */
    IF_FIRST_4 = 1 << 9,    /* the place is below 4 */
    IF_MIDDLE = 1 << 10,    /* the place is from n / 8 to 7 n / 8 */
    IF_MORE = 1 << 11,      /* the first and last eighth, and every third tensor between them */
    IF_FALCON = 1 << 12,    /* the architecture is falcon */
    IF_OTHERS = 1 << 13,    /* the architecture is not falcon */
};

#define M(mix) (UINT64_C(1) << MIX_##mix)
/* Mixes of about 2 bits or less for each weight. */
#define M_SMALL (M(IQ1_S) | M(IQ1_M) | M(IQ2_XXS) | M(IQ2_XS) | M(IQ2_S) | M(IQ2_M))
#define M_IQ2S  (M(IQ2_S) | M(IQ2_M))
#define M_IQ1   (M(IQ1_S) | M(IQ1_M))
#define M_ALL   (~UINT64_C(0))

struct rule {
    uint64_t mixes;
    uint32_t kinds, conditions;
    uint32_t type; /* MIX_NO_TYPE: the format of most tensors */
};

#define KEEP     MIX_NO_TYPE
#define T(type)  GGML_TYPE_##type
#define EMBD_OUT (KIND_EMBD | KIND_OUTPUT)

static const struct rule rules[] = {
    {M(Q8_0), KIND_OUTPUT, 0, KEEP},
    {M_SMALL | M(IQ3_XXS), KIND_OUTPUT, 0, T(Q5_K)},
    {M_ALL, KIND_OUTPUT, 0, T(Q6_K)},

    {M_IQ1 | M(IQ2_XXS) | M(IQ2_XS), KIND_EMBD, 0, T(Q2_K)},
    {M_IQ2S | M(IQ3_XXS), KIND_EMBD, 0, T(IQ3_S)},
    {M(TQ1_0) | M(TQ2_0), KIND_EMBD, 0, T(Q4_K)},

    {M_SMALL, KIND_V, IF_GROUPED, T(Q4_K)},
    {M_SMALL, KIND_V, IF_EXPERTS, T(Q4_K)},
    {M_IQ2S, KIND_V, 0, T(IQ3_S)},
    {M_SMALL, KIND_V, 0, T(Q2_K)},
    {M_SMALL, KIND_K, IF_EXPERTS_8, T(Q4_K)},
    {M_IQ2S, KIND_DOWN, IF_FIRST_8TH, T(IQ3_S)},
    {M_SMALL, KIND_DOWN, IF_FIRST_8TH, T(Q2_K)},
    {M_SMALL, KIND_OUT, IF_EXPERTS_8, T(Q5_K)},
    {M_IQ1, KIND_OUT, 0, T(IQ2_XXS)},
    {M_IQ2S, KIND_OUT, 0, T(IQ3_S)},
    {M_SMALL, ~0u, 0, KEEP},

    {M_ALL, KIND_V | KIND_K, IF_EXPERTS_8, T(Q8_0)},

    {M(Q2_K), KIND_V, IF_GROUPED, T(Q4_K)},
    {M(Q2_K), KIND_V, 0, T(Q3_K)},
    {M(Q2_K_S), KIND_V, IF_GROUPED, T(Q4_K)},
    {M(IQ3_XXS), KIND_V, IF_GROUPED, T(Q4_K)},
    {M(IQ3_XXS), KIND_V, IF_NONE, T(IQ3_S)},
    {M(IQ3_XS) | M(IQ3_S), KIND_V, IF_GROUPED, T(Q4_K)},
    {M(IQ3_M), KIND_V, 0, T(Q4_K)},
    {M(Q3_K_M), KIND_V, IF_FIRST_2, T(Q5_K)},
    {M(Q3_K_M), KIND_V, 0, T(Q4_K)},
    {M(Q3_K_L), KIND_V, 0, T(Q5_K)},
    {M(IQ4_NL) | M(IQ4_XS), KIND_V, IF_GROUPED, T(Q5_K)},
    {M(Q4_K_M) | M(Q5_K_M), KIND_V, IF_MORE, T(Q6_K)},
    {M(Q4_K_S), KIND_V, IF_FIRST_4, T(Q5_K)},

    {M(IQ3_XS), KIND_K | KIND_Q, 0, T(IQ3_XXS)},
    {M(IQ3_XXS), KIND_K | KIND_Q, 0, T(IQ2_S)},

    {M(Q2_K), KIND_DOWN, 0, T(Q3_K)},
    {M(Q2_K_S), KIND_DOWN, IF_FIRST_8TH, T(Q4_K)},
    {M(IQ3_XXS), KIND_DOWN, IF_NONE | IF_FIRST_8TH, T(Q4_K)},
    {M(IQ3_XXS), KIND_DOWN, IF_NONE, T(Q3_K)},
    {M(Q3_K_M), KIND_DOWN, IF_FIRST_16TH, T(Q5_K)},
    {M(Q3_K_M), KIND_DOWN, IF_OTHERS, T(Q4_K)},
    {M(Q3_K_M), KIND_DOWN, IF_MORE, T(Q4_K)},
    {M(IQ3_M), KIND_DOWN, IF_FIRST_8TH, T(Q4_K)},
    {M(IQ3_M), KIND_DOWN, IF_EXPERTS_8 | IF_MORE, T(Q4_K)},
    {M(Q3_K_L), KIND_DOWN, IF_FALCON, T(Q4_K)},
    {M(Q3_K_L), KIND_DOWN, 0, T(Q5_K)},
    {M(Q4_K_M), KIND_DOWN, IF_FALCON | IF_FIRST_16TH, T(Q6_K)},
    {M(Q4_K_M), KIND_DOWN, IF_FALCON | IF_MORE, T(Q5_K)},
    {M(Q4_K_M), KIND_DOWN, IF_OTHERS | IF_MORE, T(Q6_K)},
    {M(IQ4_NL) | M(IQ4_XS), KIND_DOWN, IF_NONE | IF_FIRST_8TH, T(Q5_K)},
    {M(Q5_K_M), KIND_DOWN, IF_MORE, T(Q6_K)},
    {M(Q4_K_S), KIND_DOWN, IF_OTHERS | IF_FIRST_8TH, T(Q5_K)},
    {M(Q4_0), KIND_DOWN, IF_IMPORTANCE | IF_FIRST_8TH, T(Q4_1)},
    {M(Q5_0), KIND_DOWN, IF_IMPORTANCE | IF_FIRST_8TH, T(Q5_1)},

    {M(Q3_K_L), KIND_OUT, IF_FALCON, T(Q4_K)},
    {M_ALL, KIND_OUT, IF_FALCON, KEEP},
    {M(Q2_K) | M(Q3_K_S) | M(Q3_K_M) | M(Q4_K_S) | M(Q4_K_M) | M(IQ3_XXS) | M(IQ3_XS) | M(IQ3_S) |
         M(IQ3_M) | M(IQ4_NL) | M(IQ4_XS),
     KIND_OUT, IF_EXPERTS_8, T(Q5_K)},
    {M_ALL, KIND_OUT, IF_EXPERTS_8, KEEP},
    {M(Q2_K), KIND_OUT, 0, T(Q3_K)},
    {M(IQ3_XXS), KIND_OUT, 0, T(IQ3_S)},
    {M(Q3_K_M) | M(IQ3_M), KIND_OUT, 0, T(Q4_K)},
    {M(Q3_K_L), KIND_OUT, 0, T(Q5_K)},

    {M(IQ3_XS), KIND_GATE | KIND_UP, IF_MIDDLE, T(IQ3_XXS)},
};

static unsigned tensor_kind(const char *name)
{
    static const struct {
        const char *part;
        unsigned kind;
    } parts[] = {
        {"attn_qkv.weight", KIND_V}, {"attn_kv_b.weight", KIND_V}, {"attn_v.weight", KIND_V},
        {"attn_k.weight", KIND_K},   {"attn_q.weight", KIND_Q},    {"attn_output.weight", KIND_OUT},
        {"ffn_up", KIND_UP},         {"ffn_gate", KIND_GATE},      {"ffn_down", KIND_DOWN},
    };

    if (strcmp(name, "output.weight") == 0)
        return KIND_OUTPUT;
    if (strcmp(name, "token_embd.weight") == 0 || strcmp(name, "per_layer_token_embd.weight") == 0)
        return KIND_EMBD;
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        if (strstr(name, parts[i].part))
            return parts[i].kind;
    return KIND_OTHER;
}

bool mix_is_values(const char *name)
{
    return tensor_kind(name) == KIND_V;
}

/* Parts of the names of tensors that keep their formats, because they are small or sensitive. */
static const char *const kept[] = {
    "_norm.weight",
    "ffn_gate_inp.weight",
    "ffn_gate_tid2eid.weight",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "ssm_conv1d",
    "shortconv.conv.weight",
    "indexer.k_proj.weight",
    "indexer.q_proj.weight",
    "time_mix_first.weight",
    "time_mix_w0.weight",
    "time_mix_w1.weight",
    "time_mix_w2.weight",
    "time_mix_v0.weight",
    "time_mix_v1.weight",
    "time_mix_v2.weight",
    "time_mix_a0.weight",
    "time_mix_a1.weight",
    "time_mix_a2.weight",
    "time_mix_g1.weight",
    "time_mix_g2.weight",
    "time_mix_decay_w1.weight",
    "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight",
    "attn_rel_b.weight",
    ".position_embd",
    "sam.pos_embd",
    "sam.neck.",
    "sam.net_",
    ".rel_pos",
    ".patch_embd",
    ".patch_merger",
    "a.rvq.codebook",
    "mm.a.code_embd",
};

bool mix_may_change(const struct mix_tensor *t)
{
    unsigned n_dims = t->n_dims;

    while (n_dims > 1 && t->dims[n_dims - 1] == 1)
        n_dims--;
    if (n_dims < 2 || !text_ends_with(t->name, "weight") ||
        strcmp(t->name, "position_embd.weight") == 0 || strcmp(t->name, "token_types.weight") == 0)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
        if (strstr(t->name, kept[i]))
            return false;
    return true;
}

static bool is_more(uint32_t i, uint32_t n)
{
    return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

/* Returns the conditions that hold for a tensor at place @i of @n. */
static unsigned conditions_of(const struct mix_model *m, uint32_t i, uint32_t n)
{
    const bool falcon = strcmp(m->arch, "falcon") == 0;
    unsigned c = falcon ? IF_FALCON : IF_OTHERS;

    if (m->n_kv_heads > 0 && m->n_heads / m->n_kv_heads >= 4)
        c |= IF_GROUPED;
    c |= m->n_experts == 8 ? IF_EXPERTS_8 : IF_NOT_8;
    if (m->n_experts >= 4)
        c |= IF_EXPERTS;
    c |= m->importance ? IF_IMPORTANCE : IF_NONE;
    if (i < n / 8)
        c |= IF_FIRST_8TH;
    if (i < n / 16)
        c |= IF_FIRST_16TH;
    if (i < 2)
        c |= IF_FIRST_2;
    if (i < 4)
        c |= IF_FIRST_4;
    if (i >= n / 8 && i < 7 * n / 8)
        c |= IF_MIDDLE;
    if (is_more(i, n))
        c |= IF_MORE;
    return c;
}

/* Returns the format that the rules choose. */
static uint32_t mix_apply(const struct mix_model *m, unsigned kind, uint32_t i, uint32_t n)
{
    const unsigned conditions = conditions_of(m, i, n);

    for (size_t r = 0; r < ARRAY_SIZE(rules); r++)
        if ((rules[r].mixes >> m->mix & 1) && (rules[r].kinds & kind) &&
            (rules[r].conditions & conditions) == rules[r].conditions)
            return rules[r].type == MIX_NO_TYPE ? mixes[m->mix].type : rules[r].type;
    return mixes[m->mix].type;
}

/* Returns the place of a tensor: in models with experts its layer, in others the number of earlier
 * tensors of its kind. */
static uint32_t tensor_place(const struct mix_model *m, const char *name, uint32_t n_before)
{
    const char *rest = text_after(name, "blk.");

    return m->n_experts > 1 && rest ? (uint32_t)strtoul(rest, NULL, 10) : n_before;
}

static bool is_small(enum mix mix)
{
    return M_SMALL >> mix & 1;
}

/* Chooses the format of a tensor of a kind whose tensors are counted. */
static uint32_t mix_counted(struct mix_model *m, unsigned kind, const char *name)
{
    uint32_t *const seen = kind == KIND_V      ? &m->n_values
                           : kind == KIND_DOWN ? &m->n_downs
                           : kind == KIND_GATE ? &m->n_gates
                                               : &m->n_ups;
    const bool by_layer = kind != KIND_V && !is_small(m->mix);
    const uint32_t place = by_layer ? tensor_place(m, name, *seen) : *seen;
    uint32_t type = mix_apply(m, kind, place, kind == KIND_V ? m->n_value_tensors : m->n_layers);

    ++*seen;
    /* Llama 2 and 3 with 70 billion weights have few values, so more bits for them are cheap. */
    if (kind == KIND_V && !is_small(m->mix) && strcmp(m->arch, "llama") == 0 && m->n_layers == 80 &&
        m->n_heads != m->n_kv_heads && (type == GGML_TYPE_Q3_K || type == GGML_TYPE_Q4_K))
        type = GGML_TYPE_Q5_K;
    return type;
}

/* Chooses the format by the rules of the mix. */
static uint32_t mix_by_rules(struct mix_model *m, const struct mix_tensor *t)
{
    const unsigned kind = tensor_kind(t->name);
    const uint32_t most = mixes[m->mix].type;

    if (kind == KIND_OUTPUT || (kind == KIND_EMBD && m->tied)) {
        if (m->output_type != MIX_NO_TYPE)
            return m->output_type;
        if (m->mix == MIX_MXFP4_MOE || strcmp(m->arch, "falcon") == 0 ||
            t->dims[0] % ggml_type(most)->block_elems != 0)
            return GGML_TYPE_Q8_0;
        return mix_apply(m, KIND_OUTPUT, 0, 1);
    }
    if (m->mix == MIX_MXFP4_MOE)
        return t->n_dims > 2 && t->dims[2] > 1 ? GGML_TYPE_MXFP4 : GGML_TYPE_Q8_0;
    if (kind == KIND_EMBD)
        return mix_apply(m, kind, 0, 1);
    if (kind & (KIND_V | KIND_DOWN | KIND_GATE | KIND_UP))
        return mix_counted(m, kind, t->name);
    return mix_apply(m, kind, 0, 1);
}

/* Returns a format with smaller blocks if rows of @n_cols elements are not whole blocks. */
static uint32_t mix_fitting(uint32_t type, uint64_t n_cols)
{
    static const struct {
        uint32_t type, smaller;
    } rows[] = {
        {T(IQ1_S), T(IQ4_NL)},  {T(IQ1_M), T(IQ4_NL)},  {T(IQ2_XXS), T(IQ4_NL)},
        {T(IQ2_XS), T(IQ4_NL)}, {T(IQ2_S), T(IQ4_NL)},  {T(IQ3_XXS), T(IQ4_NL)},
        {T(IQ3_S), T(IQ4_NL)},  {T(IQ4_XS), T(IQ4_NL)}, {T(Q2_K), T(Q4_0)},
        {T(Q3_K), T(Q4_0)},     {T(TQ1_0), T(Q4_0)},    {T(TQ2_0), T(Q4_0)},
        {T(Q4_K), T(Q5_0)},     {T(Q5_K), T(Q5_1)},     {T(Q6_K), T(Q8_0)},
    };

    if (n_cols % ggml_type(type)->block_elems == 0)
        return type;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (rows[i].type == type && n_cols % ggml_type(rows[i].smaller)->block_elems == 0)
            return rows[i].smaller;
    return GGML_TYPE_F16;
}

static uint32_t mix_fit(struct mix_model *m, uint32_t type, uint64_t n_cols)
{
    const uint32_t fitting = mix_fitting(type, n_cols);

    m->n_fallback += fitting != type;
    return fitting;
}

uint32_t mix_choose(struct mix_model *m, const struct mix_tensor *t)
{
    const uint32_t most = mixes[m->mix].type;
    const unsigned kind = tensor_kind(t->name);
    uint32_t type = MIX_NO_TYPE;

    if (m->mix == MIX_COPY || !mix_may_change(t))
        return t->type;
    if (kind == KIND_EMBD && m->embedding_type != MIX_NO_TYPE)
        return mix_fit(m, m->embedding_type, t->dims[0]);
    if (kind == KIND_OUTPUT && m->output_type != MIX_NO_TYPE)
        return mix_fit(m, m->output_type, t->dims[0]);
    for (size_t i = 0; type == MIX_NO_TYPE && i < m->n_overrides; i++)
        if (mix_override_matches(&m->overrides[i], t->name))
            type = m->overrides[i].type;
    if (type == MIX_NO_TYPE)
        type = m->pure || ggml_type(most)->block_elems == 1 ? most : mix_by_rules(m, t);
    return mix_fit(m, type, t->dims[0]);
}

bool mix_needs_importance(const struct mix_model *m, const char *name, uint32_t type)
{
    if (tensor_kind(name) == KIND_OUTPUT || tensor_kind(name) == KIND_EMBD)
        return false;
    switch (type) {
    case GGML_TYPE_IQ1_S:
    case GGML_TYPE_IQ1_M:
    case GGML_TYPE_IQ2_XXS:
    case GGML_TYPE_IQ2_XS:
    case GGML_TYPE_IQ2_S:
    case GGML_TYPE_IQ3_XXS:
        return true;
    default:
        return type == GGML_TYPE_Q2_K && m->mix == MIX_Q2_K_S;
    }
}
