#!/bin/sh
# clang-format agrees with the tree; skipped, with a line, where it is not installed.
set -u
cd "${1:-.}" || exit 2
command -v clang-format >/dev/null 2>&1 || { echo "skipped: no clang-format"; exit 77; }
git ls-files '*.c' '*.h' 2>/dev/null | xargs clang-format --dry-run -Werror 2>&1 | head -40 >/tmp/sconce-format.$$
status=0
[ -s /tmp/sconce-format.$$ ] && { cat /tmp/sconce-format.$$; status=1; }
rm -f /tmp/sconce-format.$$
exit $status
