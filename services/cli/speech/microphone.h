/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sound of a microphone, recorded by a program of the system: 16 kHz, mono, 16 bits
 *
 * A thread takes what the program writes. Ctrl-C ends the recording and not this program; a second
 * one ends that as well.
 */

#include <infer/types.h>

#include "core/macros.h"

enum { MICROPHONE_RATE = 16000 };

struct microphone;

/* Begins to record, for @seconds unless it is 0. One at a time. -ENOENT: no program that records is
 * installed. */
int microphone_open(unsigned seconds, struct microphone **ret_microphone, struct inf_err *reterr);
/* Ends the recording. NULL is fine; returns NULL. */
struct microphone *microphone_close(struct microphone *mic);
DEFINE_CLEANUP(struct microphone *, microphone_close);

/* Waits until there are @n samples, or there will be no more, which it returns. */
bool microphone_wait(struct microphone *mic, uint64_t n, uint64_t *ret_n);
/* Samples @first … @first + @n - 1 as a WAV file in memory, which the caller closes. */
int microphone_wav(struct microphone *mic, uint64_t first, uint64_t n, int *ret_fd,
                   uint64_t *ret_size);
/* Samples before @n are wanted no more. */
void microphone_forget(struct microphone *mic, uint64_t n);
