/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Makes the ids of calls of tools. */

#include "chat/reply/format.h"

#define CALL_ID_SIZE 192

/* Writes an id into @ret_id, [CALL_ID_SIZE]. @written is the id that the model wrote, or NULL.
 * @written is used only for the style ID_KIMI. */
void call_id_make(enum id_style style, const char *written, size_t len, char *ret_id);
