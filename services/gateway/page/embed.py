#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the files of the web page as a C header: their types, digests and bytes, plain and packed
with gzip.

    embed.py FILE... > page-files.h
"""
import gzip
import hashlib
import pathlib
import sys

TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


def array(name, data):
    """Returns the definition of an array of bytes."""
    lines = [", ".join(map(str, data[i:i + 24])) for i in range(0, len(data), 24)]
    return "static const unsigned char %s[] = {\n    %s};" % (name, ",\n    ".join(lines))


def main(paths):
    print("/* Made by services/gateway/page/embed.py. */")
    print("#include <stddef.h>")
    rows = []
    for i, path in enumerate(map(pathlib.Path, paths)):
        data = path.read_bytes()
        print(array("page_plain_%d" % i, data))
        # The time is left out, so that the same files give the same bytes.
        print(array("page_gzip_%d" % i, gzip.compress(data, 9, mtime=0)))
        rows.append('    {"%s", "%s", "%s", page_plain_%d, page_gzip_%d, sizeof(page_plain_%d), '
                    'sizeof(page_gzip_%d)},' % (path.name, TYPES[path.suffix],
                                                hashlib.sha256(data).hexdigest()[:32], i, i, i, i))
    print("static const struct page_file {\n    const char *name, *type, *digest;\n"
          "    const unsigned char *plain, *gzip;\n    size_t n_plain, n_gzip;\n} page_files[] = {")
    print("\n".join(rows))
    print("};")


if __name__ == "__main__":
    main(sys.argv[1:])
