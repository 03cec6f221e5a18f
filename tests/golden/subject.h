/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs a whole model on a device that the test chooses.
 */

#include "backend/backend.h"
#include "model/model.h"

enum { SUBJECT_PROMPT = 24, SUBJECT_TOKENS = 80 };

/* Names of the models in tests/golden/models; NULL at the end. */
extern const char *const subject_names[];

struct subject {
    struct format *f;
    struct model *m;
    struct graph *graph;
};

/* Reads the file @name of a model's directory. The caller frees the result. */
void *subject_read(const char *dir, const char *name, size_t *ret_size);

void subject_open(struct subject *s, const char *path);
/* Opens the model @name, which is one of subject_names. */
void subject_open_golden(struct subject *s, const char *name);
void subject_close(struct subject *s);
/* Returns the layout of a KV cache in half precision, which most models use. */
struct kv_layout subject_layout(const struct subject *s);
uint32_t subject_n_vocab(const struct subject *s);

/* Computes a prompt in chunks, and then the most likely tokens one by one. Takes ownership of
 * @backend. @logits: the logits of all rows, [SUBJECT_TOKENS, n_vocab]. */
void subject_tell(const struct subject *s, struct backend *backend,
                  int32_t tokens[SUBJECT_TOKENS + 1], float *logits);
/* Opens the CPU with two threads, or another device; NULL if this machine does not have the
 * device. */
struct backend *subject_cpu(void);
struct backend *subject_device(const char *name);
