/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Voice activity detection: the probability that somebody speaks
 *
 * Silero VAD (version 5 and later, 16 kHz). Every 512 samples, with the 64 before them, become four
 * spectra. Four convolutions turn these into one vector, a recurrent cell adds memory, and the
 * result is one number. The weights are a file as its authors publish it
 * (silero_vad_16k.safetensors) or one of whisper.cpp (ggml-silero-v6.2.0.bin).
 */

#include <infer/types.h>

#include "core/macros.h"

enum {
    VAD_CHUNK = 512,  /* samples per step */
    VAD_CONTEXT = 64, /* samples before them that a step uses again */
    VAD_STATE = 128,
};

struct vad_model;

/* Memory of a signal. Zeroed at its start. */
struct vad_state {
    float context[VAD_CONTEXT];
    float hidden[VAD_STATE], cell[VAD_STATE];
};

/* @cpu: flags of core/cpu.h. -ENOENT…; -EBADMSG: the file is not such a model; -ENOMEM. */
int vad_model_open(const char *path, unsigned cpu, struct vad_model **ret_model,
                   struct inf_err *reterr);
struct vad_model *vad_model_close(struct vad_model *model);
DEFINE_CLEANUP(struct vad_model *, vad_model_close);

/* The probability, 0…1, of speech in the next VAD_CHUNK samples; a shorter last chunk is padded
 * with zeros. Several threads may use the model, but only one thread a state. */
float vad_step(const struct vad_model *model, struct vad_state *state, const float *samples);
