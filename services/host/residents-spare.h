/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A spare is a model that made room for another one, and whose files stay open for a while.
 *
 * Its engine is freed, but its vocabulary stays in memory, and its weights stay mapped. If the
 * model is requested again, its files need not be read again, and the pages of its weights need not
 * be entered into the page tables again. This is most of the work of switching between two models.
 *
 * Spares count in the budget of the host's memory, and are freed before any resident. A pool
 * without a budget has no spares. All functions run on the loop, except resident_spares_free(),
 * which the loader calls as well.
 */

#include <stdint.h>

struct inf_model;
struct resident;
struct resident_spare;
struct residents;

enum {
    RESIDENT_SPARES = 4, /* the largest number of spares */
};

/* How long a spare stays. Until then, the disk space of a removed model is not free. */
#define RESIDENT_SPARE_USEC ((uint64_t)2 * 60 * 1000000)

/* Keeps the model of the resident, which is unloaded for another one, as a spare. Does nothing if
 * there is no budget, or if memory is short. */
void resident_spare_keep(const struct resident *resident);
/* Takes the spare that was opened from the files of the resident, if they have not changed since.
 * The caller owns the reference that is returned. NULL: there is no such spare. */
struct inf_model *resident_spare_take(const struct resident *resident);
/* Removes the oldest spares until at most RESIDENT_SPARES are left, which fit into the budget
 * beside the @host_bytes of the residents. @heir gets the removed spares, and frees them when it is
 * loaded. */
void residents_spare_trim(struct residents *pool, struct resident *heir, uint64_t host_bytes);
/* Frees the spares that have stayed for RESIDENT_SPARE_USEC. Returns the time until the next one is
 * freed; UINT64_MAX: there is none. */
uint64_t residents_spare_expire(struct residents *pool);
/* Frees the spares of that name; NULL: all. */
void residents_spare_drop(struct residents *pool, const char *name);
/* Frees a list. */
void resident_spares_free(struct resident_spare *first);
