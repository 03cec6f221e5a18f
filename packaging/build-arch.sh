#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the Arch packages of the last commit outside of the tree. makepkg refuses to run as root, so for
# root this script runs it as the user nobody.
set -eu

case ${1-} in
-h | --help)
    echo "Usage: sh packaging/build-arch.sh [OUTDIR] [MAKEPKG-OPTION]..."
    echo "Builds packaging/arch/PKGBUILD and puts the packages into OUTDIR (default: arch-packages)."
    exit 0
    ;;
esac
tree=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
mkdir -p "${1:-arch-packages}"
out=$(CDPATH='' cd -- "${1:-arch-packages}" && pwd)
[ $# -eq 0 ] || shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

cd "$tree"
version=$(sed -n 's/^pkgver=//p' packaging/arch/PKGBUILD)
git -c safe.directory='*' archive --prefix="sconce-$version/" HEAD |
    gzip -n >"$work/sconce-$version.tar.gz"
cp packaging/arch/* "$work"
python3 services/table.py fill packaging/arch/sconce.install.in >"$work/sconce.install"
cp packaging/subprojects/packagecache/* "$work" 2>/dev/null || true
if ! command -v pacman >/dev/null 2>&1 || ! pacman -Q glibc >/dev/null 2>&1; then
    # This system is not Arch, so the dependencies have other names here: do not check them.
    set -- --nodeps "$@"
fi
cd "$work"
as=
if [ "$(id -u)" -eq 0 ]; then
    chown -R nobody "$work"
    as="setpriv --reuid=nobody --regid=nogroup --clear-groups env HOME=$work"
fi
$as makepkg --force --noconfirm "$@" >"$out/build.log" 2>&1 </dev/null || {
    tail -n 60 "$out/build.log" >&2
    exit 1
}
cp "$work"/*.pkg.tar* "$out"
ls "$out"/*.pkg.tar*
