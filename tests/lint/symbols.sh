#!/bin/sh
# Checks that libinfer.so exports only inf_*, and that the Debian package lists each of these
# symbols:
#
#   symbols.sh LIBRARY LIST
set -eu
bad=$(nm -D --defined-only "$1" | awk '$2 ~ /[TDBRVW]/ && $3 !~ /^(inf_|INFER_)/ { print $3 }')
[ -z "$bad" ] || { echo "exported besides inf_*: $bad"; exit 1; }
missing=$(nm -D --defined-only "$1" | awk '$2 ~ /[TDBRVW]/ { sub(/@.*/, "", $3); print $3 }' |
    while read -r name; do grep -q "^ $name@" "$2" || echo "$name"; done)
[ -z "$missing" ] || { echo "not in $2: $missing"; exit 1; }
