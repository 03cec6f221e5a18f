/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Voice activity: how likely it is that somebody speaks
 *
 * Silero VAD (version 5 and later, 16 kHz): every 512 samples, with the 64 before them, become four
 * spectra; four convolutions make one vector of them, a recurrent cell remembers, and one number
 * comes out. Its weights are a file as its authors publish it (silero_vad_16k.safetensors) or one
 * of whisper.cpp (ggml-silero-v6.2.0.bin).
 */

#include <infer/types.h>

#include "core/macros.h"

enum {
    VAD_CHUNK = 512,  /* samples of one step */
    VAD_CONTEXT = 64, /* samples before them that a step looks at again */
    VAD_STATE = 128,
};

struct vad_model;

/* What is remembered of a signal. Zeroed at its start. */
struct vad_state {
    float context[VAD_CONTEXT];
    float hidden[VAD_STATE], cell[VAD_STATE];
};

/* @cpu: flags of core/cpu.h. -ENOENT…, -EBADMSG when the file is no such model, -ENOMEM. */
int vad_model_open(const char *path, unsigned cpu, struct vad_model **ret_model,
                   struct inf_err *reterr);
struct vad_model *vad_model_close(struct vad_model *model);
DEFINE_CLEANUP(struct vad_model *, vad_model_close);

/* The probability, 0…1, that there is speech in the next VAD_CHUNK samples; a shorter last chunk is
 * filled up with zeros. The model may be used by several threads, a state by one. */
float vad_step(const struct vad_model *model, struct vad_state *state, const float *samples);
