"""Says what will be needed of a mount, and what will not: advise.py willneed /mnt/models/llama"""

import fcntl
import os
import sys

# As in hearth_ioctl.h.
ADVICE = {
    "willneed": 0xBE01,
    "dontneed": 0xBE02,
    "willneed-cluster": 0xBE03,
    "dontneed-memory": 0xBE04,
}


def advise(advice: str, path: str) -> None:
    """Returns at once. OSError: EAGAIN too much is under way, E2BIG too many files, ENOTTY no mount of Hearth."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, ADVICE[advice])
    finally:
        os.close(fd)


if __name__ == "__main__":
    advise(sys.argv[1], sys.argv[2])
