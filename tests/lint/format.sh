#!/bin/sh
# Checks that the C files are formatted as clang-format 14 formats them; other versions format
# differently. Without clang-format 14 the script prints why and exits with 77 (skipped).
set -u
cd "${1:-.}" || exit 2
format=clang-format-14
command -v $format >/dev/null 2>&1 || format=clang-format
case $($format --version 2>/dev/null) in
*"version 14."*) ;;
*)
    echo "skipped: no clang-format 14"
    exit 77
    ;;
esac
git ls-files '*.c' '*.h' 2>/dev/null | xargs $format --dry-run -Werror 2>&1 | head -40 >/tmp/sconce-format.$$
status=0
[ -s /tmp/sconce-format.$$ ] && { cat /tmp/sconce-format.$$; status=1; }
rm -f /tmp/sconce-format.$$
exit $status
