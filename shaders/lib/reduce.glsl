// SPDX-License-Identifier: Apache-2.0
#ifndef REDUCE_GLSL
#define REDUCE_GLSL

// Defines reductions: sum, maximum and minimum.
//
// The functions lanes_…() reduce over a subgroup, team_…() over the workgroup. All invocations must
// call them. TEXEL is defined in the variants for software devices, where shared memory and
// barriers are expensive and a shuffle is one instruction. In these variants a workgroup is a
// single complete subgroup. Without TEXEL a workgroup may have up to 64 subgroups.

#ifdef TEXEL

#define LANES_REDUCE(name, type, operation)                                                        \
    type name(type x)                                                                              \
    {                                                                                              \
        for (uint o = 1; o < gl_SubgroupSize; o <<= 1) {                                           \
            const type a = x, b = subgroupShuffleXor(x, o);                                        \
                                                                                                   \
            x = operation;                                                                         \
        }                                                                                          \
        return x;                                                                                  \
    }

LANES_REDUCE(lanes_sum, float, a + b)
LANES_REDUCE(lanes_sum, uint, a + b)
LANES_REDUCE(lanes_max, float, max(a, b))
LANES_REDUCE(lanes_min, uint, min(a, b))

#define team_sum lanes_sum
#define team_max lanes_max

#else

#define lanes_sum subgroupAdd
#define lanes_max subgroupMax
#define lanes_min subgroupMin

shared float team_shared[64];

// Reduces over at most 64 subgroups. The first barrier waits until all invocations have read the
// previous result.
#define TEAM_REDUCE(name, within, operation)                                                       \
    float name(float x)                                                                            \
    {                                                                                              \
        float a = within(x);                                                                       \
                                                                                                   \
        if (gl_NumSubgroups == 1)                                                                  \
            return a;                                                                              \
        barrier();                                                                                 \
        if (subgroupElect())                                                                       \
            team_shared[gl_SubgroupID] = a;                                                        \
        barrier();                                                                                 \
        a = team_shared[0];                                                                        \
        for (uint i = 1; i < gl_NumSubgroups; i++) {                                               \
            const float b = team_shared[i];                                                        \
                                                                                                   \
            a = operation;                                                                         \
        }                                                                                          \
        return a;                                                                                  \
    }

TEAM_REDUCE(team_sum, subgroupAdd, a + b)
TEAM_REDUCE(team_max, subgroupMax, max(a, b))

#endif

#endif
