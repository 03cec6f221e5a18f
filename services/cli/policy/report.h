/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Prints a policy as text for reviewers, or converts it to JSON for programs. */

#include <jansson.h>

#include "common/confine/policy.h"

struct policy_view {
    const char *service;
    const struct policy *policy;
    enum policy_phase phase;
    enum policy_arch arch;
};

void policy_print(const struct policy_view *view);
/* Makes the JSON object; NULL: out of memory. */
json_t *policy_json(const struct policy_view *view);
