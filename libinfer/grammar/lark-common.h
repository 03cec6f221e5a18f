/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The terminals that "%import common.NAME" makes known. */

#include "core/macros.h"

/* Returns the regular expression of a terminal; NULL: there is none of this name. */
const char *lark_common(const char *name, size_t len);
