#!/bin/sh
# libinfer.so exports inf_* alone.
set -eu
bad=$(nm -D --defined-only "$1" | awk '$2 ~ /[TDBRVW]/ && $3 !~ /^(inf_|INFER_)/ { print $3 }')
[ -z "$bad" ] || { echo "exported besides inf_*: $bad"; exit 1; }
