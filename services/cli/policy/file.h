/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads policies from files instead of the built-in ones, for people who write a policy. */

#include "common/confine/policy.h"

/*
 * Reads seccomp/NAME.yaml at @path. Its fragments are in fragments/ beside it, or the built-in ones
 * are used. Its paths are in ../landlock/NAME.yaml, or it has none.
 */
int policy_file_load(const char *path, struct policy **ret_policy, struct inf_err *reterr);
