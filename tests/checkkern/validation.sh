#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# validation.sh CHECKKERN TEST_LOGITS: runs both programs under the validation layer of Khronos,
# with validation of synchronization, and fails on any message. Exits with 77 (skipped) if the layer
# or a device is missing.
set -u

layer=VK_LAYER_KHRONOS_validation
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

cat >"$work/vk_layer_settings.txt" <<EOF
khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG
khronos_validation.report_flags = error,warn,perf
khronos_validation.log_filename = $work/messages
EOF
export VK_LAYER_SETTINGS_PATH="$work" VK_INSTANCE_LAYERS=$layer SCONCE_DEVICE=vulkan

# run NAME COMMAND...
run() {
    name=$1
    shift
    "$@" >"$work/output" 2>&1 || {
        echo "$name fails:"
        head -n 1 "$work/output"
        tail -n 20 "$work/output"
        exit 1
    }
    [ ! -s "$work/messages" ] || {
        echo "$name:"
        head -n 1 "$work/output"
        head -c 4000 "$work/messages"
        exit 1
    }
    echo "$name: no message"
}

VK_LOADER_DEBUG=layer "$1" --only devices --test graph_rows >"$work/output" 2>&1
if grep -q '^skipped: no Vulkan device' "$work/output"; then
    grep '^skipped' "$work/output"
    exit 77
fi
grep -q "Insert instance layer \"$layer\"" "$work/output" || {
    echo "skipped: no $layer"
    exit 77
}
for test in hostile embed norm rope act rows steps blocks tops; do
    run "$test" "$1" --only devices --test "graph_$test" --share 64
done
run "whole models" "$2"
