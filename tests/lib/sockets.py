# SPDX-License-Identifier: Apache-2.0
"""Functions for sockets that several tests use."""
import socket


def copy_bytes(source, target):
    """Copies what arrives from one socket to the other, until the first is closed; the second then
    gets the end of the data. Errors end the copying."""
    try:
        while part := source.recv(65536):
            target.sendall(part)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass
