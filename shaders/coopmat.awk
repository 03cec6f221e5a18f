# SPDX-License-Identifier: Apache-2.0
#
# Replaces the types of cooperative matrices in SPIR-V, which is given as one hexadecimal word per line.
#
# shaders/matmul/coopmat.glsl specifies the floats of a cooperative matrix by their width, because parameters
# of spirv_type are numbers. This script replaces the width with the type. It also moves the types of floats
# before all other types, so that they are defined before they are used. A module without cooperative
# matrices keeps its meaning.

function value(hex,    i, v)
{
    for (i = 1; i <= length(hex); i++)
        v = 16 * v + index("0123456789abcdef", substr(hex, i, 1)) - 1
    return v
}

# The first word of an instruction contains its number of words and its opcode.
function size_of(hex)
{
    return value(substr(hex, 1, 4))
}

function opcode_of(hex)
{
    return value(substr(hex, 5, 4))
}

BEGIN {
    TYPE_VOID = 19
    TYPE_FLOAT = 22
    TYPE_FORWARD_POINTER = 39
    TYPE_COOPMAT = 4456
}

{
    word[NR] = $1
}

END {
    for (i = 6; i <= NR; i += size_of(word[i])) {
        op = opcode_of(word[i])
        if (op == TYPE_FLOAT)
            type[value(word[i + 2])] = word[i + 1]
        if (!first && op >= TYPE_VOID && op < TYPE_FORWARD_POINTER)
            first = i
    }
    for (i = 1; i <= 5; i++)
        print word[i]
    for (i = 6; i <= NR; i += n) {
        n = size_of(word[i])
        op = opcode_of(word[i])
        if (i == first)
            for (width in type)
                printf "00030016\n%s\n%08x\n", type[width], width
        if (op == TYPE_FLOAT)
            continue
        if (op == TYPE_COOPMAT)
            word[i + 2] = type[value(word[i + 2])]
        for (j = i; j < i + n; j++)
            print word[j]
    }
}
