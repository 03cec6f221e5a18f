/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Gives the kernel hints about memory pages. */

#include <stddef.h>

#define PAGES_HUGE ((size_t)2 << 20)

/* Says that these pages are used densely and should be huge pages. */
void pages_hint_huge(void *p, size_t size);
/* Returns the whole pages of private memory between @p and @p + @size to the system. They read as
 * zero and use no memory until they are written again. */
void pages_drop(void *p, size_t size);
