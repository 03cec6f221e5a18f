/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the system is told about pages of memory. */

#include <stddef.h>

#define PAGES_HUGE ((size_t)2 << 20)

/* These pages are used densely: huge ones are welcome. */
void pages_hint_huge(void *p, size_t size);
/* Gives back the whole pages of private memory between @p and @p + @size: they read as zero and
 * cost nothing until they are touched. */
void pages_drop(void *p, size_t size);
