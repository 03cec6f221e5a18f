/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the internals of format.h: the data that the readers of the formats fill in. */

#include "core/arena.h"
#include "core/map.h"
#include "format/format.h"
#include "format/gguf/gguf.h"
#include "format/hf/safetensors.h"
#include "format/whisper/config.h"

struct format_pair {
    const char *key, *value;
};

struct format {
    const char *kind; /* static */
    struct arena arena;
    const struct arch_list *archs; /* what the caller can compute */
    const struct arch_desc *desc;  /* NULL: there are no hyperparameters */
    struct hparams hp;
    const struct format_tensor **tensors; /* [n_tensors], in the arena or in gguf */
    size_t n_tensors;
    struct map map; /* maps a canonical name to an index into tensors */
    struct gguf *gguf;
    char *dir;
    struct safetensors **shards; /* [n_shards] */
    size_t n_shards;
    struct ggml_bin *bin;
    struct whisper_config *whisper;    /* NULL: the model is not a Whisper model */
    char dense[HPARAMS_MAX_DENSE][96]; /* files of the dense layers after the pooling, relative to
                                          dir; "": the layer is among the other tensors */
    const char *chat_template;         /* NULL: none */
    size_t chat_template_len;
    struct format_pair *meta; /* [n_meta], in the arena */
    size_t n_meta;
};

/* format_reserve() makes room for @n tensors; after that, each call of format_add() adds one
 * tensor. -EBADMSG: there is already a tensor with this name. */
int format_reserve(struct format *f, size_t n, struct inf_err *reterr);
int format_add(struct format *f, const struct format_tensor *t, struct inf_err *reterr);

/* Returns whether a file has the name of pickled weights of PyTorch, and refuses such a file. */
bool format_is_pickle(const char *path);
int format_refuse_pickle(const char *name, struct inf_err *reterr);

/* Read a model of each kind. @f is zeroed except for kind; if a function fails, the caller frees
 * @f. */
int format_read_gguf(struct format *f, const char *path, unsigned flags, struct inf_err *reterr);
int format_read_dir(struct format *f, const char *path, unsigned flags, struct inf_err *reterr);
int format_read_bin(struct format *f, const char *path, struct inf_err *reterr);
/* whisper/files.c: format_read_whisper_config() fills f->whisper from config.json and the files
 * beside it. format_add_whisper_tensors() adds all tensors of the shards, which must be open. */
int format_read_whisper_config(struct format *f, const json_t *config, struct inf_err *reterr);
int format_add_whisper_tensors(struct format *f, struct inf_err *reterr);
/* These functions detect and read a Whisper model in a GGUF file, f->gguf, that contains only
 * tensors, with the names of Hugging Face (candle writes such files). The configuration is in files
 * beside the GGUF file. -EOPNOTSUPP: these files are missing. */
bool format_is_whisper_gguf(const struct format *f);
int format_read_whisper_gguf(struct format *f, const char *path, struct inf_err *reterr);
/* hf/modules.c: fills f->hp.embed and f->dense from modules.json of f->dir, if it exists. */
int format_read_modules(struct format *f, struct inf_err *reterr);
/* hf/adapters.c: sets the rank and scale of the tasks of f->hp.embed, if there are any. */
int format_read_adapters(struct format *f, struct inf_err *reterr);
/* hf/template.c: finds the chat template of f->dir. */
int format_read_dir_template(struct format *f, struct inf_err *reterr);
