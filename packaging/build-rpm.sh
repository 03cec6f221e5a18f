#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the RPM packages of the last commit outside of the tree.
set -eu

case ${1-} in
-h | --help)
    echo "Usage: sh packaging/build-rpm.sh [OUTDIR] [RPMBUILD-OPTION]..."
    echo "Builds packaging/rpm/sconce.spec.in and puts the packages into OUTDIR (default: rpms). Options such as"
    echo "--without tests, --with bundled_h2o and --nodeps go to rpmbuild."
    exit 0
    ;;
esac
tree=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
mkdir -p "${1:-rpms}"
out=$(CDPATH='' cd -- "${1:-rpms}" && pwd)
[ $# -eq 0 ] || shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

cd "$tree"
version=$(sed -n 's/^Version: *//p' packaging/rpm/sconce.spec.in)
mkdir -p "$work/SOURCES"
git -c safe.directory='*' archive --prefix="sconce-$version/" HEAD |
    gzip -n >"$work/SOURCES/sconce-$version.tar.gz"
python3 services/table.py fill packaging/rpm/sconce.spec.in >"$work/sconce.spec"
cp packaging/subprojects/packagecache/* "$work/SOURCES/" 2>/dev/null || true
if [ -z "$(rpm --eval '%{?_unitdir}')" ]; then
    # This distribution does not use RPM packages: names of packages differ, and rpmbuild has fewer macros.
    set -- --nodeps --load packaging/rpm/macros "$@"
fi
rpmbuild -bb --define "_topdir $work" --define "_rpmdir $out" "$@" "$work/sconce.spec" \
    >"$out/build.log" 2>&1 || {
    tail -n 60 "$out/build.log" >&2
    exit 1
}
find "$out" -name '*.rpm'
