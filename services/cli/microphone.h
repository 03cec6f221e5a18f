/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sound of a microphone, recorded by a program of the system. */

#include <infer/types.h>

#include "core/macros.h"

/* Records until Ctrl-C, or for @seconds unless it is 0. *ret_fd is a WAV file in memory, which the
 * caller closes. -ENOENT: no program that records is installed; -ENODATA: it gave nothing. */
int microphone_record(unsigned seconds, int *ret_fd, uint64_t *ret_size, struct inf_err *reterr);
