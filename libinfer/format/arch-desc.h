/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Describes an architecture to the readers of files.
 *
 * A description gives the names of the architecture in GGUF files and in config.json, and lists its
 * hyperparameters and its weights. The caller of format_open() passes a list of descriptions, and a
 * file of an architecture that the list does not contain is refused by name.
 */

#include <stddef.h>

#include "format/hparams.h"

struct inf_err;
struct hf_reader;
struct arch_class;

/* A dimension of a weight, in terms of the hyperparameters (model/dims.c). If a dimension is a
 * product of counts that differ between layers, each layer has its own value. */
enum arch_dim {
    DIM_NONE, /* in `experts` of a slot: the weight is a single matrix or vector */
    DIM_1,    /* in `rows` of a slot: the weight is a vector */
    DIM_VOCAB,
    DIM_EMBD,
    DIM_EMBD_2, /* twice DIM_EMBD: the embedding of a token and a hidden state */
    DIM_Q,      /* heads × head size */
    DIM_Q_2,    /* twice DIM_Q: queries and gates */
    DIM_KV,     /* key/value heads × head size */
    DIM_QKV,    /* DIM_Q + 2 × DIM_KV */
    DIM_HEAD,   /* size of a head */
    DIM_HEADS,  /* number of heads */
    DIM_FF,
    DIM_FF_2, /* twice DIM_FF: two matrices in one */
    DIM_EXPERTS,
    DIM_EXPERT_FF,
    DIM_EXPERT_FF_2,
    DIM_SHARED_FF,
    DIM_POS,             /* rows of the position table */
    DIM_TYPES,           /* token types */
    DIM_PER_LAYER,       /* width of per-layer embeddings; 0: there are none */
    DIM_PER_LAYER_ALL,   /* the width for all layers together */
    DIM_EMBD_PER_LAYER,  /* DIM_EMBD if there are per-layer embeddings, else 0 */
    DIM_VOCAB_PER_LAYER, /* rows of the table of per-layer embeddings */
    DIM_LAUREL,          /* columns between the two matrices beside attention */
    DIM_STREAMS,         /* parallel residual streams */
    DIM_STREAMS_ADDED,   /* streams besides the first */
    DIM_STREAMS_PAIRS,   /* pairs of streams */
    DIM_DELTA_QKV,       /* 2 × key heads × key size + value heads × value size */
    DIM_DELTA_QKVZ,      /* DIM_DELTA_QKV + DIM_DELTA_V */
    DIM_DELTA_V,         /* value heads × value size */
    DIM_DELTA_HEAD,      /* value size */
    DIM_DELTA_HEADS,     /* value heads */
    DIM_DELTA_HEADS_2,   /* twice DIM_DELTA_HEADS */
    DIM_DELTA_TAPS,
    DIM_TARGETS,    /* draft heads: the widths of the hidden states that they read, together */
    DIM_HEAD_VOCAB, /* draft heads: tokens that they can predict */
    DIM_TARGET,     /* draft heads: width of the other model */
    DIM_TARGET_2,   /* twice DIM_TARGET */
    DIM_CLUSTERS,   /* draft heads: clusters of tokens; 0: there are none */
};

enum arch_slot_flags {
    SLOT_OPTIONAL = 1 << 0,     /* the file may lack the weight */
    SLOT_WHOLE = 1 << 1,        /* the weight is outside the layers */
    SLOT_TABLE = 1 << 2,        /* a token reads one row of it */
    SLOT_F32 = 1 << 3,          /* a small matrix that is decoded to F32, as all vectors are */
    SLOT_AS_STORED = 1 << 4,    /* a norm whose stored weights are used unchanged, even with
                                   norms_add_one */
    SLOT_GATED = 1 << 5,        /* only models with gated units have it (hparams_embed.gated) */
    SLOT_NOT_IN_FIRST = 1 << 6, /* layer 0 may lack the weight */
};

/* The layers that have a weight. A mask of 0 stands for all layers. The first three bits are about
 * attention, and the others about experts. If a mask has bits of both kinds, a layer has the weight
 * only if it matches a bit of each kind. */
enum arch_layers {
    IN_ATTENTION = 1 << 0, /* layers with attention, with or without a window */
    IN_RECURRENT = 1 << 1,
    IN_OWN_KV = 1 << 2, /* layers with attention that have keys and values of their own */

    IN_DENSE = 1 << 4,  /* layers without experts */
    IN_SPARSE = 1 << 5, /* layers with experts */

    IN_PREDICTS = 1 << 6, /* only the layer that predicts a further token */
};

/* One row of the table of an architecture's weights. */
struct arch_slot {
    uint16_t id; /* enum slot (model/slots.h). SLOT_ABSENT: the row only gives a name to a tensor
                    that the architecture itself binds */
    const char *gguf; /* name after "blk.0.", or the whole name (SLOT_WHOLE); NULL: the weight is
                         always a part of another tensor (part_of) */
    const char *hf;   /* name in Hugging Face layout after "model.layers.0.", or after "model.".
                         "*" stands for the number of an expert. NULL: there is no such tensor, or
                         the description has a function hf_name */
    const char *hf_2; /* another such name, or NULL */
    enum arch_dim rows, cols;
    enum arch_dim experts; /* number of matrices; DIM_NONE: one */
    unsigned flags;        /* enum arch_slot_flags */
    unsigned in;           /* enum arch_layers */
    /* The slot of a larger weight of which this weight may be a part; its row comes earlier in the
     * table. The parts follow each other in the order of the table. 0: there is no such slot. */
    uint16_t part_of;
};

enum arch_field_kind {
    FIELD_COUNT,  /* uint32_t */
    FIELD_NUMBER, /* float */
    FIELD_FLAG,   /* bool */
    FIELD_ACT,    /* enum graph_act; its name */
};

enum arch_field_flags {
    FIELD_IN_GGUF = 1 << 0, /* GGUF files must have the key */
    FIELD_IN_HF = 1 << 1,   /* config.json must have the key */
    FIELD_ZERO = 1 << 2,    /* a new GGUF file has the key even if the count is 0 */
};

/* One hyperparameter, with its keys in both formats. If the file lacks the key, the hyperparameter
 * keeps the value that it has already, or gets `absent` if it has none. */
struct arch_field {
    size_t offset; /* in struct hparams */
    enum arch_field_kind kind;
    const char *gguf;      /* key after "<architecture>."; NULL: GGUF has no such key */
    const char *hf, *hf_2; /* keys of config.json; the second key is used if the first is missing */
    double absent;
    unsigned flags; /* enum arch_field_flags */
    /* COUNT: 1 + the offset in struct hparams_layer; the value may be a list with one count for
     * each layer. NUMBER: the value must be a list with one number for each layer. The
     * hyperparameter of the model gets the largest value. 0: no list. */
    size_t layer;
    /* COUNT without a GGUF key: the number of rows of this tensor of a GGUF file; or NULL. */
    const char *gguf_rows;
};

#define FIELD(member)       offsetof(struct hparams, member)
#define FIELD_LAYER(member) (1 + offsetof(struct hparams_layer, member))

/* A key of a feature that changes the results and is not supported. A file that has the key is
 * refused, unless the value is null, false, an empty list, or the number `neutral`. */
struct arch_refused {
    const char *key;
    double neutral;
};

/* A key of config.json that other programs need, although its value is the same in all models. */
struct arch_constant {
    const char *key;
    uint32_t x;
};

/* The keys that say which layers have an attention window. */
struct arch_window {
    const char *hf_key;      /* NULL: "sliding_window" */
    uint32_t absent;         /* the window if config.json does not have the key */
    bool switched;           /* the keys of the window apply only if use_sliding_window is set */
    const char *hf_full_key; /* key of the number of layers at the beginning that have no window;
                                ignored if there is a list of layers; NULL: there is no such key */
    bool both;               /* the window in the file counts the tokens on both sides */
    /* Without a list of layers: one layer of each group of `every` layers has no window. 0: all
     * layers have a window. */
    uint32_t every;
    bool first; /* the layer without a window is the first of its group, not the last */
    const char *hf_every_key, *hf_every_key_2; /* keys for `every`; NULL: there are none */
    /* The base of the rotation in layers with a window. 0: it is the same in all layers. */
    float theta;
    const char *hf_theta_key; /* old key of this base; NULL: there is none */
};

enum arch_class_flags {
    CLASS_BIAS_QKV = 1 << 0,       /* q, k and v always have biases */
    CLASS_ATTENTION_BIAS = 1 << 1, /* the key attention_bias applies */
    CLASS_MLP_BIAS = 1 << 2,       /* the key mlp_bias applies */
    CLASS_TEXT_CONFIG = 1 << 3,    /* the keys of the language model may be in text_config */
    CLASS_PARTIAL_ROPE = 1 << 4,   /* partial_rotary_factor applies */
    CLASS_CLASSIFIES = 1 << 5,
    CLASS_LATE = 1 << 6, /* late interaction, with one dense layer whose tensor gives its width */
    CLASS_TIED = 1 << 7, /* tie_word_embeddings is true if the key is missing */
    CLASS_NO_HEAD = 1 << 8,  /* the head is not used */
    CLASS_QKV_BIAS = 1 << 9, /* the key qkv_bias applies, and is true if it is missing */
    CLASS_MXFP4 = 1 << 10,   /* the experts may be in MXFP4 */
    CLASS_PART = 1 << 11,    /* the language model of a larger class, whose name a new config.json
                                has instead */
};

/* A class of transformers (architectures[0] of config.json), and the defaults of its
 * configuration. */
struct arch_class {
    const char *name, *model_type; /* model_type NULL: the class is found only by its name */
    uint32_t n_kv_heads;           /* 0: the number of heads */
    uint32_t head_dim;             /* 0: hidden_size / heads */
    uint32_t n_ctx;
    float partial;                    /* partial_rotary_factor; 0: 1 */
    float theta;                      /* 0: 10000 */
    const char *theta_key;            /* old key of the base; NULL: "rope_theta" */
    unsigned flags;                   /* enum arch_class_flags */
    unsigned kind;                    /* a number for hf_extra */
    const struct arch_window *window; /* NULL: the keys of windows do not apply */
    const struct arch_field *fields;  /* fields with other defaults than those of the */
    size_t n_fields;                  /* description; [n_fields] */
};

/* A name of the architecture in GGUF files (general.architecture). */
struct arch_gguf {
    const char *name;
    enum rope_style rope_style;
    bool gated;   /* encoders with gated units */
    bool experts; /* a new file has this name if the model has experts */
};

enum arch_source { ARCH_GGUF, ARCH_HF };

struct arch_desc {
    const char *name;
    bool encoder;      /* attention is bidirectional, and the model computes vectors */
    bool layer_norms;  /* norms subtract the mean */
    bool recurrent;    /* some layers may be recurrent */
    bool draft_head;   /* the model drafts tokens for another model */
    bool reads_layers; /* draft heads: files name the layers of the other model that they read */
    bool both_ways;    /* draft heads: rows attend in both directions, so "is_causal" is false */
    const struct arch_gguf *ggufs; /* [n_ggufs] */
    size_t n_ggufs;
    const struct arch_class *classes; /* [n_classes] */
    size_t n_classes;
    /* Fields besides those that all decoders have (format/fields.c). Keys that a field reads are
     * not refused. */
    const struct arch_field *fields; /* [n_fields] */
    size_t n_fields;
    /* Keys that are refused, besides those that are refused in all files. Keys of GGUF have no
     * prefix. */
    const struct arch_refused *refused_gguf, *refused_hf;
    size_t n_refused_gguf, n_refused_hf;
    const struct arch_constant *constants; /* [n_constants] */
    size_t n_constants;
    const struct arch_window *window; /* for GGUF; NULL: a window applies to all layers */
    const struct arch_slot *slots;    /* [n_slots] */
    size_t n_slots;
    /* GGUF files hold the weights as the model binds them, except for the differences that
     * convert/source-order.c handles. So a directory can be converted to a GGUF file
     * (convert/source-model.c). */
    bool plain_gguf;
    /* Prefixes of the names, without "model.", of tensors that are not needed for texts. The list
     * ends with NULL. */
    const char *const *unused;
    /* Fills in what the other fields determine. Called after the fields were read, and before
     * hparams_check(). The number of layers is valid. May be NULL. */
    int (*finish)(struct hparams *hp, enum arch_source source, struct inf_err *reterr);
    /* Turns hyperparameters of a directory into those of a new GGUF file: reverses what `finish`
     * does. May be NULL. */
    void (*to_gguf)(struct hparams *hp);
    /* The same for the hyperparameters of a GGUF file and a new config.json. */
    void (*to_hf)(struct hparams *hp);
    /* Reads settings of config.json that no table describes; one of the functions below, or NULL.
     */
    int (*hf_extra)(const struct hf_reader *r, const struct arch_class *class, struct hparams *hp);
    bool own_positions; /* hf_extra also reads the settings of positions */
    /* Converts the names of tensors in Hugging Face layout, if the names in the slots do not
     * suffice; one of the functions below, or NULL. @out has HF_NAME_MAX bytes. */
    bool (*hf_name)(const struct arch_desc *desc, const char *name, char *out);
};

struct arch_list {
    const struct arch_desc *const *descs; /* [n] */
    size_t n;
};

#define ARCH_TABLE(field, table) .field = (table), .n_##field = sizeof(table) / sizeof((table)[0])

/* Functions for hf_extra. The kinds are those of hf_extra_bert(). */
enum bert_kind {
    BERT_PLAIN,
    BERT_ROBERTA, /* position numbers start after the id of the padding token */
    BERT_NOMIC,
    BERT_GTE, /* Alibaba's own class "New", and its port in transformers */
};
int hf_extra_bert(const struct hf_reader *r, const struct arch_class *class, struct hparams *hp);
int hf_extra_modern(const struct hf_reader *r, const struct arch_class *class, struct hparams *hp);
int hf_extra_gemma(const struct hf_reader *r, const struct arch_class *class, struct hparams *hp);
int hf_extra_eagle3(const struct hf_reader *r, const struct arch_class *class, struct hparams *hp);
int hf_extra_dflash(const struct hf_reader *r, const struct arch_class *class, struct hparams *hp);
int hf_extra_assistant(const struct hf_reader *r, const struct arch_class *class,
                       struct hparams *hp);
int hf_extra_jina(const struct hf_reader *r, const struct arch_class *class, struct hparams *hp);
/* Functions for hf_name. They do what hf_name() in format/hf/names.h does. The names of
 * encoders have many spellings. The names of jina-embeddings-v4 include adapters: the low-rank
 * matrices of "blk.0.attn_q.weight" are "blk.0.attn_q.lora_a.TASK" and "….lora_b.TASK". */
bool hf_name_eagle3(const struct arch_desc *desc, const char *name, char *out);
bool hf_name_encoder(const struct arch_desc *desc, const char *name, char *out);
bool hf_name_jina(const struct arch_desc *desc, const char *name, char *out);
