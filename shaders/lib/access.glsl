// SPDX-License-Identifier: Apache-2.0
#ifndef ACCESS_GLSL
#define ACCESS_GLSL

// Defines the access to the slots of kernels.
//
// Slot i is the storage buffer at binding i, and its texel view is at binding 10 + i. Inputs of 16 bytes
// are functions: IN_U4(0, w) defines w(i), the i-th uvec4 of slot 0; IN_F4(2, x) defines x(i), the i-th
// vec4 of slot 2. With TEXEL these inputs are read through the views, which is several times as fast on
// software devices. All other slots are arrays in storage buffers: OUT_F32(3, y) declares float y[]. A slot
// may be declared in several shapes.
//
// shaders/embed.sh finds the names slot_u4_… and slot_f4_… in the preprocessed source, and records for
// the host which views a kernel needs.

#ifdef TEXEL

#define IN_U4(slot, name)                                                                          \
    layout(set = 0, binding = 10 + slot) uniform utextureBuffer slot_u4_##name;                    \
    uvec4 name(uint i)                                                                             \
    {                                                                                              \
        return texelFetch(slot_u4_##name, int(i));                                                 \
    }

#define IN_F4(slot, name)                                                                          \
    layout(set = 0, binding = 10 + slot) uniform textureBuffer slot_f4_##name;                     \
    vec4 name(uint i)                                                                              \
    {                                                                                              \
        return texelFetch(slot_f4_##name, int(i));                                                 \
    }

#else

#define IN_U4(slot, name)                                                                          \
    layout(set = 0, binding = slot, std430) readonly buffer slot_u4_##name                         \
    {                                                                                              \
        uvec4 slot_u4_v_##name[];                                                                  \
    };                                                                                             \
    uvec4 name(uint i)                                                                             \
    {                                                                                              \
        return slot_u4_v_##name[i];                                                                \
    }

#define IN_F4(slot, name)                                                                          \
    layout(set = 0, binding = slot, std430) readonly buffer slot_f4_##name                         \
    {                                                                                              \
        vec4 slot_f4_v_##name[];                                                                   \
    };                                                                                             \
    vec4 name(uint i)                                                                              \
    {                                                                                              \
        return slot_f4_v_##name[i];                                                                \
    }

#endif

#define SLOT_ARRAY(slot, name, type, mode)                                                         \
    layout(set = 0, binding = slot, std430) mode buffer slot_##type##_##name                       \
    {                                                                                              \
        type name[];                                                                               \
    };

#define IN_F32(slot, name)    SLOT_ARRAY(slot, name, float, readonly)
#define IN_U32(slot, name)    SLOT_ARRAY(slot, name, uint, readonly)
#define OUT_F32(slot, name)   SLOT_ARRAY(slot, name, float, writeonly)
#define OUT_U32(slot, name)   SLOT_ARRAY(slot, name, uint, writeonly)
#define INOUT_F32(slot, name) SLOT_ARRAY(slot, name, float, )
#define INOUT_U32(slot, name) SLOT_ARRAY(slot, name, uint, )

// Kernels write vectors to storage buffers, also with TEXEL.
#define OUT_F4(slot, name)   SLOT_ARRAY(slot, name, vec4, writeonly)
#define OUT_U4(slot, name)   SLOT_ARRAY(slot, name, uvec4, writeonly)
#define INOUT_F4(slot, name) SLOT_ARRAY(slot, name, vec4, )

// These slots need GL_EXT_shader_16bit_storage or GL_EXT_shader_8bit_storage, and the explicit types.
#define IN_U16(slot, name)  SLOT_ARRAY(slot, name, uint16_t, readonly)
#define IN_U8(slot, name)   SLOT_ARRAY(slot, name, uint8_t, readonly)
#define OUT_U16(slot, name) SLOT_ARRAY(slot, name, uint16_t, writeonly)
#define OUT_U8(slot, name)  SLOT_ARRAY(slot, name, uint8_t, writeonly)

// One block of push constants for each kernel.
#define PUSH(type)                                                                                 \
    layout(push_constant, std430) uniform push_block                                               \
    {                                                                                              \
        type push;                                                                                 \
    };

#endif
