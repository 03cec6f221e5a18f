#!/bin/sh
# spirv.sh DIRECTORY: checks that every shader that the build made is valid SPIR-V.
set -u
command -v spirv-val >/dev/null || exit 77
status=0
for f in "$1"/*.spv; do
    spirv-val --target-env vulkan1.2 "$f" || { echo "$f is not valid"; status=1; }
done
exit $status
