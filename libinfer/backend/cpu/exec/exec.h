/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares how the stages of a program (program.h) are run. */

#include "backend/cpu/exec/program.h"

/* Holds the state of one step, which all threads share. */
struct exec {
    const struct cpu_backend *cpu;
    struct plan *plan;
    struct kv_store *store;
    const struct batch *batch;
    float *logits;
    uint32_t n_tiles;
    bool one_row_each;   /* every sequence has one row, as in decoding */
    uint32_t begin, end; /* the stages begin … end - 1 are run */
};

/* exec.c */
int exec_run(struct backend *b, struct plan *plan, struct kv_store *store,
             const struct batch *batch, float *logits, struct top_row *tops);
/* Runs the stages up to the end of the next product. After the call, no thread uses the plan. */
int exec_run_part(struct backend *b, struct plan *plan, struct kv_store *store,
                  const struct batch *batch, float *logits, uint32_t *i_stage);
/* Returns row @row of a value. The caller must not write to rows of the graph's input. */
float *exec_row(const struct exec *x, graph_ref ref, uint32_t row);
/* Finds the share of thread @i_thread in @n rows or pieces of work: *ret_begin … *ret_end - 1. */
void exec_share(const struct exec *x, unsigned i_thread, uint32_t n, uint32_t *ret_begin,
                uint32_t *ret_end);
/* Claims one of the @n pieces of a stage: the next piece of thread @i_thread's share, or of another
 * thread's share if its own share has no piece left. Neighboring pieces are adjacent in memory.
 * Returns false if all are claimed. */
bool exec_claim(const struct exec *x, uint32_t i_stage, unsigned i_thread, uint32_t n,
                uint32_t *ret_piece);
unsigned char *exec_memory(const struct exec *x, unsigned i_thread);
uint32_t exec_rows(const struct exec *x, bool rows_kept);
/* exec-node.c: computes one operation on the rows of one thread */
void exec_embed(const struct exec *x, const struct stage *s, unsigned i_thread);
void exec_node(const struct exec *x, const struct stage *s, unsigned i_thread);
/* Rotates one head of row @row in place. */
void exec_rope(const struct exec *x, int i_rope, uint32_t row, float *head);
/* exec-store.c: stores one head of row @row. @half: a buffer for it, see struct thread_layout. */
void exec_store(const struct exec *x, enum kv_part part, struct state_place place, uint32_t i_head,
                uint32_t row, const float *head, void *half);
/* Returns whether the attention of this step stores the keys of a layer. If each sequence
 * has one row, a key in F16 has one element in each of many cache lines, which are not in the
 * cache. Attention reads these lines anyway, and has prefetched them when it stores the key. */
bool exec_keys_late(const struct exec *x, struct state_place place);
/* Keeps the key of one head of row @row until exec_store_late() stores it. */
void exec_keep_key(const struct exec *x, uint32_t i_head, uint32_t head_dim, uint32_t row,
                   const float *head);
void exec_store_late(const struct exec *x, struct state_place place, uint32_t i_head, uint32_t row);
/* exec-product.c */
/* Prepares row @i of the input of a product for each kind in s->acts. @row: a buffer for the row.
 * @to: where the prepared rows are written. */
void exec_prepare_row(const struct exec *x, const struct stage *s, uint32_t i, float *row,
                      unsigned char *const to[MATMUL_ACT_N]);
void exec_product(const struct exec *x, uint32_t i_stage, unsigned i_thread);
/* exec-experts.c */
/* Returns the bytes of memory for @n_slots sorted slots (struct value). A slot is one pair of a row
 * and an expert that the row uses. */
uint64_t exec_route_bytes(uint64_t n_slots, uint32_t n_experts);
void exec_route(const struct exec *x, const struct stage *s, unsigned i_thread);
void exec_experts(const struct exec *x, uint32_t i_stage, unsigned i_thread);
/* Returns the experts of the slots of row @row. */
uint32_t *exec_slot_experts(const struct exec *x, graph_ref route, uint32_t row);
/* Writes the weighted sum of the slots of row @row to @y. */
void exec_mix(const struct exec *x, const struct stage *s, uint32_t row, float *y);
/* Writes the columns of the slots of row @row to their places in @y (struct spread_params). */
void exec_spread(const struct exec *x, const struct stage *s, uint32_t row, float *y);
/* exec-watch.c: passes the input rows of a stage with products to the watch of the backend. Only
 * thread 0 may call it, before it computes the stage. */
void exec_watch(const struct exec *x, const struct stage *s);
/* exec-recurrent.c */
void exec_conv(const struct exec *x, uint32_t i_stage, unsigned i_thread);
void exec_delta(const struct exec *x, uint32_t i_stage, unsigned i_thread);
/* As accept() and max_drafted() of the backend (backend/backend.h). */
void exec_accept(struct backend *b, struct plan *plan, struct kv_store *store,
                 const struct batch *batch, const uint32_t *n_accepted);
uint32_t exec_max_drafted(const struct plan *plan, const struct kv_store *store);
/* exec-attn.c */
void exec_attention(const struct exec *x, uint32_t i_stage, unsigned i_thread);
