/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Opens what drafts tokens for an engine (sched/drafter.h): a draft model, a draft head, or the
 * layer of the engine's model that predicts a further token. */

#include "api/handle.h"

/* Returns how messages name a draft head that makes drafts of the kind @kind ("a draft head of
 * EAGLE-3"); NULL: there are no such heads. */
const char *draft_head_name(const char *kind);
/* Returns whether the kind of drafts that @p names uses a draft model. */
bool draft_model_is_used(const struct inf_engine_params *p);
/* Chooses the graph of the engine's model: one that exports hidden states if a draft head or the
 * model's own predicting layer drafts. Sets setup->graph, and with a head setup->pair. -EINVAL: @p
 * requires the predicting layer, but the model has none; -EOPNOTSUPP: the device @b cannot compute
 * a graph that @p requires. */
int draft_choose_graph(const struct inf_engine_params *p, struct backend *b, struct setup *setup,
                       struct inf_err *reterr);
/* Returns the part of the bytes of keys and values that the drafter gets, so that the model and the
 * drafter hold the same number of tokens; 0: there is no drafter. */
double draft_share(const struct inf_engine_params *p, const struct setup *setup);
/* Adds the drafter of @p to an engine that has not started, if there is one. @base: the setup of
 * the engine's model. @room: the bytes of keys and values of the drafter, unless @p gives a size
 * for both. Returns the errors of setup_runner_on(). */
int draft_attach(struct inf_engine *engine, const struct inf_engine_params *p,
                 const struct setup *base, uint64_t room, struct inf_err *reterr);
