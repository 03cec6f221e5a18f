/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Opens the draft model of an engine (sched/drafter.h). */

#include "api/handle.h"

/* Returns whether the kind of drafts that @p names uses a draft model. */
bool draft_model_is_used(const struct inf_engine_params *p);
/* Returns the part of the bytes of keys and values that the draft model gets, so that both models
 * hold the same number of tokens; 0: no draft model is used. */
double draft_model_share(const struct inf_engine_params *p);
/* Adds the draft model of @p to an engine that has not started. @base: the setup of the engine's
 * model. @room: the bytes of keys and values of the draft model, unless @p gives a size for both
 * models. Returns the errors of setup_runner_on(). */
int draft_model_attach(struct inf_engine *engine, const struct inf_engine_params *p,
                       const struct setup *base, uint64_t room, struct inf_err *reterr);
