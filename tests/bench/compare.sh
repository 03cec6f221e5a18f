#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs `sconce bench` beside llama-bench on the same models, in turns, and prints ratios.
#
#   compare.sh --llama-bench PATH [--sconce PATH] [-p N] [-n N] [-t N] [-r ROUNDS] [--min RATIO]
#              [MODEL.gguf]...
#
# Without a model it makes two with random weights in the shape of Qwen3-0.6B, Q4_K_M and Q8_0,
# in $BENCH_DIR (needs python3 with numpy and gguf). Each round measures both programs once, one
# after the other; the figure is the median of the rounds' ratios. Exits non-zero when a ratio is below RATIO (0.8).
set -u
here=$(cd "$(dirname "$0")" && pwd)
llama=
sconce=$here/../../build/services/cli/sconce
pp=512
tg=64
threads=$(nproc)
rounds=3
min=0.8
models=
usage() {
    sed -n '3,12p' "$0" | sed 's/^# \{0,1\}//'
    exit 2
}
while [ $# -gt 0 ]; do
    case $1 in
    --llama-bench) llama=${2:?}; shift ;;
    --sconce) sconce=${2:?}; shift ;;
    -p) pp=${2:?}; shift ;;
    -n) tg=${2:?}; shift ;;
    -t) threads=${2:?}; shift ;;
    -r) rounds=${2:?}; shift ;;
    --min) min=${2:?}; shift ;;
    -*) usage ;;
    *) models="$models $1" ;;
    esac
    shift
done
[ -n "$llama" ] || usage
for program in "$llama" "$sconce"; do
    [ -x "$program" ] || { echo "$program: not an executable" >&2; exit 2; }
done

if [ -z "$models" ]; then
    dir=${BENCH_DIR:-${TMPDIR:-/tmp}/sconce-bench}
    mkdir -p "$dir"
    for type in Q4_K_M Q8_0; do
        file=$dir/qwen3-0.6b-$type.gguf
        if [ ! -f "$file" ]; then
            echo "making $file" >&2
            python3 "$here/make_model.py" --shape qwen3-0.6b --type "$type" "$file" || exit 2
        fi
        models="$models $file"
    done
fi

export LLAMA="$llama" SCONCE="$sconce" PP="$pp" TG="$tg" THREADS="$threads" ROUNDS="$rounds" MIN="$min"
exec python3 - $models <<'PY'
import json, os, statistics, subprocess, sys

env = os.environ
pp, tg, threads, rounds = (int(env[k]) for k in ("PP", "TG", "THREADS", "ROUNDS"))


def ours(model):
    out = subprocess.run([env["SCONCE"], "bench", "-m", model, "-p", str(pp), "-n", str(tg), "-t", str(threads),
                          "-r", "1", "--json"], check=True, capture_output=True, text=True).stdout
    r = json.loads(out)
    return r["pp"]["tok_s"], r["tg"]["tok_s"]


def theirs(model):
    out = subprocess.run([env["LLAMA"], "-m", model, "-p", str(pp), "-n", str(tg), "-t", str(threads), "-r", "1",
                          "-ngl", "0", "-o", "json"], check=True, capture_output=True, text=True).stdout
    rows = json.loads(out)
    return (next(r["avg_ts"] for r in rows if r["n_prompt"] and not r["n_gen"]),
            next(r["avg_ts"] for r in rows if r["n_gen"] and not r["n_prompt"]))


print(f"{threads} threads, {rounds} rounds; tokens per second, medians")
print(f"{'model':36} {'test':>7} {'sconce':>10} {'llama-bench':>12} {'ratio':>7}")
bad = 0
for model in sys.argv[1:]:
    a, b = [], []
    for _ in range(rounds):
        a.append(ours(model))
        b.append(theirs(model))
    for i, name in enumerate((f"pp{pp}", f"tg{tg}")):
        ratio = statistics.median(x[i] / y[i] for x, y in zip(a, b))
        short = ratio < float(env["MIN"])
        bad += short
        print(f"{os.path.basename(model)[:36]:36} {name:>7} {statistics.median(x[i] for x in a):10.2f}"
              f" {statistics.median(y[i] for y in b):12.2f} {ratio:6.2f}x{'  below ' + env['MIN'] if short else ''}")
sys.exit(1 if bad else 0)
PY
