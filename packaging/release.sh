#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes all files of a release from a git tag. The same tag gives the same bytes, except for signatures, on the same
# Debian release with the same versions of its packages; packaging/check-reproducible.sh --release compares two runs.
set -eu

usage() {
    cat <<TEXT
Usage: sh packaging/release.sh (--key FILE | --key-id ID | --unsigned) [OPTION]... TAG
Makes the release of a tag such as v0.1.0: the source, Debian packages in a signed apt repository,
a tarball for other distributions, lists of the libraries (SBOM), the changelog and checksums.

  --key FILE        sign with the secret key in FILE (gpg --export-secret-keys)
  --key-id ID       sign with this key of the own keyring
  --unsigned        sign nothing
  --out DIR         where the files go (default: release-VERSION); the directory must be new or empty
  --arch ARCH       build for ARCH; may be repeated (default: amd64 and arm64)
  --debs DIR        take the packages from DIR, where packaging/build-deb.sh has put those of the
                    same tag, and build only what is missing there
  --cve-list FILE   compare the libraries with the list of weaknesses of Debian's security tracker
                    (https://security-tracker.debian.org/tracker/data/json), and fail if one of
                    them is known and not accepted in packaging/release/accepted
TEXT
}

say() {
    printf '== %s\n' "$*"
}

tree=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck disable=SC1091
. "$tree/packaging/packages.sh"
key_file='' key_id='' unsigned='' out='' archs='' debs='' cve_list='' tag=
while [ $# -gt 0 ]; do
    case $1 in
    --key | --key-id | --out | --arch | --debs | --cve-list)
        [ $# -gt 1 ] || fail "$1 needs an argument"
        case $1 in
        --key) key_file=$2 ;;
        --key-id) key_id=$2 ;;
        --out) out=$2 ;;
        --arch) archs="$archs $2" ;;
        --debs) debs=$2 ;;
        --cve-list) cve_list=$2 ;;
        esac
        shift
        ;;
    --unsigned) unsigned=yes ;;
    -h | --help)
        usage
        exit 0
        ;;
    -*)
        usage >&2
        exit 2
        ;;
    *)
        [ -z "$tag" ] || fail "there are two tags, $tag and $1"
        tag=$1
        ;;
    esac
    shift
done
[ "$tag" ] || {
    usage >&2
    exit 2
}
case "${key_file:+1}${key_id:+1}${unsigned:+1}" in
1) ;;
*) fail "say exactly one of --key FILE, --key-id ID and --unsigned" ;;
esac
[ -z "$key_file" ] || [ -r "$key_file" ] || fail "the key $key_file cannot be read"
[ -z "$cve_list" ] || [ -r "$cve_list" ] || fail "the list of weaknesses $cve_list cannot be read"
[ -z "$debs" ] || [ -d "$debs" ] || fail "there is no directory $debs"

git="git -c safe.directory=*"
$git -C "$tree" rev-parse -q --verify "refs/tags/$tag^{commit}" >/dev/null || fail "there is no tag $tag in $tree"
own=$(dpkg --print-architecture)
archs=${archs:- amd64 arm64}
# shellcheck disable=SC1091
suite=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
[ "$suite" ] || fail "a release is made on Debian: this system has no code name in /etc/os-release"
# The script changes its directory below, so all paths have to be absolute.
began_in=$PWD
absolute() {
    case $1 in '' | /*) echo "$1" ;; *) echo "$began_in/$1" ;; esac
}
debs=$(absolute "$debs") key_file=$(absolute "$key_file") cve_list=$(absolute "$cve_list")
[ -z "${GNUPGHOME-}" ] || GNUPGHOME=$(absolute "$GNUPGHOME")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Everything below uses the tree of the tag, also the scripts.
$git clone --quiet --shared --branch "$tag" -c advice.detachedHead=false "$tree" "$work/tree" 2>"$work/log" || {
    fail "the tag $tag cannot be checked out" "$work/log"
}
cd "$work/tree"
version=$(python3 packaging/release/version.py)
python3 packaging/release/version.py check || fail "the files of $tag disagree about the version"
[ "$tag" = "v$version" ] || fail "the tag $tag is not v$version, the version in meson.build"
full=$(sed -n '1s/.*(\(.*\)).*/\1/p' packaging/debian/changelog)
SOURCE_DATE_EPOCH=$($git log -1 --format=%ct)
export SOURCE_DATE_EPOCH CCACHE_DISABLE=1
out=$(absolute "${out:-release-$version}")
[ -z "$(ls -A "$out" 2>/dev/null)" ] || fail "$out is not empty"
mkdir -p "$out"
# shellcheck disable=SC2086
install_packages $RELEASE_PACKAGES
if [ -d "$tree/packaging/subprojects/packagecache" ]; then
    cp -R "$tree/packaging/subprojects/packagecache" packaging/subprojects/
fi

# The agent of gpg keeps its socket in the directory of the keyring. Both are removed at the exit.
if [ "$key_file" ]; then
    GNUPGHOME=$work/keys
    export GNUPGHOME
    mkdir -m 700 "$GNUPGHOME"
    gpg --batch --quiet --import "$key_file" || fail "$key_file has no key that gpg can import"
    key_id=$(gpg --batch --with-colons --list-secret-keys | awk -F: '$1 == "fpr" { print $10; exit }')
    [ "$key_id" ] || fail "$key_file has no secret key"
    trap 'gpgconf --homedir "$work/keys" --kill all || true; rm -rf "$work"' EXIT
fi
[ -z "$key_id" ] || gpg --batch --list-secret-keys "$key_id" >/dev/null 2>&1 || fail "there is no secret key $key_id"

say "source of $tag"
# Files in the archive of a commit have the time of the commit.
$git -c tar.umask=0022 archive --format=tar --prefix="sconce-$version/" HEAD >"$work/source.tar"
xz -6 -T1 <"$work/source.tar" >"$out/sconce-$version.tar.xz"
rm "$work/source.tar"
python3 packaging/release/version.py changelog >"$out/CHANGELOG.md"

mkdir "$work/debs"
bills=
for arch in $archs; do
    if [ "$debs" ] && ls "$debs"/sconce_"$full"_"$arch".deb >/dev/null 2>&1; then
        say "packages for $arch, from $debs"
        find "$debs" -maxdepth 1 \( -name "*_${full}_$arch.deb" -o -name "*_${full}_all.deb" \) \
            ! -name '*-dbgsym_*' -exec cp -p -t "$work/debs" {} +
    else
        say "packages for $arch"
        option=
        [ "$arch" = "$own" ] || option="--arch $arch"
        # shellcheck disable=SC2086
        DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS-nocheck} noautodbgsym" sh packaging/build-deb.sh $option "$work/built" \
            >"$work/log" 2>&1 || {
            cp "$work/built/build.log" "$out/build-$arch.log" 2>/dev/null || true
            fail "the packages for $arch cannot be built; the full log is $out/build-$arch.log" "$work/log"
        }
        find "$work/built" -name '*.deb' -exec mv -t "$work/debs" {} +
    fi
    say "tarball and list of libraries for $arch"
    python3 packaging/release/libraries.py "$arch" "$work/debs" "$work/$arch"
    name=sconce-$version-linux-$arch
    python3 packaging/release/bundle.py "$name" "$work/$arch" "$out"
    python3 packaging/release/sbom.py "$name" "$version" "$suite" "$work/$arch" "$out/$name.cdx.json"
    bills="$bills $out/$name.cdx.json"
    rm -rf "${work:?}/$arch"
done

say "known weaknesses of the libraries"
status=0
# shellcheck disable=SC2086
python3 packaging/release/changelogs.py packaging/release/accepted $bills || status=$?
case $status in
0) ;;
1) fail "the libraries lack fixes that Debian has published, or their security support has ended; see above" ;;
*) echo "not compared with the changelogs of Debian" ;;
esac
if [ "$cve_list" ]; then
    # shellcheck disable=SC2086
    python3 packaging/release/weaknesses.py "$cve_list" packaging/release/accepted $bills ||
        fail "the release has weaknesses that are known and not accepted"
else
    echo "not compared with a list: --cve-list FILE names none, so weaknesses without a fix stay unknown"
fi

say "apt repository for $suite"
SIGN_KEY=$key_id sh packaging/release/repository.sh "$out/apt" "$suite" "$work"/debs/*.deb

say "checksums"
cd "$out"
find . -type f ! -name 'SHA256SUMS*' | sed 's,^\./,,' | LC_ALL=C sort | xargs sha256sum >"$work/sums"
mv "$work/sums" SHA256SUMS
[ -z "$key_id" ] || gpg --batch --yes --local-user "$key_id" --digest-algo SHA512 --armor --detach-sign SHA256SUMS
chmod -R u=rwX,go=rX .
find . -type f -printf '%10s  %P\n' | LC_ALL=C sort -k 2
