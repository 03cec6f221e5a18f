#!/bin/sh
# Does the checks that need only grep: tabs, trailing blanks, missing license lines, forbidden words
# and calls.
set -u
cd "${1:-.}" || exit 2
status=0
files=$(git ls-files 2>/dev/null | grep -vE '\.(gguf|safetensors|bin|npy|model|vec)$|^tests/(fuzz/corpus|golden/(tokenizers|templates|models))/|^LICENSE$')
tell() {
    [ -z "$2" ] && return
    echo "$1:"
    echo "$2" | head -20
    status=1
}
code=$(echo "$files" | grep -E '\.(c|h|comp|glsl|js|css|html)$')
tell "tabs" "$(echo "$code" | xargs grep -InP '\t' /dev/null)"
tell "trailing blanks" "$(echo "$files" | grep -vE '\.(json|txt|out|jinja)$' | xargs grep -InP '[ \t]+$' /dev/null)"
tell "no SPDX line" "$(echo "$code" | xargs grep -L 'SPDX-License-Identifier: Apache-2.0')"
tell "unfinished words" "$(echo "$code" | xargs grep -InE '\b(TODO|FIXME|XXX|HACK)\b' /dev/null)"
tell "paths of a machine" "$(echo "$files" | grep -v '^tests/lint/style.sh$' | xargs grep -InE '/(home/[a-z]+|root|work)/[a-z]' /dev/null | grep -vE '/home/(user|you|alice|NAME)/|/root/\.' )"
tell "exit() in the library" "$(git ls-files 'libinfer/*.c' | xargs grep -InE '\b(exit|abort|printf|perror|puts)\(' /dev/null | grep -vE 'snprintf|asprintf|str_printf|\* ' )"
exit $status
