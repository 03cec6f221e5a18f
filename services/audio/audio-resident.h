/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Struct audio_resident is a speech model in memory with its transcriber (see residents.h). */

#include <infer/audio.h>

#include "host/residents.h"

struct audio_resident {
    struct resident base;
    struct inf_transcriber *transcriber;
};

/* audio_residents_ops.stats fills a struct inf_transcriber_stats. A model has only one resident. */
extern const struct residents_ops audio_residents_ops;

static inline struct audio_resident *audio_resident_of(const struct resident *resident)
{
    return CONTAINER_OF(resident, struct audio_resident, base);
}
