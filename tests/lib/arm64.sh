#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Unpacks the libraries of arm64 that the build needs into the directory ROOT, without installing
# anything, and writes ROOT.ini, with which meson builds for arm64 and runs the results under
# qemu-user:
#
#   tests/lib/arm64.sh ROOT
#   meson setup build --cross-file ROOT.ini
#
# SCONCE_MIRROR names another mirror of Debian.
set -eu
root=${1:?usage: arm64.sh ROOT}
cd "$(dirname "$0")/../.."
. packaging/packages.sh

# A root that was begun and not finished is made again.
if [ ! -f "$root.done" ]; then
    # shellcheck disable=SC1091
    release=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
    names=
    for name in $BUILD_PACKAGES $VULKAN_PACKAGES libcmocka-dev; do
        case $name in
        *-dev~) apt-cache show --no-all-versions "${name%\~}" >/dev/null 2>&1 || continue ;;
        *-dev) ;;
        *) continue ;;
        esac
        names=$names,${name%\~}
    done
    rm -rf "$root"
    # shellcheck disable=SC2086
    mmdebstrap --quiet --variant=extract --architectures=arm64 --include="${names#,}" \
        "$release" "$root" ${SCONCE_MIRROR-}
    touch "$root.done"
fi
root=$(cd "$root" && pwd)
ccache=$(command -v ccache >/dev/null 2>&1 && echo "'ccache', ") || ccache=
cat >"$root.ini" <<INI
[binaries]
c = [${ccache}'aarch64-linux-gnu-gcc', '--sysroot=$root']
ar = 'aarch64-linux-gnu-ar'
strip = 'aarch64-linux-gnu-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['env', 'SCONCE_TEST_EMULATED=1', 'qemu-aarch64', '-cpu', 'max,pauth-impdef=on', '-L', '$root']

[properties]
sys_root = '$root'
pkg_config_libdir = ['$root/usr/lib/aarch64-linux-gnu/pkgconfig', '$root/usr/share/pkgconfig']

[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
INI
