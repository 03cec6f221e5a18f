#!/bin/sh
# Checks that each public header compiles alone, as C17 without extensions and as C++.
set -eu
cd "${1:-.}"
for h in libinfer/include/infer/*.h; do
    name=${h#libinfer/include/}
    echo "#include <$name>" | ${CC:-cc} -std=c17 -pedantic -Wall -Wextra -Werror -Ilibinfer/include \
        -fsyntax-only -x c -
    if command -v "${CXX:-c++}" >/dev/null 2>&1; then
        echo "#include <$name>" | ${CXX:-c++} -std=c++17 -Wall -Wextra -Werror -Ilibinfer/include \
            -fsyntax-only -x c++ -
    fi
done
