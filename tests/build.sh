#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the programs that tests/run.sh tests, one build after the other, in BUILD_ROOT
# (default: build-tests):
#
#   tests/build.sh [--idle] NAME...
#
#   gcc    everything with gcc, as users build it
#   asan   the services, their tests and the fuzzers, with clang under ASan and UBSan. UBSan's checks
#          of pointers are left out: ASan finds most of the faults that they find, and compiling
#          takes half of the time without them.
#   asan-full  the same with all checks of UBSan
#   tsan   the tests of threaded code, with clang under TSan
#   arm64  everything for arm64, with a cross compiler (see tests/lib/arm64.sh)
#   debs   the Debian packages of the last commit, in debs-RELEASE, and root file systems to install
#          them in
#   debs-arm64  the Debian packages of the last commit for arm64, in debs-arm64
#
# --idle builds at idle priority. The script prints errors and the processor time of each build in
# seconds, and also writes them to NAME.out. NAME.status contains the exit status; it appears when
# NAME is done.
set -u
cd "$(dirname "$0")/.." || exit 2
BUILD_ROOT=${BUILD_ROOT:-$PWD/build-tests}
mkdir -p "$BUILD_ROOT/shaders"
# Shaders take two minutes to compile, and are the same in all builds.
SCONCE_SHADER_CACHE=$(cd "$BUILD_ROOT/shaders" && pwd)
export SCONCE_SHADER_CACHE
find "$SCONCE_SHADER_CACHE" -mindepth 1 -maxdepth 1 -mtime +7 -exec rm -rf {} +

if [ "${1-}" = --idle ]; then
    shift
    idle="chrt --idle 0"
    $idle true 2>/dev/null || idle="nice -n 19"
    # With autogroup the kernel first shares the processors between sessions, and then between the
    # processes of each session. Therefore the session needs a low priority, too.
    exec setsid sh -c 'echo 19 2>/dev/null >/proc/self/autogroup; exec "$@"' sh \
        $idle sh tests/build.sh "$@"
fi

# compile NAME COMPILER NEEDED OPTION...: configures the build directory if it is new, and builds
# the targets that tests/lib/targets.py prints for the arguments NEEDED, or all targets if NEEDED is
# empty. Fails if the build fails or prints a warning.
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
    gcc) compile gcc gcc "" -Dtests=enabled -Dall_kernels=false ;;
    asan | asan-full)
        unchecked=' -fno-sanitize=null,alignment,object-size,pointer-overflow'
        [ "$1" = asan ] || unchecked=
        compile "$1" clang "--suite unit --suite golden --suite checkkern --folder services
            --folder tests/audio --folder tests/fuzz" \
            -Dtests=enabled -Dfuzz=true -Dconfinement=off -Db_sanitize=address,undefined \
            -Db_lundef=false -Doptimization=1 "-Dc_args=-gline-tables-only$unchecked"
        ;;
    tsan)
        compile tsan clang "--suite threads" \
            -Dtests=enabled -Dvulkan=disabled -Dconfinement=off -Db_sanitize=thread -Db_lundef=false
        ;;
    arm64)
        sh tests/lib/arm64.sh "$BUILD_ROOT/arm64-root" &&
            compile arm64 gcc "" --cross-file "$BUILD_ROOT/arm64-root.ini" -Dtests=enabled
        ;;
    debs) BUILD_ROOT=$BUILD_ROOT python3 tests/e2e/systemd/packages.py ;;
    debs-arm64)
        rm -rf "$BUILD_ROOT/debs-arm64"
        TMPDIR=$BUILD_ROOT DEB_BUILD_OPTIONS=noautodbgsym sh packaging/build-deb.sh --arch arm64 "$BUILD_ROOT/debs-arm64"
        ;;
    *)
        echo "build.sh: unknown build \"$1\"; the builds are gcc, asan, asan-full, tsan, arm64," \
            "debs, debs-arm64" >&2
        return 2
        ;;
    esac
}

# spend: sets $spent to the processor time, in seconds, of all child processes of this shell so far.
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
