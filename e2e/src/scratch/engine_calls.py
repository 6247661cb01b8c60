"""The system calls of inference engines on the mounts of a scratch volume, one of each node.

Usage: python engine_calls.py CASE MOUNT...     ends with 0, or with the assertion that failed
"""

import ctypes
import errno
import fcntl
import mmap
import multiprocessing
import os
import secrets
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

BLOCK = 4096
MIB = 1 << 20
RENAME_NOREPLACE = 1
FALLOC_KEEP_SIZE = 1
FALLOC_PUNCH_HOLE = 2

libc = ctypes.CDLL(None, use_errno=True)


def rename_without_replacing(old: str, new: str) -> None:
    if libc.renameat2(-100, old.encode(), -100, new.encode(), RENAME_NOREPLACE):
        raise OSError(ctypes.get_errno(), new)


def fallocate(file: int, mode: int, offset: int, length: int) -> None:
    if libc.fallocate(file, mode, ctypes.c_long(offset), ctypes.c_long(length)):
        raise OSError(ctypes.get_errno(), "fallocate")


def aligned(data: bytes) -> mmap.mmap:
    """The same bytes in pages of their own, as O_DIRECT takes them."""
    pages = mmap.mmap(-1, len(data))
    pages[:] = data
    return pages


def read_direct(path: str, size: int, at: int = 0) -> bytes:
    """By one call past the page cache."""
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        pages = mmap.mmap(-1, size)
        read = os.preadv(file, [pages], at)
        return bytes(pages[:read])
    finally:
        os.close(file)


def write_file(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


def read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def error_of(call: Callable[[], object]) -> str:
    """The name of the error; empty when the call succeeds."""
    try:
        call()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return ""


def direct_blocks(mounts: list[str]) -> None:
    """NIXL's POSIX back end: blocks of 4 KiB at any place of one file, in any order, past the page cache."""
    here, there = mounts[0], mounts[1]
    blocks = {number * BLOCK: secrets.token_bytes(BLOCK) for number in (7, 0, 31, 3, 8)}
    path = os.path.join(here, "direct")
    file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_DIRECT, 0o644)
    for at, data in blocks.items():
        assert os.pwritev(file, [aligned(data)], at) == BLOCK
    for at, data in blocks.items():
        pages = mmap.mmap(-1, BLOCK)
        assert os.preadv(file, [pages], at) == BLOCK and pages[:] == data, at
    os.close(file)
    for at, data in blocks.items():
        assert read_direct(os.path.join(there, "direct"), BLOCK, at) == data, at
    assert read_direct(os.path.join(there, "direct"), BLOCK, BLOCK) == bytes(BLOCK)
    assert os.stat(os.path.join(there, "direct")).st_size == 32 * BLOCK


def scratch_file(mounts: list[str]) -> None:
    """KVBM's disk tier: a file of its own, all of it allocated, which is never closed before it is unlinked."""
    file, path = tempfile.mkstemp(prefix="dynamo-kvbm-disk-cache-", dir=mounts[0])
    fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_DIRECT)
    fallocate(file, 0, 0, 64 * MIB)
    assert os.fstat(file).st_size == 64 * MIB
    assert os.fstat(file).st_blocks * 512 >= 64 * MIB
    blocks = {at: secrets.token_bytes(MIB) for at in (63 * MIB, 0, 17 * MIB)}
    for at, data in blocks.items():
        assert os.pwritev(file, [aligned(data)], at) == MIB
    os.unlink(path)
    for at, data in blocks.items():
        pages = mmap.mmap(-1, MIB)
        assert os.preadv(file, [pages], at) == MIB and pages[:] == data, at
    os.close(file)
    assert not [name for name in os.listdir(mounts[1]) if name.startswith("dynamo-")]


def allocation(mounts: list[str]) -> None:
    here, there = (os.path.join(mount, "allocated") for mount in mounts[:2])
    file = os.open(here, os.O_CREAT | os.O_RDWR)
    os.pwrite(file, b"x" * 3 * BLOCK, 0)
    fallocate(file, FALLOC_KEEP_SIZE, 0, MIB)
    assert os.fstat(file).st_size == 3 * BLOCK
    fallocate(file, FALLOC_KEEP_SIZE | FALLOC_PUNCH_HOLE, BLOCK, BLOCK)
    os.posix_fallocate(file, 0, 8 * BLOCK)
    os.close(file)
    expected = b"x" * BLOCK + bytes(BLOCK) + b"x" * BLOCK + bytes(5 * BLOCK)
    assert read_file(here) == expected
    assert read_file(there) == expected


def links_and_renames(mounts: list[str]) -> None:
    a, b = mounts[:2]
    write_file(f"{a}/one.tmp", b"one")
    write_file(f"{b}/two.tmp", b"two")
    os.link(f"{a}/one.tmp", f"{a}/one")
    assert error_of(lambda: os.link(f"{b}/two.tmp", f"{b}/one")) == "EEXIST"
    assert error_of(lambda: rename_without_replacing(f"{b}/two.tmp", f"{b}/one")) == "EEXIST"
    assert os.stat(f"{b}/one").st_nlink == 2
    rename_without_replacing(f"{b}/two.tmp", f"{b}/two")
    os.unlink(f"{a}/one.tmp")
    assert (read_file(f"{b}/one"), read_file(f"{a}/two")) == (b"one", b"two")
    assert error_of(lambda: os.stat(f"{a}/two.tmp")) == "ENOENT"


def unnamed_file(mounts: list[str]) -> None:
    assert error_of(lambda: os.open(mounts[0], os.O_TMPFILE | os.O_RDWR)) == "ENOTSUP"


def attributes(mounts: list[str]) -> None:
    here, there = (os.path.join(mount, "attributes") for mount in mounts[:2])
    write_file(here, b"bytes")
    os.setxattr(here, "user.model", b"org/model")
    os.setxattr(here, "user.empty", b"")
    assert sorted(os.listxattr(there)) == ["user.empty", "user.model"]
    assert os.getxattr(there, "user.model") == b"org/model"
    assert error_of(lambda: os.setxattr(there, "user.model", b"other", os.XATTR_CREATE)) == "EEXIST"
    os.setxattr(there, "user.model", b"other", os.XATTR_REPLACE)
    assert os.getxattr(here, "user.model") == b"other"
    os.removexattr(there, "user.empty")
    assert error_of(lambda: os.getxattr(here, "user.empty")) == "ENODATA"
    os.rename(here, here + " renamed")
    assert os.listxattr(there + " renamed") == ["user.model"]


def space(mounts: list[str]) -> None:
    """LMCache and SGLang look at it before they fill a disk."""
    path = os.path.join(mounts[0], "space")
    before = os.statvfs(mounts[1])
    write_file(path, bytes(16 * MIB))
    after = os.statvfs(mounts[1])
    assert before.f_blocks == after.f_blocks
    freed = (before.f_bavail * before.f_frsize - after.f_bavail * after.f_frsize) / MIB
    assert freed == 16, freed
    assert before.f_favail - after.f_favail == 1
    assert after.f_namemax == 255
    # LMCache uses O_DIRECT for objects that are multiples of it.
    assert after.f_bsize == BLOCK


def mappings(mounts: list[str]) -> None:
    """Readers of safetensors and of compiled kernels: a file that another node has published, and publishes again."""
    here, there = (os.path.join(mount, "mapped") for mount in mounts[:2])
    data = secrets.token_bytes(5 * MIB + 100)
    write_file(here, data)
    with open(there, "rb") as file:
        shared = mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)
        private = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
    assert shared[:] == data
    private[:5] = b"mine "
    write_file(here + ".tmp", b"later")
    os.rename(here + ".tmp", here)
    assert shared[:] == data and private[5:] == data[5:]
    assert read_file(there) == b"later"
    # A writer's own mapping.
    with open(here, "r+b") as file:
        file.truncate(BLOCK)
        mine = mmap.mmap(file.fileno(), BLOCK)
        mine[:3] = b"LAT"
        mine.close()
    assert read_file(there)[:5] == b"LATer"


ENTRIES = 100_000


def make_entries(folder: str, of: range) -> None:
    for number in of:
        os.close(os.open(f"{folder}/{number:064x}.bin", os.O_CREAT | os.O_EXCL | os.O_WRONLY))


def many_entries(mounts: list[str]) -> None:
    folders = [os.path.join(mount, "many") for mount in mounts]
    os.mkdir(folders[0])
    parts = [range(start, ENTRIES, len(mounts)) for start in range(len(mounts))]
    with multiprocessing.Pool(len(mounts)) as pool:
        pool.starmap(make_entries, zip(folders, parts, strict=True))
    expected = {f"{number:064x}.bin" for number in range(ENTRIES)}
    for folder in folders:
        names = os.listdir(folder)
        assert len(names) == len(expected) and set(names) == expected, folder
    with os.scandir(folders[1]) as entries:
        assert all(entry.is_file() for entry in entries)
    assert not os.access(f"{folders[2]}/{ENTRIES:064x}.bin", os.F_OK)
    assert os.access(f"{folders[2]}/{ENTRIES - 1:064x}.bin", os.F_OK)
    # Names go while a reader is in the middle: it sees each of the others once.
    seen = []
    with os.scandir(folders[0]) as entries:
        for entry in entries:
            seen.append(entry.name)
            if len(seen) == ENTRIES // 2:
                gone = {f"{number:064x}.bin" for number in range(0, ENTRIES, 10)}
                for name in gone:
                    os.unlink(os.path.join(folders[1], name))
    assert len(seen) == len(set(seen)) and expected - gone <= set(seen) <= expected
    assert set(os.listdir(folders[2])) == expected - gone


WRITERS = 16


def write_whole(mount: str, number: int, way: str, start: object) -> str:
    """16 MiB of the writer's own number, under the one name."""
    data = aligned(bytes([number]) * (16 * MIB))
    final = os.path.join(mount, f"one of {way}")
    temporary = f"{final}.tmp.{number}"
    start.wait()  # type: ignore[attr-defined]
    file = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_TRUNC | os.O_DIRECT)
    assert os.writev(file, [data]) == len(data)
    os.close(file)
    if way == "rename":
        return error_of(lambda: os.rename(temporary, final))
    call = os.link if way == "link" else rename_without_replacing
    outcome = error_of(lambda: call(temporary, final))
    if os.path.exists(temporary):
        os.unlink(temporary)
    return outcome


def one_name(mounts: list[str]) -> None:
    with multiprocessing.Manager() as manager, multiprocessing.Pool(WRITERS) as pool:
        for way in ("rename", "link", "exclusive"):
            start = manager.Barrier(WRITERS)
            calls = [(mounts[number % len(mounts)], number, way, start) for number in range(WRITERS)]
            outcomes = pool.starmap(write_whole, calls, chunksize=1)
            won = WRITERS if way == "rename" else 1
            assert sorted(outcomes) == [""] * won + ["EEXIST"] * (WRITERS - won), outcomes
            names = [name for name in os.listdir(mounts[0]) if name.startswith(f"one of {way}")]
            assert names == [f"one of {way}"], names
            for mount in mounts:
                data = read_file(os.path.join(mount, names[0]))
                assert data == data[:1] * (16 * MIB), mount
                assert way == "rename" or outcomes[data[0]] == ""


def vllm_tier(mounts: list[str]) -> None:
    """vLLM's fs tier: whole files past the page cache by 16 threads, renamed into place, each read whole by one call."""
    size, count = 2 * MIB, 64
    written = [secrets.token_bytes(size) for _ in range(count)]

    def path(mount: str, number: int) -> str:
        return f"{mount}/org-model_0123456789ab_r0/{number % 4:03x}/{number % 2:02x}_g0/{number:064x}.bin"

    def store(number: int) -> None:
        final = path(mounts[0], number)
        os.makedirs(os.path.dirname(final), exist_ok=True)
        temporary = f"{final}.tmp"
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_TRUNC | os.O_DIRECT
        file = os.open(temporary, flags, 0o644)
        assert os.writev(file, [aligned(written[number])]) == size
        os.close(file)
        os.rename(temporary, final)

    def load(number: int) -> bool:
        return all(read_direct(path(mount, number), size) == written[number] for mount in mounts[1:])

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(store, range(count)))
        present = [os.access(path(mounts[2], number), os.F_OK) for number in range(2 * count)]
        assert present == [True] * count + [False] * count
        assert all(threads.map(load, range(count)))


def main() -> None:
    name, *mounts = sys.argv[1:]
    cases = [direct_blocks, scratch_file, allocation, links_and_renames, unnamed_file, attributes, space]
    cases += [mappings, many_entries, one_name, vllm_tier]
    {case.__name__: case for case in cases}[name](mounts)


if __name__ == "__main__":
    main()
