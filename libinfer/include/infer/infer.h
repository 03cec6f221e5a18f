/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_INFER_H
#define INFER_INFER_H

/* libinfer: local inference for Linux services. This header includes all other public headers. */

#include <infer/audio.h>
#include <infer/bench.h>
#include <infer/chat.h>
#include <infer/convert.h>
#include <infer/device.h>
#include <infer/embed.h>
#include <infer/engine.h>
#include <infer/grammar.h>
#include <infer/histogram.h>
#include <infer/kv.h>
#include <infer/model.h>
#include <infer/sampling.h>
#include <infer/tier.h>
#include <infer/tokenizer.h>
#include <infer/types.h>

#endif
