#!/bin/sh
# Files are at most 600 lines (headers 300), hard limit 1,000; exceptions with a reason stand in
# size-exempt as "path lines reason".
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
