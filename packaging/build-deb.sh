#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The Debian packages of this tree, built outside of it: installs what the build needs, makes the
# source package, builds it, and leaves the packages in OUTDIR.
set -eu

usage() {
    cat <<EOF
Usage: sh packaging/build-deb.sh [OUTDIR]
Builds the Debian packages of the last commit (of the tree as it lies where git is absent) and puts
them into OUTDIR (debs).

DEB_BUILD_OPTIONS=nocheck runs no tests; DEB_BUILD_OPTIONS=noautodbgsym makes no debug packages.
TMPDIR names where the build directory goes.
EOF
}

case ${1-} in
-h | --help)
    usage
    exit 0
    ;;
-*)
    usage >&2
    exit 2
    ;;
esac
tree=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
mkdir -p "${1:-debs}"
out=$(CDPATH='' cd -- "${1:-debs}" && pwd)

cd "$tree"
. packaging/packages.sh
# shellcheck disable=SC2086
install_packages $BUILD_PACKAGES $DEB_PACKAGES
libh2o_source

full=$(sed -n '1s/.*(\(.*\)).*/\1/p' packaging/debian/changelog)
version=${full%-*}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
source=$work/sconce-$version
mkdir "$source"

# The upstream source: without build directories, and its files as old as the last commit.
git="git -c safe.directory=*"
if command -v git >/dev/null 2>&1 && $git rev-parse --verify -q HEAD >/dev/null 2>&1; then
    $git archive --format=tar HEAD | tar -x -C "$source"
    date=$($git log -1 --format=@%ct)
else
    tar -c --exclude-vcs --exclude='./build*' --exclude='./debs' --exclude=__pycache__ . |
        tar -x -C "$source"
    date=@$(date -u -r packaging/debian/changelog +%s)
fi
tar -c --sort=name --mtime="$date" --owner=0 --group=0 --numeric-owner -C "$work" \
    "sconce-$version" | gzip -n -6 >"$work/sconce_$version.orig.tar.gz"
rm -rf "$source/debian"
cp -R "$source/packaging/debian" "$source/debian"

cd "$source"
dpkg-buildpackage -us -uc >"$work/log" 2>&1 || {
    tail -n 60 "$work/log" >&2
    cp "$work/log" "$out/build.log"
    echo "build-deb.sh: the build failed; all of it is in $out/build.log" >&2
    exit 1
}
find "$work" -maxdepth 1 -type f -name '*_*' -exec cp -p -t "$out" {} +
cp "$work/log" "$out/build.log"
ls "$out"/*.deb
