/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads policies from files, for people who write a policy; all other code uses the built-in
 * policies. */

#include "common/confine/policy.h"

/*
 * Reads the policy seccomp/NAME.yaml at @path. Fragments are read from the directory fragments/
 * beside this file; if a fragment is not there, the built-in fragment of this name is used. The
 * paths of the policy are read from ../landlock/NAME.yaml; without this file the policy allows no
 * paths.
 */
int policy_file_load(const char *path, struct policy **ret_policy, struct inf_err *reterr);
