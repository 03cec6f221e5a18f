# SPDX-License-Identifier: Apache-2.0
"""What goes on behind the tests: the builds of tests/run.sh, in a session of their own."""
import contextlib
import os
import subprocess


@contextlib.contextmanager
def paused():
    """Within this, they stand still: for tests that look at the clock."""
    session = os.environ.get("SCONCE_BEHIND")

    def tell(signal):
        if session:
            subprocess.run(["pkill", "-" + signal, "-s", session], check=False)

    tell("STOP")
    try:
        yield
    finally:
        tell("CONT")
