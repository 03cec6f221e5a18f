#!/bin/sh
# Checks every #include "folder/file.h" of libinfer and services against libinfer/LAYERS and
# services/LAYERS.
set -u
cd "${1:-.}" || exit 2
exec python3 tests/lint/layers.py
