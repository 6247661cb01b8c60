"""The steps of each program here, by processes of their own: `python PROGRAM.py store|load|lose MOUNT|ADDRESS`.

All know the same bytes, so that a load compares what another node has stored.
"""

import random
import sys
from collections.abc import Callable

Step = Callable[[str], None]


def content(number: int, size: int) -> bytes:
    return random.Random(number).randbytes(size)


def run(store: Step, load: Step, lose: Step | None = None) -> None:
    name, where = sys.argv[1:]
    {"store": store, "load": load, "lose": lose}[name](where)
