/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Policies that are being written: files instead of those that are built in. */

#include "common/confine/policy.h"

/*
 * Reads seccomp/NAME.yaml at @path. Its fragments stand in fragments/ beside it, or are those that
 * are built in; its paths stand in ../landlock/NAME.yaml, or it has none.
 */
int policy_file_load(const char *path, struct policy **ret_policy, struct inf_err *reterr);
