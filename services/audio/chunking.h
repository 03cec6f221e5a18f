/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Parses `chunking_strategy`, which says how a request handles silence, as in OpenAI's API.
 *
 * Its value is "auto", or an object: {"type": "server_vad", "threshold": 0.5, "prefix_padding_ms":
 * 300, "silence_duration_ms": 200}. Clients send the object as one field of the form, or as one
 * field for each member.
 */

#include <infer/types.h>

struct audio_params;

/* Parses an object that was sent as one field. -EINVAL with the reason; -ENOMEM. */
int chunking_parse(struct audio_params *params, const char *text, size_t len,
                   struct inf_err *reterr);
/* Sets the member @name of the object from text. -EINVAL with the reason. */
int chunking_set(struct audio_params *params, const char *name, const char *value,
                 struct inf_err *reterr);
