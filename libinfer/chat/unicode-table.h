/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Tables of unicode-table.c; each ends with a row of zeros. */

#include <stdint.h>

struct cp_range {
    uint32_t first, last;
};

struct cp_special {
    uint32_t cp, to[3];
};

extern const struct cp_range cp_digit_not_decimal[], cp_numeric_letter[], cp_other_lower[],
    cp_other_upper[];
extern const struct cp_special cp_special_upper[], cp_special_title[], cp_special_fold[];
