// SPDX-License-Identifier: Apache-2.0
#ifndef ACT_GLSL
#define ACT_GLSL

// Defines the activation functions, in the order of enum graph_act.

#include "lib/math.glsl"

const uint ACT_SILU = 0, ACT_GELU_TANH = 1, ACT_GELU_ERF = 2, ACT_RELU2 = 3, ACT_TANH = 4, ACT_SIGMOID = 5,
           ACT_LINEAR = 6, ACT_SWIGLU_LIMITED = 7;

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

float act_sigmoid(float x)
{
    return 1.0 / (1.0 + exp_any(-x));
}

// Returns the activation of x; ACT_SWIGLU_LIMITED is only for act_gated().
float act_apply(uint act, float x)
{
    return act == ACT_SILU        ? act_silu(x)
           : act == ACT_GELU_TANH ? act_gelu_tanh(x)
           : act == ACT_GELU_ERF  ? act_gelu_erf(x)
           : act == ACT_RELU2     ? act_relu2(x)
           : act == ACT_TANH      ? tanh_any(x)
           : act == ACT_SIGMOID   ? act_sigmoid(x)
                                  : x;
}

// Returns @limit if x is larger, and NaN if x is NaN.
float act_at_most(float x, float limit)
{
    return x > limit ? limit : x;
}

// Returns the gated unit: the activation of the gate x, times u. ACT_SWIGLU_LIMITED limits both factors.
float act_gated(uint act, float x, float u)
{
    if (act != ACT_SWIGLU_LIMITED)
        return act_apply(act, x) * u;

    const float g = act_at_most(x, 7.0);
    const float limited = act_at_most(u, 7.0);

    return g / (1.0 + exp_any(-1.702 * g)) * ((limited < -7.0 ? -7.0 : limited) + 1.0);
}

#endif
