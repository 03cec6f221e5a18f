// SPDX-License-Identifier: Apache-2.0
#ifndef ROWS_GLSL
#define ROWS_GLSL

// Defines which rows a product multiplies.
//
// Without EXPERTS, row m of y is the product of row m of x and the matrix. With EXPERTS, each row of the step has
// a slot for each expert that is selected for it. Each slot is a row of y, the product with the matrix of its
// expert. x has a row for each slot, or one for each row of the step. Binding 6 (lib/access.glsl) is then the
// route, which has the selected experts.

#ifdef EXPERTS

IN_U32(6, route)

uint rows_expert = 0; // the expert of the row, counted from the first bound matrix

// Returns the number of rows of y.
uint rows_of_y()
{
    return step_rows(push.rows_kept) * push.slots;
}

// Returns the number of rows of x.
uint rows_of_x()
{
    return step_rows(push.rows_kept) * (push.x_slots != 0 ? push.slots : 1);
}

// Returns the row of x for row @m of y.
uint rows_from(uint m)
{
    return push.x_slots != 0 ? m : m / push.slots;
}

// Begins row @m of y. Returns false if another dispatch computes the row.
bool rows_begin(uint m)
{
    if (m >= rows_of_y())
        return false;
    rows_expert = route[(2 * (m / push.slots) + 1) * push.slots + m % push.slots] - push.first_expert;
    return rows_expert < push.n_experts;
}

uint rows_matrix(bool second)
{
    return rows_expert * (second ? push.expert_bytes2 : push.expert_bytes);
}

// Returns the first element of the expert's vector in the biases.
uint rows_bias()
{
    return (push.first_expert + rows_expert) * push.ld_y;
}

#else

uint rows_of_y()
{
    return step_rows(push.rows_kept);
}

uint rows_of_x()
{
    return step_rows(push.rows_kept);
}

uint rows_from(uint m)
{
    return m;
}

bool rows_begin(uint m)
{
    return true;
}

uint rows_matrix(bool second)
{
    return 0;
}

uint rows_bias()
{
    return 0;
}

#endif
#endif
