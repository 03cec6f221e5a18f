/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides which models make room for another one.
 *
 * A model needs a place, which residents.max_models limits, and memory of the machine and of the
 * device, which the budgets limit. If a model would not fit even after all models except the pinned
 * ones were unloaded, it is refused, and nothing is unloaded for it. Otherwise models without users
 * make room, the least recently used one first. If these do not suffice, the model waits. When it
 * has waited for RESIDENT_PATIENCE_USEC, the models with users that have been in memory for the
 * longest time get no new users, so that the waiting model gets its turn.
 */

#include "host/residents.h"

#define RESIDENT_PATIENCE_USEC (2 * 1000000u)

/* residents.c: takes the resident out of the list pool->first, if it is there. */
void resident_unlink(struct resident *resident);
/* Sets the memory that the resident will get: as much as it wants, or less if the budget and the
 * pinned models leave less, but at least what it needs. -EINVAL: they leave too little memory, or
 * no place; @problem says what is missing. */
int resident_settle(struct resident *resident, struct problem *problem);
/* Removes residents until @heir has room; they are freed when it is loaded. False: there is no room
 * now, and none was removed. */
bool residents_make_room(struct residents *pool, struct resident *heir);
