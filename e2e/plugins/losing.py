"""For the step `lose` of programs here: the agent at the address that is given dies while the program uses it."""

import socket
import sys
import time

LIMIT_S = 120


def await_loss(address: str) -> None:
    """Says that the agent may be killed, and waits until it has been."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    host, port = address.removeprefix("gd2fs://").rsplit(":", 1)
    ends = time.monotonic() + LIMIT_S
    while time.monotonic() < ends:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except ConnectionRefusedError:
            return
        time.sleep(0.01)
    raise AssertionError(f"{address} still answers")
