// SPDX-License-Identifier: Apache-2.0
#ifndef COOPMAT_GLSL
#define COOPMAT_GLSL

// Defines cooperative matrices, whose elements are distributed over a subgroup (SPV_KHR_cooperative_matrix).
//
// The SPIR-V instructions are declared one by one, so that compilers without GL_KHR_cooperative_matrix can
// compile this file. The first parameter of a type is the width of its floats; shaders/coopmat.awk replaces
// the width with the type. FRAGMENT is the number of rows and of columns of a matrix, and so the number of
// products in a sum. Matrices are loaded from arrays whose elements contain several elements of the matrix;
// pitches count elements of the array.

#pragma use_vulkan_memory_model

#define COOPMAT_TYPE(width, use)                                                                   \
    spirv_type(extensions = ["SPV_KHR_cooperative_matrix"], capabilities = [6022], id = 4456,      \
               width, (3u), (FRAGMENT), (FRAGMENT), (use))
#define coopmat_a   COOPMAT_TYPE(16, 0u)
#define coopmat_b   COOPMAT_TYPE(16, 1u)
#define coopmat_sum COOPMAT_TYPE(32, 2u)

const uint COOPMAT_ROWS = 0, COOPMAT_COLUMNS = 1; // whether rows or columns are contiguous in memory

// Matrices are loaded from shared memory and stored there. The last two operands of these instructions make the
// barriers of the workgroup order them like ordinary accesses to shared memory. Without the operands a compiler
// may move the instructions across barriers.
#define COOPMAT_LOADED 48, 2u // MakePointerVisible and NonPrivatePointer; the scope, a workgroup
#define COOPMAT_STORED 40, 2u // MakePointerAvailable and NonPrivatePointer; the scope, a workgroup
#define COOPMAT_PLACE(type) spirv_by_reference type place, uint order, uint pitch
#define COOPMAT_ORDERED     spirv_literal uint access, uint scope

spirv_instruction(id = 4457) coopmat_a coopmat_read_a(COOPMAT_PLACE(f16vec2), COOPMAT_ORDERED);
spirv_instruction(id = 4457) coopmat_b coopmat_read_b(COOPMAT_PLACE(f16vec2), COOPMAT_ORDERED);
spirv_instruction(id = 4458) void coopmat_write(spirv_by_reference float place, coopmat_sum m,
                                                uint order, uint pitch, COOPMAT_ORDERED);
#define coopmat_load_a(from, order, pitch)  coopmat_read_a(from, order, pitch, COOPMAT_LOADED)
#define coopmat_load_b(from, order, pitch)  coopmat_read_b(from, order, pitch, COOPMAT_LOADED)
#define coopmat_store(to, m, order, pitch)  coopmat_write(to, m, order, pitch, COOPMAT_STORED)
// The same for arrays of 4 binary16 numbers, and of 2 floats, each of which can also contain 2 binary16 numbers.
spirv_instruction(id = 4457) coopmat_b coopmat_read_b4(COOPMAT_PLACE(f16vec4), COOPMAT_ORDERED);
spirv_instruction(id = 4457) coopmat_a coopmat_read_a2(COOPMAT_PLACE(vec2), COOPMAT_ORDERED);
spirv_instruction(id = 4457) coopmat_sum coopmat_read_sum2(COOPMAT_PLACE(vec2), COOPMAT_ORDERED);
spirv_instruction(id = 4458) void coopmat_write2(spirv_by_reference vec2 place, coopmat_sum m,
                                                 uint order, uint pitch, COOPMAT_ORDERED);
#define coopmat_load_b4(from, order, pitch)   coopmat_read_b4(from, order, pitch, COOPMAT_LOADED)
#define coopmat_load_a2(from, order, pitch)   coopmat_read_a2(from, order, pitch, COOPMAT_LOADED)
#define coopmat_load_sum2(from, order, pitch) coopmat_read_sum2(from, order, pitch, COOPMAT_LOADED)
#define coopmat_store2(to, m, order, pitch)   coopmat_write2(to, m, order, pitch, COOPMAT_STORED)
// Returns a × b + c.
spirv_instruction(id = 4459) coopmat_sum coopmat_add(coopmat_a a, coopmat_b b, coopmat_sum c);
// Returns the products of the elements of a and b at the same place.
spirv_instruction(id = 133) coopmat_sum coopmat_multiply(coopmat_sum a, coopmat_sum b);
// Returns a matrix whose elements are all @x.
spirv_instruction(id = 80) coopmat_sum coopmat_fill(float x);

#endif
