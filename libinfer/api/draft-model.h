/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Opens the draft model of an engine (sched/drafter.h). */

#include "api/handle.h"

/* Returns whether the kind of drafts that @p names uses a draft model. */
bool draft_model_is_used(const struct inf_engine_params *p);
/* Checks that the draft model of @p can draft for the model: it generates text, its state can go
 * back to an earlier token, and its tokens are those of the model. -EINVAL or -EOPNOTSUPP, with the
 * reason. */
int draft_model_check(const struct inf_engine_params *p, struct inf_err *reterr);
/* Returns the part of the bytes of keys and values that the draft model gets, so that both models
 * hold the same number of tokens; 0: no draft model is used. */
double draft_model_share(const struct inf_engine_params *p);
/* Adds the draft model of @p to an engine that has not started. @base: the setup of the engine's
 * model. @room: the bytes of keys and values of the draft model, unless @p gives a size for both
 * models. Returns the errors of setup_runner_on(). */
int draft_model_attach(struct inf_engine *engine, const struct inf_engine_params *p,
                       const struct setup *base, uint64_t room, struct inf_err *reterr);
