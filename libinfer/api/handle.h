/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Defines struct inf_model and struct inf_engine for the files of api/. graph/state.h explains the
 * groups of a model's state (FULL, WINDOW, RECURRENT), kv/pool.h snapshots, infer/tier.h tiers, and
 * backend/backend.h plans. */

#include <stdatomic.h>

#include <infer/engine.h>
#include <infer/model.h>

#include "format/format.h"
#include "model/model.h"
#include "model/whisper-model.h"
#include "sched/sched.h"
#include "tokenizer/tokenizer.h"

/* The largest size of the name of a number format of keys and values, and of a list that
 * setup_kv_numbers() writes, each with the final 0 byte. */
#define KV_NAME_MAX    4096u
#define KV_NUMBERS_MAX 8192u

struct inf_model {
    atomic_uint n_refs;
    struct format *format;         /* NULL: a single tokenizer file */
    struct model *model;           /* NULL: only the vocabulary, or Whisper */
    struct whisper_model *whisper; /* NULL: not a Whisper model */
    struct inf_tokenizer *tok;
    struct inf_chat_template *tmpl;
    const struct file_map **maps; /* [n_maps] files of the weights */
    size_t n_maps;
    struct inf_model_info info;
    char dtype_text[64];
    char template_error[INF_ERR_BYTES];
};

/* embed.c: checks whether the model can serve @use, a purpose of embedders: vectors of texts,
 * vectors of tokens, or scores. Returns the same errors as inf_model_suits(). */
int embed_check(struct inf_model *m, enum inf_model_use use, struct inf_err *reterr);

/* Returns -EINVAL, with the reason in @reterr, for a model that neither generates nor encodes
 * text. */
int model_refuse_text(const struct inf_model *m, struct inf_err *reterr);

/* Returns -EINVAL, with the reason in @reterr, if one of the @n tokens is not in the vocabulary. */
int model_check_tokens(const struct inf_model *m, const int32_t *tokens, size_t n,
                       struct inf_err *reterr);

/* Returns the files of the weights. An engine, embedder or transcriber checks them for changes. */
static inline struct file_set model_files(const struct inf_model *m)
{
    return (struct file_set){.maps = m->maps, .n = m->n_maps};
}

struct inf_engine {
    struct inf_model *model;
    struct inf_model *draft_model; /* NULL: none */
    struct sched *sched;
    char codec[96];
    char kv_name[KV_NAME_MAX]; /* the number format of keys and values */
    const char *kv_automatic;  /* the format that "auto" meant when the engine was made; static */
};

/* Adds the tier of @p to an engine that has not started, if the device can use a tier. -ENOMEM. */
int attach_tier(struct inf_engine *engine, const struct inf_engine_params *p,
                struct inf_err *reterr);

/* The graph that a runner computes. */
enum setup_graph {
    SETUP_MODEL,     /* model_build() */
    SETUP_EXPORTING, /* model_build_exporting() */
    SETUP_PREDICTOR, /* model_build_predictor() */
    SETUP_TAPPED,    /* model_build_tapped() */
    SETUP_HEAD,      /* model_build_head() */
};

/* Requirements of a new runner (sched/runner.h: a model that is ready to run on a device), and the
 * resources that the runner may use. */
struct setup {
    const char *device, *cache_dir, *isa, *kv_type;
    bool cache_read_only;
    bool cpu_else;           /* as in inf_engine_params */
    uint64_t device_bytes;   /* limit of memory to use on a device with its own memory; 0: all */
    uint64_t reserved_bytes; /* bytes of this memory that a draft model will use */
    bool shares_backend;     /* the backend belongs to another runner */
    struct kv_pool *pool;    /* of another runner, for the graph of an assistant; else NULL */
    enum setup_graph graph;
    const struct inf_model *pair; /* SETUP_TAPPED: the draft head. SETUP_HEAD: the model for which
                                     it drafts. Else NULL. */
    uint32_t n_threads;
    uint32_t n_ctx;    /* positions per sequence */
    uint32_t n_blocks; /* blocks of each FULL group; 0: as many as one sequence needs */
    /* Blocks of the other groups. 0: a WINDOW group has as many blocks as a FULL group, and a
     * RECURRENT group has one for each sequence. */
    uint32_t other_blocks[STATE_GROUPS_MAX];
    uint32_t max_rows, max_logits, max_seqs;
    const struct product_watch *watch; /* as in struct backend_params; NULL: none */
};

/* Computes the layout of the KV cache of a model with the graph @graph, without numbers of blocks.
 * A graph that names no groups of state has one FULL group. If @kv_type is NULL or "auto", models
 * with F32 weights, which serve as references, use F32, and other models use F16. -EINVAL: unknown
 * type; -EOPNOTSUPP: the model does not allow the type. */
int setup_layout_of_graph(const struct inf_model *model, const struct graph *graph,
                          const char *kv_type, struct kv_layout *ret_layout,
                          struct inf_err *reterr);
/* Writes the names of the number formats of @layout to @out, which has room for @size bytes
 * (KV_NUMBERS_MAX is enough). All layers with formats of their own are listed. @both: writes the
 * formats of keys and of values of the other layers even if they are equal. */
void setup_kv_numbers(const struct kv_layout *layout, bool both, char *out, size_t size);
/* Builds the graph of a model that @setup names in `graph` and `pair`. Returns the errors of the
 * function that builds it. */
int setup_graph(const struct inf_model *model, const struct setup *setup, struct graph **ret_graph,
                struct inf_err *reterr);
/* Like setup_layout_of_graph(), for the graph and the type that @setup names. */
int setup_layout(const struct inf_model *model, const struct setup *setup,
                 struct kv_layout *ret_layout, struct inf_err *reterr);
/* Like setup_layout_of_graph(), for the graph that model_build() makes. */
int setup_kv_layout(const struct inf_model *model, const char *kv_type,
                    struct kv_layout *ret_layout, struct inf_err *reterr);
/* Returns the memory of a text, in bytes. */
struct inf_kv_size setup_layout_size(const struct kv_layout *layout);
/* Returns the memory of a text of @n_tokens tokens, in bytes; see struct inf_kv_size. */
uint64_t setup_text_bytes(const struct kv_layout *layout, uint64_t n_tokens);
/* Returns the first FULL group of the state (graph/state.h), or group 0 if there is none. */
uint32_t setup_main_group(const struct kv_layout *layout);
/* Returns 0 if the device supports keys and values in @layout, else -EOPNOTSUPP. */
int setup_kv_check(struct backend *backend, const struct kv_layout *layout, struct inf_err *reterr);
/* Returns the default size of a KV cache in bytes. On a device without memory of its own, the size
 * is a quarter of the machine's memory. On other devices, the size is the memory that the model
 * leaves free, but at least a quarter of the device's memory. */
uint64_t setup_kv_room(struct backend *backend, const struct inf_model *model,
                       const struct setup *setup);
/* Chooses the number of blocks of WINDOW and RECURRENT groups, and sets it in @layout and @setup. A
 * WINDOW group gets blocks for the windows of all sequences and for the rows of a step, and some
 * for windows of earlier texts. A RECURRENT group gets a block for each sequence, and more for
 * snapshots. A WINDOW or RECURRENT group gets at most a quarter of the bytes to which
 * setup_kv_size() limits the pool, unless one sequence needs more. */
void setup_other_blocks(const struct inf_engine_params *p, uint64_t room, struct setup *setup,
                        struct kv_layout *layout);
/* Sets in @setup the number of blocks of the FULL groups of a KV pool, on a device that holds at
 * most @max_blocks blocks of a group. @layout has the numbers of blocks of the other groups. @room
 * limits the bytes of the pool, unless @p requests another size or an n_ctx that needs more.
 * If @p does not request an n_ctx, reduces that of @setup if necessary. -EINVAL: the sizes that @p
 * requests do not fit. */
int setup_kv_size(const struct inf_engine_params *p, const struct kv_layout *layout, uint64_t room,
                  uint64_t max_blocks, struct setup *setup, struct inf_err *reterr);
/* Returns whether a KV cache in @layout of the size that @p requests, or else of @room bytes, holds
 * a sequence of n_ctx tokens. The limit of blocks of @backend counts, too; NULL: there is no such
 * limit. */
bool setup_kv_fits(const struct inf_engine_params *p, const struct kv_layout *layout,
                   struct backend *backend, uint64_t room, const struct setup *setup);
/* serve.c: returns in *ret_setup what the parameters of an engine require. -EINVAL: a number is out
 * of range. */
int setup_of_engine(const struct inf_engine_params *p, struct setup *ret_setup,
                    struct inf_err *reterr);
/* kv-choice.c: finds the number format that "auto" means for an engine on @backend whose KV cache
 * has at most @room bytes by default. *ret_type: static. -EINVAL, -ENOMEM. */
int kv_choice_of_engine(const struct inf_engine_params *p, struct backend *backend, uint64_t room,
                        const struct setup *setup, const char **ret_type, struct inf_err *reterr);
int setup_backend(const struct setup *setup, struct backend **ret_backend, struct inf_err *reterr);
/* fit.c: opens a device as setup_backend() does, for a model. -EOPNOTSUPP: the device cannot
 * compute the model. If @setup allows it, returns the CPU instead of this error. */
int setup_backend_for(const struct inf_model *model, const struct setup *setup,
                      struct backend **ret_backend, struct inf_err *reterr);
/* Returns the bytes of a device's own memory that a model may use; UINT64_MAX: the device has no
 * memory of its own. */
uint64_t setup_memory(struct backend *backend, const struct setup *setup);
/* Returns an estimate of the bytes that a plan needs besides weights and KV cache. */
uint64_t setup_spare(void);
/* If a device has too little memory for all layers, uses the CPU together with the device, or
 * instead of it. Returns the same errors as backend_new(). */
int setup_fit(struct backend **backend, const struct setup *setup, const struct graph *g,
              const struct kv_layout *layout, const struct plan_limits *limits,
              struct inf_err *reterr);
/* Compiles a runner on *@backend, and takes ownership of the backend on success. -EINVAL: the model
 * has no weights, a name in @setup is unknown, or the device is too small for n_ctx. backend_new()
 * and setup_kv_layout() describe the other errors. */
int setup_runner_on(struct backend **backend, const struct inf_model *model,
                    const struct setup *setup, struct runner **ret_runner, struct inf_err *reterr);
/* Like setup_runner_on(), with a new backend. */
int setup_runner(const struct inf_model *model, const struct setup *setup,
                 struct runner **ret_runner, struct inf_err *reterr);
