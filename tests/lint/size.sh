#!/bin/sh
# Checks that files have at most 600 lines (headers 300), and that no line of documents, build files and
# sources has more than 512 characters, which lintian refuses. The file size-exempt lists exceptions
# as "path lines reason". A file with an exception has at most 1,000 lines. An exception that its
# file no longer needs is an error.
set -u
cd "${1:-.}" || exit 2
status=0
tell() {
    echo "$*"
    status=1
}
list=$(mktemp)
trap 'rm -f "$list"' EXIT
limit_of() {
    case $1 in
    *.h) echo 300 ;;
    *) echo 600 ;;
    esac
}
git ls-files '*.c' '*.h' '*.comp' '*.glsl' '*.sh' '*.py' '*.js' '*.css' '*.html' 2>/dev/null >"$list" ||
    find libinfer services tests packaging -name '*.[ch]' -o -name '*.sh' -o -name '*.py' >"$list"
found=$(xargs wc -l <"$list" 2>/dev/null | awk '
    FILENAME == "tests/lint/size-exempt" { if ($1 !~ /^#/) exempt[$1] = $2; next }
    $2 != "total" {
        limit = $2 in exempt ? exempt[$2] : $2 ~ /\.h$/ ? 300 : 600
        if ($1 > limit)
            print $2 ": " $1 " lines, more than " limit
    }' tests/lint/size-exempt -)
[ -z "$found" ] || tell "$found"
while read -r f exempt reason; do
    case $f in '#'* | '') continue ;; esac
    [ "$exempt" -le 1000 ] || tell "size-exempt: $f has $exempt lines; the maximum is 1000"
    [ -n "$reason" ] || tell "size-exempt: $f has no reason"
    [ -f "$f" ] && [ "$(wc -l <"$f")" -gt "$(limit_of "$f")" ] ||
        tell "size-exempt: $f needs no exception"
done <tests/lint/size-exempt
long=$(git ls-files docs libinfer packaging policy services shaders units '*.md' 2>/dev/null |
    grep -E '\.(md|[1-8]|[ch]|comp|glsl|sh|py|yaml|ini|in|build)$' | grep -vE '^packaging/(ears|guide)/' |
    xargs -r awk 'length > 512 { print FILENAME ":" FNR ": " length " characters, more than 512" }')
[ -z "$long" ] || tell "$long"
exit $status
