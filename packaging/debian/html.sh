#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# html.sh DOCS OUT: converts the Markdown pages in DOCS to HTML in OUT, with links between them, and copies
# their pictures.
set -eu
mkdir -p "$2"
list=''
for page in "$1"/*.md; do
    name=$(basename "$page" .md)
    title=$(sed -n 's/^# *//p' "$page" | head -n 1)
    {
        cat <<EOF
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>${title:-$name} - sconce</title>
<style>body{max-width:60em;margin:2em auto;padding:0 1em;font-family:sans-serif;line-height:1.5}
pre{overflow:auto;background:#f4f4f4;padding:.5em}table{border-collapse:collapse}
td,th{border:1px solid #ccc;padding:.2em .5em;vertical-align:top}</style></head><body>
EOF
        cmark-gfm -e table -e autolink "$page" |
            sed -e 's/\(href="[A-Za-z0-9_-]*\)\.md\(["#]\)/\1.html\2/g'
        echo '</body></html>'
    } >"$2/$name.html"
    list="$list<li><a href=\"$name.html\">${title:-$name}</a></li>
"
done
cp "$1"/*.png "$2"
cat >"$2/index.html" <<EOF
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>sconce</title></head><body>
<h1>sconce</h1>
<ul>
$list</ul>
</body></html>
EOF
