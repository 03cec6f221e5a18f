#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds checkkern with the kernels of AArch64 and runs it under qemu-user: on a CPU without the dot
# product instructions, and on a CPU with them and with products of int8 matrices. Exits with 77
# (skipped) if there is no cross compiler or no qemu. With SCONCE_TEST_FULL the kernels are fully
# optimized. ARM64_CC and ARM64_RUN name another compiler and another emulator. The
# script passes its arguments to checkkern.
set -eu

cc=${ARM64_CC:-aarch64-linux-gnu-gcc}
run=${ARM64_RUN:-qemu-aarch64}
command -v "$cc" >/dev/null && command -v "$run" >/dev/null || {
    echo "skipped: no $cc or no $run"
    exit 77
}

src=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

lib=$src/libinfer
kernels=$lib/backend/cpu
# Optimizing takes most of the time. Without it, gcc also warns about variables that are always set.
level="-O1 -Wno-maybe-uninitialized"
[ -z "${SCONCE_TEST_FULL-}" ] || level=-O3
flags="-std=gnu17 -D_GNU_SOURCE -fno-math-errno -fno-strict-aliasing -ffp-contract=off"
flags="$flags -fno-tree-reassoc -fno-tree-ter -fno-schedule-insns -Wall -Wextra -Werror $level"
flags="$flags -Wno-missing-field-initializers -DSCONCE_VERSION=\"test\""

# A family of kernels has a reference, a file that selects a variant, and one file per ISA level.
base=
for ref in "$kernels"/*/*-ref.c; do
    base="$base $ref ${ref%-ref.c}.c"
done
# shellcheck disable=SC2086
compile() {
    args=$1
    shift
    for file; do
        "$cc" $flags $args -I"$lib" -I"$lib/include" -I"$src/tests" \
            -I"$src/tests/checkkern" -c "$file" \
            -o "$work/$(basename "$file").o"
    done
}
# shellcheck disable=SC2086
compile "" $base "$kernels"/*/*-neon.c "$kernels"/matmul/matmul-coded.c \
    "$kernels"/matmul/matmul-pack.c "$kernels"/matmul/matmul-prepare.c "$src"/tests/checkkern/*.c
for file in "$lib"/quant/*.c; do
    case $file in *-avx2.c | *-avx512.c) continue ;; esac # encoders for x86-64
    compile "" "$file"
done
# The check of routing runs a graph on the device "cpu".
compile "" "$lib"/graph/*.c "$kernels"/exec/*.c "$lib"/backend/kv-layout.c
for file in "$lib"/core/*.c; do
    # Kernels need no hashes, and the libraries that hashes need are not installed for AArch64.
    case ${file##*/} in sha256.c | sum.c) continue ;; esac
    compile "" "$file"
done
compile "-march=armv8.2-a+dotprod" "$kernels"/*/*-dotprod.c
compile "-march=armv8.2-a+dotprod+i8mm" "$kernels"/*/*-i8mm.c
"$cc" -static -o "$work/checkkern" "$work"/*.o -lm -lpthread

"$run" -cpu cortex-a53 "$work/checkkern" --rung neon "$@"
"$run" -cpu max "$work/checkkern" --rung dotprod "$@"
"$run" -cpu max "$work/checkkern" --rung i8mm "$@"
