/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Records sound from a microphone, with a program of the system: 16 kHz, mono, 16 bits.
 *
 * A thread reads the output of the recording program. The first Ctrl-C ends only the recording; a
 * second Ctrl-C ends this program.
 */

#include <infer/types.h>

#include "core/macros.h"

enum { MICROPHONE_RATE = 16000 };

struct microphone;

/* Starts recording, for @seconds or, if that is 0, without a limit. There can be only one recording
 * at a time. -ENOENT: no recording program is installed. */
int microphone_open(unsigned seconds, struct microphone **ret_microphone, struct inf_err *reterr);
/* Stops the recording. Accepts NULL; returns NULL. */
struct microphone *microphone_close(struct microphone *mic);
DEFINE_CLEANUP(struct microphone *, microphone_close);

/* Waits until there are @n samples or the recording has ended. Returns true if it has ended.
 * *ret_n: number of samples. */
bool microphone_wait(struct microphone *mic, uint64_t n, uint64_t *ret_n);
/* Makes a WAV file in memory from @n samples, beginning with sample @first. The caller closes the
 * descriptor. */
int microphone_wav(struct microphone *mic, uint64_t first, uint64_t n, int *ret_fd,
                   uint64_t *ret_size);
/* Frees the samples before @n. */
void microphone_forget(struct microphone *mic, uint64_t n);
