# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# ask CURL-OPTION...: asks the model sconce-guide a question through the socket that the options name; fails unless
# the answer has text.
ask() {
    answer=$(curl -sS -m 60 "$@" -H 'Content-Type: application/json' -d '{"model": "sconce-guide",
        "messages": [{"role": "user", "content": "What is sconce?"}], "temperature": 0}')
    echo "$answer"
    echo "$answer" | grep -Eq '"content": *"[^"]{8}'
}

# status CURL-OPTION...: prints the HTTP status of a GET request.
status() {
    curl -sS -m 60 -o /dev/null -w '%{http_code}' "$@"
}
