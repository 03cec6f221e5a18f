/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Public traces of requests to language models, as chains of blocks
 *
 * Two formats are read, both one JSON object a line, both with hashes of the prompt's blocks in
 * place of its text: Mooncake's (timestamp, input_length, output_length, hash_ids; 512 tokens a
 * block) and Qwen-Bailian's (chat_id, parent_chat_id, timestamp, input_length, output_length, type,
 * turn, hash_ids; 16 tokens a block). The first line tells which.
 *
 * A block is numbered by its hash and by the block before it, as the service names blocks, so equal
 * numbers stand for equal prefixes.
 */

#include <stdio.h>

#include <infer/types.h>

#include "core/macros.h"

#define TRACE_NO_BLOCK UINT32_MAX

struct trace_request {
    uint64_t first; /* in trace.chain */
    uint32_t n;     /* blocks */
};

struct trace {
    const char *format;    /* "mooncake", "qwen" */
    uint32_t block_tokens; /* 512, 16 */
    struct trace_request *requests;
    uint64_t n_requests;
    uint32_t *chain; /* numbers of blocks, request after request */
    uint64_t n_chain;
    uint32_t *parents; /* [n_blocks], TRACE_NO_BLOCK: it begins a chain */
    uint32_t n_blocks; /* different ones */
};

/* @partial: also the last block of a prompt where its tokens do not fill it. The service never
 * keeps such. A line that is not of the format: -EINVAL and its number; -EIO, -ENOMEM. */
int trace_read(FILE *f, bool partial, struct trace **ret_trace, struct inf_err *reterr);
/* The requests from @from up to @to, with numbers of their own. -ENOMEM. */
int trace_slice(const struct trace *t, uint64_t from, uint64_t to, struct trace **ret_trace);
struct trace *trace_free(struct trace *t);
DEFINE_CLEANUP(struct trace *, trace_free)
