/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Opens what drafts tokens for an engine (sched/drafter.h): a draft model, or the layer of the
 * engine's model that predicts a further token. */

#include "api/handle.h"

/* Returns whether the kind of drafts that @p names uses a draft model. */
bool draft_model_is_used(const struct inf_engine_params *p);
/* Decides whether the layer of the model that predicts a further token drafts, and sets
 * setup->graph. -EINVAL: @p names this kind of drafts, but the model has no such layer;
 * -EOPNOTSUPP: the device @b cannot compute it. */
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
