# SPDX-License-Identifier: Apache-2.0
# Lists of packages for Debian 12 and newer, and functions. This file is sourced in the top directory of the tree by
# packaging/build-needs.sh, packaging/try.sh, packaging/build-deb.sh, packaging/release.sh and tests/run.sh. The
# package of an entry NAME~ is installed only if the distribution has it.
# shellcheck shell=sh

# dpkg-dev tells Meson the library directories; ca-certificates is needed when Meson downloads files.
BUILD_PACKAGES="gcc libc6-dev dpkg-dev ca-certificates meson ninja-build pkg-config libh2o-evloop-dev~ libcurl4-openssl-dev libssl-dev libyaml-dev
    libsystemd-dev libjansson-dev libpcre2-dev libutf8proc-dev libedit-dev libseccomp-dev zlib1g-dev
    libsqlite3-dev libxxhash-dev libavformat-dev libavcodec-dev libavutil-dev libswresample-dev"
# Vulkan's headers and the shader compiler, without which the Vulkan backend is not built, and the loader, which sconce
# opens at run time.
VULKAN_PACKAGES="libvulkan-dev glslang-tools libvulkan1"
TRY_PACKAGES="curl ca-certificates"
TEST_PACKAGES="g++ clang clang-format libclang-rt-dev llvm libcmocka-dev python3 python3-venv
    python3-pytest python3-pytest-xdist python3-httpx python3-yaml git curl ca-certificates procps
    strace systemd systemd-dev~ bash-completion zsh fish mandoc man-db ffmpeg apt-utils gnupg"
# With these packages the tests run Vulkan without a GPU, and with its validation layers.
VULKAN_TEST_PACKAGES="mesa-vulkan-drivers vulkan-validationlayers spirv-tools"
# The tests of the web page need a browser. Its packages take 131 MB as a download, so only `tests/run.sh full` installs
# them.
BROWSER_PACKAGES="chromium chromium-driver"
# The tests that run a real systemd in containers need these packages.
MACHINE_PACKAGES="mmdebstrap systemd-container util-linux iproute2 lintian~ blhc~"
# packaging/build-deb.sh needs these packages before it installs the build dependencies in packaging/debian/control.
DEB_PACKAGES="dpkg-dev git"
# packaging/release.sh needs these packages.
RELEASE_PACKAGES="apt-utils binutils dpkg-dev git gnupg patchelf python3 xz-utils"
# With these packages, tests on machines with other processors build for arm64 and run the results.
ARM_PACKAGES="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user mmdebstrap"

# fail MESSAGE [LOG]: prints the end of a log, then the message, and ends the script with status 1. If $unfinished is
# not empty, the last line of the standard output has no end yet.
fail() {
    [ -z "${unfinished-}" ] || echo
    if [ -s "${2-}" ]; then
        tail -n 60 "$2" >&2
    fi
    printf '%s: %s\n' "${0##*/}" "$1" >&2
    exit 1
}

# missing_packages NAME...: prints the packages that are not installed. It prints a package NAME~ as NAME, and only if
# the distribution has it.
missing_packages() {
    for p in "$@"; do
        case $(dpkg-query -W -f '${Status}' "${p%\~}" 2>/dev/null) in
        *" installed") continue ;;
        esac
        case $p in
        *\~) apt-cache show --no-all-versions "${p%\~}" >/dev/null 2>&1 || continue ;;
        esac
        echo "${p%\~}"
    done
}

# apt_progress: reads the progress of apt-get (APT::Status-Fd) and shows it. At a terminal, it
# updates one line; elsewhere, it prints a new line after every 10 percent.
apt_progress() {
    shown=-1
    while IFS= read -r line; do
        case $line in
        dlstatus:* | pmstatus:*) ;;
        *) continue ;;
        esac
        # KIND:PACKAGE[:ARCHITECTURE]:PERCENT:WHAT
        rest=${line#*:*:}
        case $rest in [!0-9]*) rest=${rest#*:} ;; esac
        percent=${rest%%[!0-9]*}
        what=${rest#*:}
        [ -n "$percent" ] || continue
        if [ -t 1 ]; then
            printf '\r\033[K  %3d %% %.60s' "$percent" "$what"
        elif [ $((percent / 10)) -ne "$shown" ]; then
            printf '  %3d %% %s\n' "$percent" "$what"
            shown=$((percent / 10))
        fi
    done
    if [ -t 1 ]; then printf '\r\033[K'; fi
}

# apt_get NAME...: installs packages with apt-get. Prints its progress; all other output goes to
# $log. apt-get closes the descriptor of the progress in its children. This descriptor is not the
# standard output, because scripts of packages may fail if their standard output is closed.
apt_get() {
    # shellcheck disable=SC2016
    $as_root env LC_ALL=C DEBIAN_FRONTEND=noninteractive sh -c 'exec 3>&1 >&2 && exec apt-get "$@"' sh -q -y \
        --no-install-recommends -o APT::Status-Fd=3 -o Dpkg::Use-Pty=0 install "$@" 2>>"$log" </dev/null
}

# apt_install NAME...: installs packages, and shows the size of the download and the progress.
apt_install() {
    LC_ALL=C $as_root apt-get -q --assume-no --no-install-recommends install "$@" 2>/dev/null |
        sed -nE 's/^(Need to get|After this operation)/  &/p'
    {
        apt_get "$@"
        echo $? >"$log.status"
    } | apt_progress
    status=$(cat "$log.status")
    rm -f "$log.status"
    return "$status"
}

# install_packages NAME...: installs those packages that are missing; if it cannot, prints what to do.
install_packages() {
    missing=$(missing_packages "$@" | tr '\n' ' ')
    [ -z "$missing" ] && return 0
    as_root=
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null 2>&1; then
            echo "Missing packages: $missing" >&2
            echo "Install them as root: apt-get install $missing" >&2
            return 1
        fi
        as_root=sudo
    fi
    log=$(mktemp)
    echo "Installing with apt-get, without recommended packages:"
    # Search for missing packages again after the update, because only now the available packages are known.
    if $as_root apt-get update -qq >"$log" 2>&1; then
        missing=$(missing_packages "$@" | tr '\n' ' ')
        echo "$missing" | fold -s -w 96 | sed 's/^/  /'
        # shellcheck disable=SC2086
        if apt_install $missing; then
            rm -f "$log"
            return 0
        fi
    fi
    tail -n 20 "$log" >&2
    echo "apt-get could not install: $missing" >&2
    rm -f "$log"
    return 1
}

# libh2o_is_bundled: succeeds if the build uses libh2o from packaging/subprojects, because the system has no
# suitable version.
libh2o_is_bundled() {
    ! pkg-config --exists 'libh2o-evloop >= 0.13' 'libh2o-evloop < 0.14' 2>/dev/null
}

# libh2o_source: downloads and verifies the source of libh2o, if the build uses libh2o from packaging/subprojects
# and the source is not there yet. If the download fails, prints what to do.
libh2o_source() {
    libh2o_is_bundled || return 0
    wrap=packaging/subprojects/libh2o.wrap
    url=$(sed -n 's/^source_url = //p' $wrap)
    hash=$(sed -n 's/^source_hash = //p' $wrap)
    file=packaging/subprojects/packagecache/$(sed -n 's/^source_filename = //p' $wrap)
    if [ ! -f "$file" ]; then
        mkdir -p "${file%/*}"
        curl -fsSL --retry 2 -m 300 -o "$file.part" "$url" && mv "$file.part" "$file" || {
            rm -f "$file.part"
            echo "This system has no package of libh2o 2.2, and its source could not be downloaded." >&2
            echo "Put $url at $file" >&2
            return 1
        }
    fi
    echo "$hash  $file" | sha256sum --check --status && return 0
    echo "$file does not have the checksum in $wrap; remove it" >&2
    return 1
}
