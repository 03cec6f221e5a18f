# SPDX-License-Identifier: Apache-2.0
# What a Debian 12 needs; sourced by packaging/try.sh and tests/run.sh.
# shellcheck shell=sh

BUILD_PACKAGES="gcc libc6-dev meson ninja-build pkg-config libh2o-evloop-dev libssl-dev libyaml-dev
    libsystemd-dev libjansson-dev libpcre2-dev libutf8proc-dev libedit-dev zlib1g-dev"
TRY_PACKAGES="curl ca-certificates"
TEST_PACKAGES="g++ clang clang-format libclang-rt-14-dev llvm libcmocka-dev python3 python3-venv
    python3-pytest python3-httpx git curl ca-certificates procps systemd"
# The Debian packages, beside BUILD_PACKAGES.
DEB_PACKAGES="dpkg-dev debhelper dh-apparmor po-debconf cmark-gfm libcmocka-dev python3 libseccomp-dev
    git"
# The kernels of the other architecture, where the machine can take them.
ARM_PACKAGES="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"

# install_packages NAME...: installs what is missing; says what to do when it cannot.
install_packages() {
    missing=
    for p in "$@"; do
        case $(dpkg-query -W -f '${Status}' "$p" 2>/dev/null) in
        *" installed") ;;
        *) missing="$missing $p" ;;
        esac
    done
    [ -z "$missing" ] && return 0
    as_root=
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null 2>&1; then
            echo "Missing packages:$missing" >&2
            echo "Install them as root: apt-get install$missing" >&2
            return 1
        fi
        as_root=sudo
    fi
    log=$(mktemp)
    # shellcheck disable=SC2086
    if $as_root apt-get update -qq >"$log" 2>&1 &&
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            $missing >>"$log" 2>&1; then
        rm -f "$log"
        return 0
    fi
    tail -n 20 "$log" >&2
    echo "apt-get could not install:$missing" >&2
    rm -f "$log"
    return 1
}
