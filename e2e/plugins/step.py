"""The two steps of each program here, by processes of their own: `python PROGRAM.py store|load MOUNT`.

Both know the same bytes, so that a load compares what another node has stored.
"""

import random
import sys
from collections.abc import Callable

Step = Callable[[str], None]


def content(number: int, size: int) -> bytes:
    return random.Random(number).randbytes(size)


def run(store: Step, load: Step) -> None:
    name, mount = sys.argv[1:]
    {"store": store, "load": load}[name](mount)
