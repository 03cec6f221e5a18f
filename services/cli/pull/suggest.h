/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Recommends models for `sconce pull --suggest`. */

#include <infer/types.h>

#include "core/macros.h"

/* A model that is recommended for a task on machines with at least `memory` bytes. */
struct suggestion {
    const char *task;   /* "chat", "code", "embedding", "rerank" or "speech" */
    uint64_t memory;    /* bytes of memory that the machine should have */
    uint64_t size;      /* about how many bytes are fetched */
    const char *source; /* for `sconce pull` */
    const char *note;   /* for people */
};

/* Returns suggestion @i. The suggestions for a task follow each other, the smallest model first.
 * NULL: there are fewer suggestions. */
const struct suggestion *suggestion_at(size_t i);
/* Returns whether @s is the largest suggestion of its task for a machine with @memory bytes. */
bool suggestion_is_best(const struct suggestion *s, uint64_t memory);
/* Prints the list, or only the suggestions for @task if it is not NULL. Returns an exit status. */
int suggest_print(const char *task, bool json);
