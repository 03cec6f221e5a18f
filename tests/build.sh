#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What tests/run.sh tests, built one after the other into BUILD_ROOT (build-tests):
#
#   tests/build.sh [--idle] NAME...
#
#   gcc    with gcc, as people have it
#   asan   with clang under ASan and UBSan: the services, their tests and the fuzzers
#   tsan   with clang under TSan: the tests of threads
#   debs   the Debian packages of the last commit, in debs-RELEASE, and roots to install them in
#
# --idle leaves the processors to whoever else wants them. What is wrong is printed and left in
# NAME.out, and so are the seconds of processor time that it took; NAME.status has the exit status
# when NAME is through.
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

# compile NAME COMPILER NEEDED OPTION...: configures once and builds what NEEDED asks of
# tests/lib/targets.py, or all; false when that fails, or warns.
compile() {
    dir=$BUILD_ROOT/$1
    cc=$2
    needed=$3
    shift 3
    if [ ! -f "$dir/build.ninja" ]; then
        CC=$cc CXX=true meson setup "$dir" . "$@" >"$dir.log" 2>&1 || {
            tail -n 30 "$dir.log"
            return 1
        }
    fi
    # shellcheck disable=SC2046,SC2086
    set -- $([ -z "$needed" ] || python3 tests/lib/targets.py "$dir" $needed)
    ninja -C "$dir" -j "$(nproc)" "$@" >"$dir.log" 2>&1 || {
        grep -E 'error|FAILED|undefined' "$dir.log" | head -n 40
        return 1
    }
    ! grep -E 'warning:' "$dir.log"
}

build() {
    case $1 in
    gcc) compile gcc gcc "" -Dtests=enabled ;;
    asan)
        compile asan clang "--suite unit --suite golden --suite checkkern --folder services
            --folder tests/audio --folder tests/fuzz" \
            -Dtests=enabled -Dfuzz=true -Dconfinement=off -Db_sanitize=address,undefined -Db_lundef=false
        ;;
    tsan)
        compile tsan clang "--suite threads" \
            -Dtests=enabled -Dvulkan=disabled -Dconfinement=off -Db_sanitize=thread -Db_lundef=false
        ;;
    debs) BUILD_ROOT=$BUILD_ROOT python3 tests/e2e/systemd/packages.py ;;
    *)
        echo "build.sh: there is no $1" >&2
        return 2
        ;;
    esac
}

# spend: $spent becomes the seconds of processor time of all that this shell has waited for.
spend() {
    times >"$BUILD_ROOT/times-$$"
    spent=$(awk 'NR == 2 { split($1, u, "m"); split($2, s, "m")
        print int((u[1] + s[1]) * 60 + u[2] + s[2]) }' "$BUILD_ROOT/times-$$")
    rm -f "$BUILD_ROOT/times-$$"
}

bad=0
for name; do
    spend
    before=$spent
    build "$name" >"$BUILD_ROOT/$name.out" 2>&1
    status=$?
    spend
    echo "$name: $((spent - before)) s of processor time" >>"$BUILD_ROOT/$name.out"
    cat "$BUILD_ROOT/$name.out"
    echo "$status" >"$BUILD_ROOT/$name.status.part"
    mv "$BUILD_ROOT/$name.status.part" "$BUILD_ROOT/$name.status"
    [ "$status" -eq 0 ] || bad=1
done
exit "$bad"
