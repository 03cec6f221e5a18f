#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the build dependencies of sconce on Debian 12 and newer.
set -eu

usage() {
    cat <<EOF
Usage: sh packaging/build-needs.sh [--list]
Installs the packages that are needed to build sconce, on Debian 12 and newer.

  --list       print the names of missing packages, and install nothing
  -h, --help   this text
EOF
}

cd "$(dirname -- "$0")/.."
. packaging/packages.sh
# shellcheck disable=SC2086
case ${1-} in
'') install_packages $BUILD_PACKAGES $VULKAN_PACKAGES ;;
--list) missing_packages $BUILD_PACKAGES $VULKAN_PACKAGES ;;
-h | --help) usage ;;
*)
    usage >&2
    exit 2
    ;;
esac
