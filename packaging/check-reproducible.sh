#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the packages twice in different environments (path, umask, time, time zone, locale, host name, number of
# processors), compares them byte by byte, and shows the packages that differ, with diffoscope if it is installed.
#
#   packaging/check-reproducible.sh
#   packaging/check-reproducible.sh --release TAG [OPTION]...
#   packaging/check-reproducible.sh --compare DIR OTHER
#
# With --release it runs packaging/release.sh twice for a tag, with the same options, and compares all files except
# signatures. The second run begins when the first one has ended, but the clock is not changed, because apt refuses
# lists of packages that have expired. With --compare it compares two directories that packaging/release.sh has made,
# for example that of a published release with one that you made from the same tag. OTHER may have fewer architectures.
set -eu

tree=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
release=
if [ "${1-}" = --compare ] && [ $# -eq 3 ]; then
    shift
elif [ "${1-}" = --release ] && [ $# -ge 2 ]; then
    release=$2
    shift 2
elif [ $# -gt 0 ]; then
    echo "Usage: sh packaging/check-reproducible.sh [--release TAG [OPTION-OF-RELEASE.SH]... | --compare DIR OTHER]" >&2
    exit 2
fi

# Both builds have to compile everything.
export CCACHE_DISABLE=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# make_release NAME UMASK ZONE OPTION...: makes the release $release in the directory NAME.
make_release() {
    name=$1 zone=$3
    umask "$2"
    shift 3
    mkdir -p "$work/$name/tmp"
    echo "release $name" >&2
    env TMPDIR="$work/$name/tmp" TZ="$zone" sh "$tree/packaging/release.sh" "$@" --out "$work/$name/out" "$release" \
        >"$work/$name.log" 2>&1 || {
        cat "$work/$name.log" >&2
        exit 1
    }
    umask 022
}

# list_sums DIR: prints the checksums of a release without those of the signatures and of the key, which differ.
list_sums() {
    (cd "$1" && sha256sum --check --strict --quiet SHA256SUMS >&2)
    sed -E '/ .*(InRelease|Release\.gpg|sconce\.gpg)$/d' "$1/SHA256SUMS"
}

# compare_releases DIR OTHER: fails if a file of OTHER differs from that in DIR. If DIR has more files, which belong to
# other architectures or to all, the lists of the repository are left out, because the lists of DIR also name these
# files.
compare_releases() {
    list_sums "$1" >"$work/all"
    list_sums "$2" >"$work/other"
    awk 'NR == FNR { there[$2]; next } $2 in there' "$work/other" "$work/all" >"$work/sums"
    more=$(($(wc -l <"$work/all") - $(wc -l <"$work/sums")))
    [ "$more" -eq 0 ] || sed -i '/ apt\/dists\//d' "$work/sums" "$work/other"
    if ! diff "$work/sums" "$work/other"; then
        if command -v diffoscope >/dev/null 2>&1; then
            diffoscope "$1" "$2" >&2 || true
        fi
        echo "the two releases differ" >&2
        exit 1
    fi
    cat "$work/sums"
    echo "$(wc -l <"$work/sums") files, 0 differ; not compared: $more files that only $1 has"
}

if [ "$release" ]; then
    [ $# -gt 0 ] || set -- --unsigned
    make_release one 022 UTC "$@"
    make_release a-second-one-with-a-longer-path 0077 Pacific/Kiritimati "$@"
    set -- "$work/one/out" "$work/a-second-one-with-a-longer-path/out"
fi
if [ $# -gt 0 ]; then
    compare_releases "$@"
    exit 0
fi

# Copy the last commit (without git: the working tree) for both builds.
mkdir "$work/tree"
git="git -c safe.directory=* -C $tree"
if $git rev-parse --verify -q HEAD >/dev/null 2>&1; then
    $git archive HEAD | tar -x -C "$work/tree"
else
    tar -c -C "$tree" --exclude-vcs --exclude='./build*' --exclude='./debs' . |
        tar -x -C "$work/tree"
fi

# build NAME UMASK COMMAND...: builds the packages in the directory NAME. COMMAND is env with assignments, or a
# command that runs env.
build() {
    name=$1
    umask "$2"
    shift 2
    mkdir -p "$work/$name/tmp"
    echo "build $name" >&2
    TMPDIR=$work/$name/tmp "$@" sh "$work/tree/packaging/build-deb.sh" "$work/$name/debs" \
        >"$work/$name.log" 2>&1 || {
        cat "$work/$name.log" >&2
        exit 1
    }
    umask 022
}

options=${DEB_BUILD_OPTIONS-nocheck}
other='' without=''
# The second build has a clock that is 200 days ahead, and another host name, if this system permits both.
if command -v faketime >/dev/null 2>&1; then
    other="env NO_FAKE_STAT=1 faketime -f +200d"
else
    without="$without time"
fi
if unshare --uts true 2>/dev/null; then
    other="unshare --uts sh -c 'hostname elsewhere; exec \"\$@\"' sh $other"
else
    without="$without host-name"
fi

build one 022 env DEB_BUILD_OPTIONS="$options parallel=1" TZ=UTC LC_ALL=C.UTF-8
eval "build a-second-one-with-a-longer-path 0077 $other env \
    'DEB_BUILD_OPTIONS=$options' TZ=Pacific/Kiritimati LANG=de_DE.UTF-8 LC_ALL=C USER=nobody \
    HOME=/nonexistent"

differ=0 n=0
for a in "$work"/one/debs/*.deb; do
    b=$work/a-second-one-with-a-longer-path/debs/${a##*/}
    n=$((n + 1))
    if cmp -s "$a" "$b"; then
        sha256sum "$a" | sed "s, .*/,  ,"
    else
        differ=$((differ + 1))
        echo "differs: ${a##*/}" >&2
        if command -v diffoscope >/dev/null 2>&1; then
            diffoscope "$a" "$b" >&2 || true
        fi
    fi
done
echo "$n packages, $differ differ${without:+ (not varied here:$without)}"
[ "$n" -gt 0 ] && [ "$differ" -eq 0 ]
