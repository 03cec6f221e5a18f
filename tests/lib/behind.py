# SPDX-License-Identifier: Apache-2.0
"""Pauses the background builds that tests/run.sh starts in a session of their own."""
import contextlib
import os
import subprocess


@contextlib.contextmanager
def paused():
    """Pauses the background builds, as a context manager for tests that measure time."""
    session = os.environ.get("SCONCE_BEHIND")

    def tell(signal):
        if session:
            subprocess.run(["pkill", "-" + signal, "-s", session], check=False)

    tell("STOP")
    try:
        yield
    finally:
        tell("CONT")
