#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs sconce from the directory of this script for one user, without root, and removes it again. The files of
# the tarball go to one directory. Links, units, and the small model go to the usual places in the home directory.
# The file "installed" in the directory lists what is outside of it.
set -eu

usage() {
    cat <<TEXT
Usage: sh install.sh --user [--prefix DIR] [--no-systemd]
       sh install.sh --uninstall [--prefix DIR] [--no-systemd]
Installs sconce for the user who runs it.

  --user         install, or replace another version
  --uninstall    stop and remove what --user installed; models, keys and configuration stay
  --prefix DIR   the directory of bin and lib instead of ~/.local
  --no-systemd   do not call systemctl --user
TEXT
}

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

action='' systemd=yes started=
prefix=
while [ $# -gt 0 ]; do
    case $1 in
    --user) action=install ;;
    --uninstall) action=uninstall ;;
    --no-systemd) systemd= ;;
    --prefix)
        [ $# -gt 1 ] || fail "--prefix needs a directory"
        prefix=$2
        shift
        ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        usage >&2
        fail "there is no option $1"
        ;;
    esac
    shift
done
[ "$action" ] || {
    usage >&2
    fail "say --user or --uninstall; packages install sconce for the whole machine"
}
case ${HOME-} in
/*) ;;
*) fail "there is no home directory (\$HOME)" ;;
esac

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
# An installed copy of this script knows its own prefix.
[ -z "$prefix" ] && [ -f "$here/installed" ] && prefix=${here%/lib/sconce}
prefix=${prefix:-$HOME/.local}
case $prefix in
/*) ;;
*) prefix=$PWD/$prefix ;;
esac
app=$prefix/lib/sconce
data=${XDG_DATA_HOME:-$HOME/.local/share}
config=${XDG_CONFIG_HOME:-$HOME/.config}
units=$data/systemd/user
list=$app/installed
tab=$(printf '\t')
# Units contain the path of the directory, and some characters have a special meaning in units.
case $app in
*[!A-Za-z0-9/._@+-]*) fail "the directory $app has a character that units cannot contain; choose another --prefix" ;;
esac

# user_systemd ARGUMENT...: calls the systemd of the user, if there is one.
user_systemd() {
    [ "$systemd" ] && command -v systemctl >/dev/null 2>&1 && systemctl --user "$@" >/dev/null 2>&1
}

# remove_listed: removes the files outside of the directory, which belong to the installed version. Models that a user
# has changed stay. Files that another program has put in the place of a link stay, too.
remove_listed() {
    [ -f "$list" ] || return 0
    while IFS=$tab read -r kind path rest; do
        case $kind in
        link) [ "$(readlink "$path")" != "$rest" ] || rm -f "$path" ;;
        copy) ! cmp -s "$app/$rest" "$path" || rm -f "$path" ;;
        unit) rm -f "$path" ;;
        esac
    done <"$list"
}

uninstall() {
    [ -f "$list" ] || fail "sconce is not installed in $app"
    names=$(sed -n "s,^unit$tab.*/\\(sconce[^/$tab]*\\)$tab.*,\\1,p" "$list")
    # shellcheck disable=SC2086
    user_systemd disable --now $names || true
    # shellcheck disable=SC2086
    user_systemd stop $names || true
    remove_listed
    rm -rf "$app"
    user_systemd daemon-reload || true
    rmdir "$prefix/bin" "$prefix/lib" 2>/dev/null || true
    echo "sconce is removed. These stay, if they exist:"
    echo "  models         $data/sconce/models"
    echo "  configuration  $config/sconce (with the keys)"
    echo "  history        ${XDG_STATE_HOME:-$HOME/.local/state}/sconce*; before systemd 254 also $config/sconce-*"
    echo "  cache          ${XDG_CACHE_HOME:-$HOME/.cache}/sconce*"
}

# check_system: fails with a reason if the programs cannot run here.
check_system() {
    message=$("$here/bin/sconce" --version 2>&1) && return 0
    libc=$(getconf GNU_LIBC_VERSION 2>/dev/null) || libc="no GNU C library"
    echo "$message" >&2
    fail "the programs do not run on this system ($(uname -m), $libc). They need $(cat "$here/share/doc/sconce/needs")"
}

# note KIND PATH TARGET: adds a line to the list of what is installed.
note() {
    printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$list"
}

# link TARGET PATH: makes PATH a link to TARGET. An existing file that is not such a link stays.
link() {
    mkdir -p "$(dirname -- "$2")"
    if [ -e "$2" ] || [ -L "$2" ]; then
        echo "install.sh: $2 exists already and stays as it is" >&2
        return 0
    fi
    ln -s "$1" "$2"
    note link "$2" "$1"
}

install_links() {
    link "$app/bin/sconce" "$prefix/bin/sconce"
    for page in "$app"/share/man/man*/*; do
        link "$page" "$data/man/${page#"$app/share/man/"}"
    done
    for file in "$app"/share/bash-completion/completions/* "$app"/share/fish/vendor_completions.d/* \
        "$app"/share/zsh/site-functions/*; do
        [ ! -e "$file" ] || link "$file" "$data/${file#"$app/share/"}"
    done
}

# install_units: writes the units with the directory of this installation. The units hide the home directory from the
# services, so they bind the directory of the programs. The function also opens the sockets, as packages do.
install_units() {
    echo "Writing the units to $units"
    mkdir -p "$units"
    for unit in "$app"/share/systemd/user/sconce*; do
        name=${unit##*/}
        sed -e "s,/usr/libexec/sconce/,$app/libexec/sconce/,g" \
            -e "s,^ProtectHome=tmpfs\$,&\\nBindReadOnlyPaths=$app," "$unit" >"$units/$name"
        note unit "$units/$name" "$name"
    done
    user_systemd daemon-reload || return 0
    # No service runs before a client connects to a socket.
    user_systemd enable --now sconce.target || return 0
    started=yes
    # shellcheck disable=SC2046
    user_systemd try-restart $(cd "$units" && echo sconce-*.service) || true
}

# install_model: copies the small model that answers questions about sconce.
install_model() {
    mkdir -p "$data/sconce/models"
    for model in "$app"/share/sconce/models/*; do
        to=$data/sconce/models/${model##*/}
        [ -e "$to" ] || {
            cp "$model" "$to"
            note copy "$to" "${model#"$app/"}"
        }
    done
}

# install_certificates: libcurl of the tarball expects the certificates of authorities where Debian has them. On other
# systems the configuration names the file.
install_certificates() {
    [ ! -e /etc/ssl/certs/ca-certificates.crt ] || return 0
    for file in /etc/pki/tls/certs/ca-bundle.crt /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem \
        /etc/ssl/ca-bundle.pem /etc/ssl/cert.pem; do
        [ -r "$file" ] || continue
        if [ -e "$config/sconce/sconce.yaml" ]; then
            grep -q '^ *certificates:' "$config/sconce/sconce.yaml" ||
                echo "For sconce pull, add to $config/sconce/sconce.yaml:  pull: {certificates: $file}"
        else
            mkdir -p "$config/sconce"
            printf 'pull:\n  certificates: %s\n' "$file" >"$config/sconce/sconce.yaml"
        fi
        return 0
    done
    echo "No certificates of authorities were found; sconce pull needs them (package ca-certificates)."
}

install() {
    [ -x "$here/bin/sconce" ] || fail "$here is not the unpacked tarball of a release"
    [ "$here" != "$app" ] || fail "sconce is already installed here; run install.sh of another version"
    check_system
    mkdir -p "$prefix/lib" "$prefix/bin"
    [ ! -e "$app" ] || [ -f "$list" ] || fail "$app exists and is no installation of this script"
    rm -rf "$app.new" "$app.old"
    echo "Copying to $app"
    cp -RP "$here" "$app.new"
    remove_listed
    [ ! -e "$app" ] || mv "$app" "$app.old"
    mv "$app.new" "$app"
    rm -rf "$app.old"
    : >"$list"
    install_links
    install_units
    install_model
    install_certificates
    echo "Installed $("$app/bin/sconce" --version) for $(id -un)."
    case :$PATH: in
    *:"$prefix/bin":*) sconce=sconce ;;
    *)
        sconce=$prefix/bin/sconce
        echo "$prefix/bin is not in your PATH, so the commands below name it."
        ;;
    esac
    if [ "$started" ]; then
        echo "The services start when a client connects; $sconce status shows the addresses."
    else
        echo "Start the services:   $sconce serve"
    fi
    echo "Ask a question:       $sconce run sconce-guide 'What is sconce?'"
    echo "Remove sconce:        sh $app/install.sh --uninstall"
}

if [ "$action" = install ]; then install; else uninstall; fi
