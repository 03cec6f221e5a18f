/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads public traces of requests to language models, as chains of blocks.
 *
 * Two formats are supported. Both have one JSON object per line, which has hashes of the blocks of
 * a prompt instead of its text. The format of Mooncake has 512 tokens per block and the members
 * timestamp, input_length, output_length and hash_ids. The format of Qwen-Bailian has 16 tokens per
 * block and the members chat_id, parent_chat_id, timestamp, input_length, output_length, type, turn
 * and hash_ids. The first line of a file decides which format it has.
 *
 * The number of a block depends on its hash and on the block before it, like the names of blocks in
 * the service. Therefore equal numbers mean equal prefixes.
 */

#include <stdio.h>

#include <infer/types.h>

#include "core/macros.h"

#define TRACE_NO_BLOCK UINT32_MAX

struct trace_request {
    uint64_t first; /* position in trace.chain */
    uint32_t n;     /* blocks */
};

struct trace {
    const char *format;    /* "mooncake", "qwen" */
    uint32_t block_tokens; /* 512, 16 */
    struct trace_request *requests;
    uint64_t n_requests;
    uint32_t *chain; /* numbers of blocks, request after request */
    uint64_t n_chain;
    uint32_t *parents; /* [n_blocks]; TRACE_NO_BLOCK: the block begins a chain */
    uint32_t n_blocks; /* number of different blocks */
};

/* Reads a trace. @partial includes the last block of a prompt even if its tokens do not fill it;
 * the service never stores such blocks. Errors: -EINVAL for a line in a wrong format, with its
 * number in *reterr; -EIO, -ENOMEM. */
int trace_read(FILE *f, bool partial, struct trace **ret_trace, struct inf_err *reterr);
/* Copies the requests from @from up to @to; their blocks get new numbers. Errors: -ENOMEM. */
int trace_slice(const struct trace *t, uint64_t from, uint64_t to, struct trace **ret_trace);
struct trace *trace_free(struct trace *t);
DEFINE_CLEANUP(struct trace *, trace_free)
