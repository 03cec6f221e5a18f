#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tries sconce from a source tree: installs missing packages, builds and starts sconce, and asks one question
# through the HTTP API. To install packages, it needs Debian 12 or newer, and root or sudo; elsewhere the libraries
# that packages.sh lists must be installed.
set -u

usage() {
    cat <<EOF
Usage: sh packaging/try.sh [OPTION]...
Builds sconce, starts it, and asks one question through its HTTP API.

  --model PATH   use this model (a .gguf file or a Hugging Face directory) instead of the bundled guide
  --ask TEXT     ask this question
  --port N       listen on 127.0.0.1:N (7266, or a free port if that is in use)
  --keep         leave the server running
  --no-install   install no packages
  -h, --help     this text

SCONCE_BUILD names the build directory (default: build-try).
EOF
}

tree=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd) || exit 1
model='' ask='' port='' keep='' install=yes

wrong() {
    echo "try.sh: $1; see sh packaging/try.sh --help" >&2
    exit 2
}

while [ $# -gt 0 ]; do
    case $1 in
    --model | --ask | --port)
        [ $# -gt 1 ] || wrong "$1 needs a value"
        case $1 in
        --model) model=$2 ;;
        --ask) ask=$2 ;;
        --port) port=$2 ;;
        esac
        shift
        ;;
    --model=*) model=${1#*=} ;;
    --ask=*) ask=${1#*=} ;;
    --port=*) port=${1#*=} ;;
    --keep) keep=yes ;;
    --no-install) install='' ;;
    -h | --help)
        usage
        exit 0
        ;;
    *) wrong "unknown option \"$1\"" ;;
    esac
    shift
done
case $port in *[!0-9]*) wrong "--port needs a number, not \"$port\"" ;; esac

if [ -n "$model" ]; then
    [ -e "$model" ] || wrong "there is no $model"
    model=$(realpath -- "$model")
    [ -n "$ask" ] || ask="Tell me in one sentence what a socket is."
else
    model=$tree/packaging/guide/sconce-guide.gguf
    [ -n "$ask" ] || ask="What is sconce?"
fi
models=$(dirname -- "$model")
name=$(basename -- "$model" .gguf)
case $name in *-00001-of-[0-9][0-9][0-9][0-9][0-9]) name=${name%-*-of-*} ;; esac

# Messages show the path of the build directory relative to the tree, as a user in the tree would type it.
cd "$tree" || exit 1
build=${SCONCE_BUILD:-build-try}
work=$(mktemp -d) || exit 1
server='' unit=''

stop_server() {
    if [ -n "$unit" ]; then
        systemctl --user stop "$unit" >/dev/null 2>&1
    elif [ -n "$server" ]; then
        kill "$server" 2>/dev/null
        wait "$server" 2>/dev/null
    fi
    server='' unit=''
}
finish() {
    status=$?
    trap - EXIT
    stop_server
    rm -rf "$work"
    exit $status
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

now() { # prints the time in milliseconds
    n=$(date +%s%N)
    echo "${n%??????}"
}
seconds() { # prints milliseconds as seconds
    printf '%d.%02d' $(($1 / 1000)) $(($1 % 1000 / 10))
}
begin=$(now)
unfinished=''
step() {
    step_at=$(now)
    printf '%-44s' "$1"
    unfinished=yes
}
done_step() {
    echo "$(seconds $(($(now) - step_at))) s${1:+  ($1)}"
    unfinished=''
}
. packaging/packages.sh

# shellcheck disable=SC2086
if [ -n "$install" ] && command -v apt-get >/dev/null 2>&1; then
    install_packages $BUILD_PACKAGES $VULKAN_PACKAGES $TRY_PACKAGES || fail "install the packages named above, or \
correct apt (network? sources?), and run this again; --no-install skips this step"
    step "Packages"
    echo "$(seconds $(($(now) - begin))) s"
fi
for program in meson ninja cc curl; do
    command -v "$program" >/dev/null 2>&1 || fail "there is no $program. On Debian: apt-get \
install $(echo $BUILD_PACKAGES $VULKAN_PACKAGES $TRY_PACKAGES | tr -d '~'). Elsewhere install the same libraries \
under your distribution's names"
done

libh2o_source 2>"$work/log" || fail "the build needs libh2o; see above" "$work/log"

has_vulkan() {
    grep -q -e -DHAVE_VULKAN=1 "$build/build.ninja"
}
can_build_vulkan() {
    command -v glslangValidator >/dev/null 2>&1 &&
        echo '#include <vulkan/vulkan_core.h>' | cc -fsyntax-only -x c - 2>/dev/null
}
step "Build ($build)"
if [ ! -f "$build/build.ninja" ]; then
    meson setup "$build" --buildtype=release -Dtests=disabled >"$work/log" 2>&1 ||
        fail "meson could not set up $build; a missing library is named above" "$work/log"
elif ! has_vulkan; then
    # Vulkan's headers may have been installed after the last build. Only --wipe makes meson look
    # for them again.
    again=--reconfigure
    can_build_vulkan && again=--wipe
    meson setup "$again" "$build" >"$work/log" 2>&1 ||
        fail "meson could not set up $build again; remove it" "$work/log"
fi
vulkan='with Vulkan'
has_vulkan || vulkan=$(sed -n 's/^ *Vulkan *: no \((.*)\)$/without Vulkan \1/p' "$work/log")
build_all() {
    if [ ! -t 1 ]; then
        ninja -C "$build" >"$work/log" 2>&1
        return
    fi
    ninja -C "$build" >"$work/log" 2>&1 &
    ninja=$!
    while kill -0 "$ninja" 2>/dev/null; do
        printf '\r%-44s' "Build ($build) $(sed -n '$s/^\(\[[0-9/]*\]\).*/\1/p' "$work/log")"
        sleep 0.2
    done
    printf '\r%-44s' "Build ($build)"
    wait "$ninja"
}
build_all ||
    fail "the build failed; \`ninja -C $build\` shows the full output; remove $build to start again" \
        "$work/log"
done_step "$vulkan"
sconce=$build/services/cli/sconce

step "Start"
choice=${port:-7266}
started=''
for try in "$choice" 0; do
    if [ -d /run/systemd/system ] && systemctl --user show-environment >/dev/null 2>&1; then
        # The user's service manager runs the server; stopping the unit ends it.
        unit=sconce-try-$$
        systemd-run --user --quiet --collect --unit="$unit" --property=WorkingDirectory="$tree" \
            --property=StandardError="append:$work/serve" -- "$tree/$sconce" serve \
            --listen "127.0.0.1:$try" --models "$models" >"$work/log" 2>&1 || unit=''
    fi
    if [ -z "$unit" ]; then
        # With --keep, closing the terminal must not end the server. Therefore the server gets a session of its own.
        setsid "$sconce" serve --listen "127.0.0.1:$try" --models "$models" >"$work/serve" 2>&1 &
        server=$!
    fi
    tries=0
    while [ $((tries += 1)) -le 300 ]; do
        url=$(sed -n 's,^Listening on \(http://127[^ ]*\)/v1$,\1,p' "$work/serve" 2>/dev/null)
        if [ -n "$url" ] && curl -sf -m 5 -o "$work/health" "$url/health"; then
            started=yes
            break 2
        fi
        if [ -n "$unit" ]; then
            systemctl --user is-active --quiet "$unit" || break
        else
            kill -0 "$server" 2>/dev/null || break
        fi
        sleep 0.1
    done
    stop_server
    # If the default port is in use, try a free port; a port that the user named is not replaced.
    if [ -n "$port" ] || ! grep -q "in use" "$work/serve"; then
        break
    fi
done
[ -n "$started" ] || fail "the server did not start; its messages are above. If the port is taken, \
choose another with --port" "$work/serve"
done_step "$url"

quote() { # prints a text as a JSON string
    printf '%s' "$1" | tr '\n\t' '  ' | sed 's/\\/\\\\/g; s/"/\\"/g; s/^/"/; s/$/"/'
}
# read_stream: reads lines and prints the answer. A line that begins with T has a piece of the answer,
# a line that begins with N has the number of tokens, and a line that begins with E has an error.
read_stream() {
    first='' last='' tokens=''
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in
        N*) tokens=${line#N} ;;
        E*) printf '%b\n' "${line#E}" >"$work/error" ;;
        T*)
            last=$(now)
            [ -n "$first" ] || first=$last
            printf '%b' "${line#T}"
            ;;
        esac
    done
    printf '%s %s %s\n' "${first:-0}" "${last:-0}" "${tokens:-0}" >"$work/times"
}
json_text='\(\([^"\\]\|\\.\)*\)'
unescape='s/\\"/"/g; s/\\u001b//g'
# ask_api PATH FIELD PIECE: sends the question and prints the streamed answer. FIELD is the JSON member
# with the question, and PIECE is the name of the member with the text in the events.
ask_api() {
    sent=$(now)
    curl -sSN -m 600 "$url$1" -H 'Content-Type: application/json' -d "{
        \"model\": $(quote "$name"), $2, \"temperature\": 0, \"max_tokens\": 256,
        \"stream\": true, \"stream_options\": {\"include_usage\": true}}" 2>"$work/curl" |
        tee "$work/stream" |
        sed -u -n "/\"error\" *:/ { s/.*\"message\" *: *\"$json_text\".*/E\1/p; d }
            s/.*\"completion_tokens\" *: *\([0-9]*\).*/N\1/p
            s/^data:.*\"$3\" *: *\"$json_text\".*/T\1/; t text
            d
            :text
            /^T\$/d
            $unescape
            p" |
        read_stream
    read -r first last tokens <"$work/times"
}

printf '\n> %s\n\n' "$ask"
ask_api /v1/chat/completions "\"messages\": [{\"role\": \"user\", \"content\": $(quote "$ask")}]" content
path=/v1/chat/completions
if grep -q '"no_chat_template"' "$work/stream"; then
    printf '(This model has no chat template, so it continues the text.)\n\n%s' "$ask"
    rm -f "$work/error"
    ask_api /v1/completions "\"prompt\": $(quote "$ask")" text
    path=/v1/completions
fi
echo
if [ -s "$work/error" ] || [ "$first" = 0 ]; then
    cat "$work/curl" "$work/error" 2>/dev/null >&2
    head -c 2000 "$work/stream" >&2
    fail "the model gave no answer; the server's messages are above" "$work/serve"
fi
rate=''
[ "$tokens" -gt 1 ] && [ "$last" -gt "$first" ] &&
    rate=", $((tokens * 1000 / (last - first))) tokens/s"
cat <<EOF

First token after $(seconds $((first - sent))) s (including the start of the service and the opening of the model)$rate;
$(seconds $((last - begin))) s since this script began.

EOF

if [ -n "$keep" ]; then
    if [ -n "$unit" ]; then
        how="systemctl --user stop $unit"
    else
        how="kill $server"
    fi
    cat <<EOF
sconce keeps running at $url/v1; \`$how\` stops it. Next:

EOF
    base=$url
    server='' unit=''
else
    base=http://127.0.0.1:7266
    echo "Next, in $tree:"
    echo
fi
case $model in
"$tree"/packaging/guide/sconce-guide.gguf)
    arg=packaging/guide/sconce-guide.gguf question='How do I add a model?'
    ;;
*)
    arg=$model question='Hello!'
    [ "$path" = /v1/chat/completions ] || question='Once upon a time'
    ;;
esac
case $arg in *[!A-Za-z0-9_./+-]*) arg="'$arg'" ;; esac
echo "  $sconce run $arg \"$question\""
if [ -z "$keep" ]; then
    case $models in
    "$tree"/*) dir=${models#"$tree"/} ;;
    *) dir=$models ;;
    esac
    case $dir in *[!A-Za-z0-9_./+-]*) dir="'$dir'" ;; esac
    echo "  $sconce serve --models $dir    # then point any OpenAI client at $base/v1"
else
    body="\"messages\": [{\"role\": \"user\", \"content\": \"$question\"}]"
    [ "$path" = /v1/chat/completions ] || body="\"prompt\": \"$question\", \"max_tokens\": 100"
    echo "  curl -N $base$path -H 'Content-Type: application/json' \\"
    echo "    -d '{\"model\": \"$name\", \"stream\": true, $body}'"
fi
