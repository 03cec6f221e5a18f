#!/bin/sh
# Checks that files have at most 600 lines (headers 300). The file size-exempt lists exceptions as
# "path lines reason"; no file may have more than 1,000 lines.
set -u
cd "${1:-.}" || exit 2
status=0
for f in $(git ls-files '*.c' '*.h' '*.comp' '*.glsl' '*.sh' '*.py' 2>/dev/null || find libinfer services tests packaging -name '*.[ch]' -o -name '*.sh' -o -name '*.py'); do
    [ -f "$f" ] || continue
    n=$(wc -l <"$f")
    case $f in
    *.h) limit=300 ;;
    *) limit=600 ;;
    esac
    exempt=$(awk -v f="$f" '$1 == f { print $2 }' tests/lint/size-exempt)
    [ -n "$exempt" ] && limit=$exempt
    if [ "$n" -gt "$limit" ]; then
        echo "$f: $n lines, more than $limit"
        status=1
    fi
done
exit $status
