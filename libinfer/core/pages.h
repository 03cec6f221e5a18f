/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Pages of memory whose content nobody needs, or will need soon. */

#include <stddef.h>

/* Gives back the whole pages of private memory between @p and @p + @size: they read as zero and
 * cost nothing until they are touched. */
void pages_drop(void *p, size_t size);
