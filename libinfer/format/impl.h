/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Inside of format.h: what the readers fill in. */

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
    struct hparams hp;
    const struct format_tensor **tensors; /* [n_tensors] in the arena or inside gguf */
    size_t n_tensors;
    struct map map; /* canonical name → index */
    struct gguf *gguf;
    char *dir;
    struct safetensors **shards; /* [n_shards] */
    size_t n_shards;
    struct ggml_bin *bin;
    struct whisper_config *whisper;    /* NULL: another model */
    char dense[HPARAMS_MAX_DENSE][96]; /* files of the layers behind the pooling */
    const char *chat_template;         /* NULL: none */
    size_t chat_template_len;
    struct format_pair *meta; /* [n_meta], in the arena */
    size_t n_meta;
};

/* Makes room for @n tensors, then takes them one by one; -EBADMSG for a name that is there. */
int format_reserve(struct format *f, size_t n, struct inf_err *reterr);
int format_add(struct format *f, const struct format_tensor *t, struct inf_err *reterr);

/* The three readers; @f is zeroed but for kind, and freed by the caller if they fail. */
int format_read_gguf(struct format *f, const char *path, unsigned flags, struct inf_err *reterr);
int format_read_dir(struct format *f, const char *path, unsigned flags, struct inf_err *reterr);
int format_read_bin(struct format *f, const char *path, struct inf_err *reterr);
/* whisper/files.c: f->whisper from config.json and what lies beside it; then all tensors of the
 * shards, which are open. */
int format_read_whisper_config(struct format *f, const json_t *config, struct inf_err *reterr);
int format_add_whisper_tensors(struct format *f, struct inf_err *reterr);
/* The same of a GGUF file, f->gguf, that has the tensors as Hugging Face calls them and tells
 * nothing else, as candle has them: the rest lies beside it. -EOPNOTSUPP when it does not. */
bool format_is_whisper_gguf(const struct format *f);
int format_read_whisper_gguf(struct format *f, const char *path, struct inf_err *reterr);
/* hf/modules.c: f->hp.embed, and f->dense, from modules.json of f->dir, where it is. */
int format_read_modules(struct format *f, struct inf_err *reterr);
/* hf/adapters.c: the rank and scale of f->hp.embed's tasks, where it has any. */
int format_read_adapters(struct format *f, struct inf_err *reterr);
/* hf/template.c: finds the chat template of f->dir. */
int format_read_dir_template(struct format *f, struct inf_err *reterr);
