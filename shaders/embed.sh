#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# embed.sh COMPILER ROOT FILE OUT STEM ACCESS VARIANT…
#
# Compiles ROOT/FILE in all its variants and writes C files: OUT/STEM.code.h has the code, compressed
# by gzip, and OUT/STEM.rows.h a row of `struct vkb_kernel` for each variant. ACCESS is plain, texel or
# both. A variant is NAME:DEFINE,DEFINE… and may be ":". If its name begins with the name of a
# number format, the shader includes ROOT/formats/FORMAT.glsl as "format.glsl". The SPIR-V files
# stay in OUT, where tests check them. SCONCE_SHADER_CACHE may name a directory for results. Other
# builds of the same shaders with the same compiler then copy the results from there.
set -eu

compiler=$1 root=$2 file=$3 out=$4 stem=$5 access=$6
shift 6
family=${file%.comp}
kept=
if [ "${SCONCE_SHADER_CACHE-}" ]; then
    kept=$SCONCE_SHADER_CACHE/$({
        "$compiler" --version
        printf '%s\n' "$file" "$stem" "$access" "$@"
        find "$root" -type f | LC_ALL=C sort | xargs cat
    } | sha256sum | cut -c 1-64)
    if [ -d "$kept" ]; then
        cp "$kept"/* "$out"
        exit
    fi
    target=$out
    out=$kept.$$
    mkdir -p "$out"
    trap 'rm -rf "$out"' EXIT
fi

# Prints a mask of the slots that the preprocessed shader reads through views of kind $1 (u4 or f4).
view_mask()
{
    mask=0
    for slot in $("$compiler" -E -I"$root" $includes $defines "$root/$file" |
        sed -n "s/.*binding = 10 + *(*\([0-9]\))*)* *uniform *u*textureBuffer slot_$1_.*/\1/p" |
        sort -u); do
        mask=$((mask | 1 << slot))
    done
    echo $mask
}

# Writes words, which are hexadecimal numbers on lines, as bytes, the lowest byte first.
write_words()
{
    awk 'BEGIN { digits = "0123456789abcdef" }
    {
        for (i = 7; i > 0; i -= 2)
            printf "\\%03o", 16 * index(digits, substr($1, i, 1)) + index(digits, substr($1, i + 1, 1)) - 17
        if (NR % 64 == 0)
            print ""
    }
    END { print "" }' | while read -r bytes; do
        # shellcheck disable=SC2059
        printf "$bytes"
    done
}

# compile NAME DEFINES…: compiles one variant.
compile()
{
    name=$1
    shift
    defines=$*
    symbol=$(echo "${family}_$name" | tr -c 'a-z0-9\n' _)
    # Debug information is not stripped from modules with cooperative matrices: the compiler's tools reject
    # them before coopmat.awk has processed them.
    module=$out/$symbol.spv strip=-g0
    if grep -q coopmat.glsl "$root/$file"; then
        module=$out/$symbol.raw strip=
    fi
    "$compiler" -V --quiet --target-env vulkan1.2 $strip -I"$root" $includes $defines -o "$module" \
        "$root/$file"
    if [ ! "$strip" ]; then
        od -An -v -tx4 -w4 "$module" | awk -f "$root/coopmat.awk" | write_words >"$out/$symbol.fixed"
        module=$out/$symbol.fixed
    fi
    size=$(wc -c <"$module")
    {
        echo "static const uint32_t $symbol[] = {"
        gzip -9 -n <"$module" | od -An -v -tx4 -w32 | sed 's/ \([0-9a-f]*\)/0x\1,/g'
        echo '};'
    } >>"$out/$stem.code.h"
    title=$(echo "$family $name" | sed 's/  */ /g; s/ $//')
    views="0, 0"
    case " $defines " in
    *' -DTEXEL '*) views="$(view_mask u4), $(view_mask f4)" ;;
    esac
    echo "{\"$title\", $symbol, sizeof($symbol), $size, $views}," >>"$out/$stem.rows.h"
}

: >"$out/$stem.code.h"
: >"$out/$stem.rows.h"
for variant; do
    given= includes=
    format=${variant%%[ :]*}
    if [ "$format" ]; then
        includes=-I$out/$stem.formats/$format
        mkdir -p "$out/$stem.formats/$format"
        echo "#include \"formats/$format.glsl\"" >"$out/$stem.formats/$format/format.glsl"
    fi
    for define in $(echo "${variant#*:}" | tr , ' '); do
        given="$given -D$define"
    done
    case $access in
    plain | both) compile "${variant%%:*}" $given ;;
    esac
    case $access in
    texel | both) compile "${variant%%:*} texel" -DTEXEL $given ;;
    esac
done
if [ "$kept" ]; then
    rm -rf "$out"/*.formats
    cp "$out"/* "$target"
    mv -T "$out" "$kept" 2>/dev/null || [ -d "$kept" ]
fi
