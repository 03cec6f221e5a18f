#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages in a directory outside of the tree: installs the build dependencies, makes the source
# package, builds it, and copies the packages to OUTDIR. The same tree gives the same packages, byte for byte;
# packaging/check-reproducible.sh verifies this.
set -eu

usage() {
    cat <<EOF
Usage: sh packaging/build-deb.sh [--arch ARCH] [OUTDIR]
Builds the Debian packages of the last commit (without git: of the current tree) and puts
them into OUTDIR (default: debs).

  --arch ARCH   build for another architecture, such as arm64, with a cross compiler. The build
                runs in a temporary root of this Debian release, which mmdebstrap makes. It takes
                2 GB of disk, and runs no tests.

DEB_BUILD_OPTIONS   nocheck runs no tests, noautodbgsym makes no debug packages, noothercpus
                    does not optimize kernels that this CPU cannot run
DEB_BUILD_PROFILES  nocheck builds no tests, nodoc makes no sconce-doc
DEB_VERSION         the version of the packages, instead of the one in the changelog
TMPDIR              the directory in which the build directory is created
EOF
}

own=$(dpkg --print-architecture)
arch=$own
case ${1-} in
--arch)
    [ $# -gt 1 ] || {
        usage >&2
        exit 2
    }
    arch=$2
    shift 2
    ;;
--arch=*)
    arch=${1#*=}
    shift
    ;;
esac
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
install_packages $DEB_PACKAGES
dpkg-architecture -L | grep -qx -e "$arch" || {
    echo "build-deb.sh: there is no architecture \"$arch\"; dpkg-architecture -L lists all" >&2
    exit 2
}
[ "$arch" = "$own" ] || install_packages mmdebstrap

changelog=$(sed -n '1s/.*(\(.*\)).*/\1/p' packaging/debian/changelog)
full=${DEB_VERSION:-$changelog}
version=${full%-*}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
source=$work/sconce-$version
mkdir "$source"

build_failed() {
    cp "$work/log" "$out/build.log"
    fail "$1; the full log is $out/build.log" "$work/log"
}

# Make the upstream source, without build directories. Its files get the time of the last commit.
git="git -c safe.directory=*"
if command -v git >/dev/null 2>&1 && $git rev-parse --verify -q HEAD >/dev/null 2>&1; then
    $git archive --format=tar HEAD | tar -x -C "$source"
    date=$($git log -1 --format=@%ct)
    $git diff --quiet HEAD || echo "build-deb.sh: uncommitted changes are left out" >&2
else
    tar -c --exclude-vcs --exclude='./build*' --exclude='./debs' --exclude=__pycache__ . |
        tar -x -C "$source"
    date=@$(date -r packaging/debian/changelog +%s)
fi
tar -c --sort=name --mtime="$date" --mode=u=rwX,go=rX --owner=0 --group=0 --numeric-owner \
    -C "$work" "sconce-$version" | gzip -n -6 >"$work/sconce_$version.orig.tar.gz"
cp -R "$source/packaging/debian" "$source/debian"
if [ "$full" != "$changelog" ]; then
    {
        printf 'sconce (%s) unstable; urgency=medium\n\n  * A build of its own.\n\n' "$full"
        sed -n '/^ -- /{p;q}' packaging/debian/changelog
        echo
        cat packaging/debian/changelog
    } >"$source/debian/changelog"
fi

as_root=
[ "$(id -u)" -eq 0 ] || as_root=$(command -v sudo || true)
update_lists() {
    if [ "$(id -u)" -eq 0 ] || [ -n "$as_root" ]; then
        $as_root apt-get update -qq >"$work/log" 2>&1 </dev/null || true
    fi
}
has_libh2o() {
    apt-cache policy libh2o-evloop-dev 2>/dev/null | grep -Eq '(Candidate|Installed): [0-9]'
}

# If the distribution has no libh2o, the source of libh2o becomes a second tarball of the source
# package.
if ! has_libh2o && { update_lists && ! has_libh2o; }; then
    export DEB_BUILD_PROFILES="${DEB_BUILD_PROFILES-} pkg.sconce.bundled-h2o"
    wrap() {
        sed -n "s/^$1 *= *//p" packaging/subprojects/libh2o.wrap
    }
    file=$(wrap source_filename)
    if [ -f "packaging/subprojects/packagecache/$file" ]; then
        cp "packaging/subprojects/packagecache/$file" "$work/libh2o"
    else
        install_packages ca-certificates curl
        curl -fsSL --retry 2 -o "$work/libh2o" "$(wrap source_url)" || {
            fail "$(wrap source_url) cannot be downloaded; put the file into packaging/subprojects/packagecache/"
        }
    fi
    echo "$(wrap source_hash)  $work/libh2o" | sha256sum -c --quiet
    mv "$work/libh2o" "$work/sconce_$version.orig-libh2o.tar.${file##*.tar.}"
    cat "$source/debian/libh2o.copyright" >>"$source/debian/copyright"
    mkdir "$source/libh2o"
    tar -x --strip-components=1 -C "$source/libh2o" -f "$work/sconce_$version.orig-libh2o.tar."*
fi

# build_in_root: builds the packages for $arch in a temporary root, which has the libraries of both architectures.
build_in_root() {
    # shellcheck disable=SC1091
    release=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
    mkdir "$work/in" "$work/out"
    mv "$source" "$work"/*.orig*.tar.* "$work/in/"
    cat >"$work/in/cross.sh" <<EOF
set -eu
cd /build/${source##*/}
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 HOME=/build
export DEB_BUILD_PROFILES="cross nocheck ${DEB_BUILD_PROFILES-}" DEB_BUILD_OPTIONS="nocheck ${DEB_BUILD_OPTIONS-}"
apt-get build-dep -y -qq --no-install-recommends --host-architecture=$arch ./
dpkg-buildpackage -us -uc -B --host-arch=$arch
mkdir ../out
find .. -maxdepth 1 -type f -name '*_$arch.*' -exec mv -t ../out {} +
EOF
    # shellcheck disable=SC2016,SC2086
    mmdebstrap --quiet --variant=minbase --format=null --architectures="$own,$arch" --dpkgopt=force-unsafe-io \
        --include="build-essential,crossbuild-essential-$arch" \
        --customize-hook='mkdir "$1/build"' --customize-hook="sync-in $work/in /build" \
        --customize-hook='chroot "$1" sh /build/cross.sh' --customize-hook="sync-out /build/out $work/out" \
        "$release" - ${SCONCE_MIRROR-} >"$work/log" 2>&1 </dev/null || build_failed "the build for $arch failed"
    find "$work/out" -maxdepth 1 -type f -exec cp -p -t "$out" {} +
    cp "$work/log" "$out/build.log"
    ls "$out"/*_"$arch".deb
}

if [ "$arch" != "$own" ]; then
    build_in_root
    exit 0
fi

cd "$source"
if ! dpkg-checkbuilddeps >"$work/log" 2>&1; then
    if [ "$(id -u)" -ne 0 ] && [ -z "$as_root" ]; then
        cat "$work/log" >&2
        echo "Install them as root: apt-get build-dep $tree/packaging" >&2
        exit 1
    fi
    update_lists
    $as_root env DEBIAN_FRONTEND=noninteractive DEB_BUILD_PROFILES="${DEB_BUILD_PROFILES-}" \
        apt-get build-dep -y -qq --no-install-recommends ./ >"$work/log" 2>&1 </dev/null ||
        build_failed "apt-get could not install the build dependencies"
fi
dpkg-buildpackage -us -uc >"$work/log" 2>&1 </dev/null || build_failed "the build failed"
find "$work" -maxdepth 1 -type f -name '*_*' -exec cp -p -t "$out" {} +
cp "$work/log" "$out/build.log"
ls "$out"/*.deb
