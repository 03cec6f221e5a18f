/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Detects voice activity: computes the probability that somebody speaks.
 *
 * The network is Silero VAD (version 5 and later, 16 kHz). Every 512 samples, with the 64 before
 * them, become four spectra. Four convolutions turn these spectra into one vector. A recurrent cell
 * combines this vector with its state, and the result is one number. The weights are read from a
 * file of the network's authors (silero_vad_16k.safetensors) or of whisper.cpp
 * (ggml-silero-v6.2.0.bin).
 */

#include <infer/types.h>

#include "core/macros.h"

enum {
    VAD_CHUNK = 512,  /* samples per step */
    VAD_CONTEXT = 64, /* samples at the end of the previous step, which a step uses again */
    VAD_STATE = 128,
};

struct vad_model;

/* The memory of the network for one signal. It must be zeroed before the first step. */
struct vad_state {
    float context[VAD_CONTEXT];
    float hidden[VAD_STATE], cell[VAD_STATE];
};

/* Loads the network from a file. @cpu: flags of core/cpu.h. Returns 0, an error of opening the
 * file, -EBADMSG if the file is not a Silero VAD model, or -ENOMEM. */
int vad_model_open(const char *path, unsigned cpu, struct vad_model **ret_model,
                   struct inf_err *reterr);
struct vad_model *vad_model_close(struct vad_model *model);
DEFINE_CLEANUP(struct vad_model *, vad_model_close);

/* Returns the probability, 0…1, of speech in @samples, the next VAD_CHUNK samples. The caller pads
 * a shorter last chunk with zeros. Several threads may use a model at the same time, but only one
 * thread may use a state. */
float vad_step(const struct vad_model *model, struct vad_state *state, const float *samples);
