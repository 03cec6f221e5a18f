// SPDX-License-Identifier: Apache-2.0
#ifndef ACT_GLSL
#define ACT_GLSL

// Defines the activation functions, in the order of enum graph_act.

#include "lib/math.glsl"

const uint ACT_SILU = 0, ACT_GELU_TANH = 1, ACT_GELU_ERF = 2, ACT_RELU2 = 3;

float act_silu(float x)
{
    return x / (1.0 + exp_any(-x));
}

// Returns x × (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2, with (1 + tanh(u)) / 2 computed as 1 / (1 + e^-2u).
float act_gelu_tanh(float x)
{
    return x / (1.0 + exp_any(-1.5957691 * fma(0.044715 * x * x, x, x)));
}

// Returns x × Φ(x). For a ≥ 0, Φ(-a) is e^(-a²/2) t times a polynomial in t = 1 / (1 + 0.35 a): the minimax
// polynomial up to a = 14, with a relative error of 3e-8 before rounding.
float act_gelu_erf(float x)
{
    const float a = abs(x), t = 1.0 / fma(a, 0.35, 1.0);
    float p = -0.029145924;

    p = fma(p, t, 0.14397167);
    p = fma(p, t, -0.25571418);
    p = fma(p, t, 0.15917407);
    p = fma(p, t, -0.023109775);
    p = fma(p, t, 0.10550798);
    p = fma(p, t, 0.11983287);
    p = fma(p, t, 0.13986187);
    p = fma(p, t, 0.1396214);

    const float tail = exp_down(-0.5 * a * a) * t * p;

    return x * (x < 0.0 ? tail : 1.0 - tail);
}

float act_relu2(float x)
{
    return x > 0.0 ? x * x : x < 0.0 ? 0.0 : x;
}

float act_apply(uint act, float x)
{
    return act == ACT_SILU        ? act_silu(x)
           : act == ACT_GELU_TANH ? act_gelu_tanh(x)
           : act == ACT_GELU_ERF  ? act_gelu_erf(x)
                                  : act_relu2(x);
}

#endif
