#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What tests/run.sh tests, built one after the other into BUILD_ROOT (build-tests):
#
#   tests/build.sh [--idle] NAME...
#
#   gcc    with gcc, as people have it
#   asan   with clang under ASan and UBSan, the fuzzers too
#   tsan   with clang under TSan
#   debs   the Debian packages of the last commit, in debs-RELEASE, and roots to install them in
#
# --idle leaves the processors to whoever else wants them. What is wrong is printed and left in
# NAME.out; NAME.status has the exit status when NAME is through.
set -u
cd "$(dirname "$0")/.." || exit 2
BUILD_ROOT=${BUILD_ROOT:-$PWD/build-tests}
mkdir -p "$BUILD_ROOT"

if [ "${1-}" = --idle ]; then
    shift
    idle="chrt --idle 0"
    $idle true 2>/dev/null || idle="nice -n 19"
    # The kernel may weigh sessions before it looks at what runs in them.
    exec setsid sh -c 'echo 19 2>/dev/null >/proc/self/autogroup; exec "$@"' sh \
        $idle sh tests/build.sh "$@"
fi

# compile NAME COMPILER OPTION...: configures once and builds; false when that fails, or warns.
compile() {
    dir=$BUILD_ROOT/$1
    cc=$2
    shift 2
    if [ ! -f "$dir/build.ninja" ]; then
        CC=$cc CXX=true meson setup "$dir" . "$@" >"$dir.log" 2>&1 || {
            tail -n 30 "$dir.log"
            return 1
        }
    fi
    ninja -C "$dir" -j "$(nproc)" >"$dir.log" 2>&1 || {
        grep -E 'error|FAILED|undefined' "$dir.log" | head -n 40
        return 1
    }
    ! grep -E 'warning:' "$dir.log"
}

build() {
    case $1 in
    gcc) compile gcc gcc -Dtests=enabled ;;
    asan)
        compile asan clang -Dtests=enabled -Dfuzz=true -Dconfinement=off -Db_sanitize=address,undefined \
            -Db_lundef=false
        ;;
    tsan) compile tsan clang -Dtests=enabled -Dconfinement=off -Db_sanitize=thread -Db_lundef=false ;;
    debs) BUILD_ROOT=$BUILD_ROOT python3 tests/e2e/systemd/packages.py ;;
    *)
        echo "build.sh: there is no $1" >&2
        return 2
        ;;
    esac
}

bad=0
for name; do
    build "$name" >"$BUILD_ROOT/$name.out" 2>&1
    status=$?
    cat "$BUILD_ROOT/$name.out"
    echo "$status" >"$BUILD_ROOT/$name.status.part"
    mv "$BUILD_ROOT/$name.status.part" "$BUILD_ROOT/$name.status"
    [ "$status" -eq 0 ] || bad=1
done
exit "$bad"
