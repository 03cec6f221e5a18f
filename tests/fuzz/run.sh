#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tests/fuzz/run.sh BUILD [OUT]: runs each fuzzer of a build with -Dfuzz=true on a copy of its
# corpus, as many at once as there are processors. OUT (default: fuzz-work) gets the findings of the
# fuzzers, their logs (NAME.log), and their exit statuses (NAME.status).
#
# FUZZ_SECONDS   seconds that each fuzzer runs (default: 10)
set -u
[ $# -ge 1 ] || {
    sed -n '3,7s/^# *//p' "$0" >&2
    exit 2
}
build=$(CDPATH='' cd -- "$1" && pwd) || exit 2
mkdir -p "${2-fuzz-work}"
out=$(CDPATH='' cd -- "${2-fuzz-work}" && pwd)
cd "$(dirname "$0")" || exit 2
seconds=${FUZZ_SECONDS:-10}

# sources NAME: prints the files whose string literals are words of the format, if it has words.
sources() {
    case $1 in
    audio-form) echo ../../services/audio/form.c ../../services/audio/chunking.c ;;
    embed-request) echo ../../services/embed/*.c ;;
    gguf) echo ../../libinfer/format/gguf/*.c ;;
    hf-config) echo ../../libinfer/format/hf/config*.c ../../libinfer/format/hf/reader.c ;;
    hf-model)
        echo ../../libinfer/format/hf/quantized*.c ../../libinfer/format/hf/names.c \
            ../../libinfer/format/hf/config.c ../../libinfer/model/bind-*.c
        ;;
    hf-modules) echo ../../libinfer/format/hf/modules.c ../../libinfer/format/hf/adapters.c ;;
    keep) echo ../../services/keep/*.c ;;
    llama-request) echo ../../services/chat/api/*.c ;;
    models-task) echo ../../libinfer/format/hf/*.c ../../libinfer/format/gguf/*.c ;;
    request) echo ../../services/chat/api/*.c ;;
    safetensors) echo ../../libinfer/format/hf/safetensors.c ;;
    schema) echo ../../libinfer/grammar/schema-keyword.c ;;
    tokenizer-gguf) echo ../../libinfer/tokenizer/load-gguf.c ../../libinfer/tokenizer/pre-names.c ;;
    tokenizer-json) echo ../../libinfer/tokenizer/load-*.c ;;
    whisper-config) echo ../../libinfer/format/whisper/config.c ;;
    esac
}

# dictionary NAME: writes the words of a format for -dict= to OUT/NAME.dict.
dictionary() {
    set -- "$1" $(sources "$1")
    {
        cat ./*/"$1.dict" 2>/dev/null
        shift
        [ $# -eq 0 ] || grep -ohE '"[A-Za-z0-9_./:|<>-]{2,64}"' "$@" | sort -u
    } >"$dict"
}

# fuzz NAME: runs one fuzzer.
fuzz() {
    work=$out/$1
    dict=$work.dict
    rm -rf "$work"
    mkdir "$work"
    dictionary "$1"
    [ -s "$dict" ] || dict=
    set -- "$build/tests/fuzz/fuzz-$1" "$work" "corpus/$1" "-max_total_time=$seconds" -timeout=10 \
        -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0 "-artifact_prefix=$work/" \
        ${dict:+"-dict=$dict"}
    "$@" >"$work.log" 2>&1
    echo $? >"$work.status"
}

names=$(find "$build/tests/fuzz" -maxdepth 1 -type f -name 'fuzz-*' -perm -u+x |
    sed 's/.*fuzz-//' | sort)
rm -f "$out"/*.status
running=0
for name in $names; do
    fuzz "$name" &
    running=$((running + 1))
    if [ "$running" -ge "$(nproc)" ]; then
        wait
        running=0
    fi
done
wait

bad=0
for name in $names; do
    inputs=$(awk '/number_of_executed_units/ { print $2 }' "$out/$name.log")
    echo "fuzz-$name: ${inputs:-no} inputs"
    [ "$(cat "$out/$name.status")" -eq 0 ] || {
        tail -n 30 "$out/$name.log"
        bad=1
    }
done
[ "$names" ] || {
    echo "fuzz/run.sh: no fuzzers in $build" >&2
    bad=1
}
exit "$bad"
