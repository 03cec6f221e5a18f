#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes an apt repository from Debian packages, with apt-ftparchive:
#
#   repository.sh DIR SUITE PACKAGES...
#
# DIR gets pool/SUITE/main/s/sconce with the packages, and dists/SUITE with Packages for each architecture, and Release.
# SUITE is the code name of the Debian release for which the packages are built; other releases of the same repository
# stay. SOURCE_DATE_EPOCH is the date of the repository. If SIGN_KEY names a key of the keyring in GNUPGHOME, it signs
# InRelease and Release.gpg, and sconce.gpg gets the public key.
set -eu
export LC_ALL=C.UTF-8
dir=$1
suite=$2
shift 2
pool=pool/$suite/main/s/sconce
dist=dists/$suite
rm -rf "${dir:?}/$pool" "${dir:?}/$dist"
mkdir -p "$dir/$pool" "$dir/$dist"
cp -p -- "$@" "$dir/$pool/"
cd "$dir"

archs=$(for deb in "$pool"/*.deb; do dpkg-deb -f "$deb" Architecture; done | grep -vx all | sort -u)
for arch in $archs; do
    mkdir -p "$dist/main/binary-$arch"
    index=$dist/main/binary-$arch/Packages
    apt-ftparchive --arch "$arch" packages "$pool" >"$index"
    xz -6 -T1 -k "$index"
done

release=$(mktemp)
trap 'rm -f "$release"' EXIT
apt-ftparchive -o "APT::FTPArchive::Release::Origin=sconce" -o "APT::FTPArchive::Release::Label=sconce" \
    -o "APT::FTPArchive::Release::Suite=$suite" -o "APT::FTPArchive::Release::Codename=$suite" \
    -o "APT::FTPArchive::Release::Architectures=$(echo $archs)" -o "APT::FTPArchive::Release::Components=main" \
    -o "APT::FTPArchive::Release::Date=$(date -u -d "@$SOURCE_DATE_EPOCH" '+%a, %d %b %Y %H:%M:%S UTC')" \
    -o "APT::FTPArchive::Release::MD5=no" -o "APT::FTPArchive::Release::SHA1=no" \
    -o "APT::FTPArchive::MD5=no" -o "APT::FTPArchive::SHA1=no" \
    release "$dist" >"$release"
cp "$release" "$dist/Release"
chmod 644 "$dist/Release"
[ "${SIGN_KEY-}" ] || exit 0
gpg --batch --yes --local-user "$SIGN_KEY" --digest-algo SHA512 --clearsign --output "$dist/InRelease" "$dist/Release"
gpg --batch --yes --local-user "$SIGN_KEY" --digest-algo SHA512 --armor --detach-sign --output "$dist/Release.gpg" \
    "$dist/Release"
gpg --batch --yes --export "$SIGN_KEY" >sconce.gpg
