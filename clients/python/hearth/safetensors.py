"""Safetensors files: which tensors they have, and loading them."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any, Literal

from hearth import _native, dtypes
from hearth.errors import hearth_error
from hearth.model_index import shards_of

Path = str | PathLike[str]
Framework = Literal["numpy", "torch", "hearth"]


@dataclass(frozen=True)
class TensorInfo:
    """A tensor as the header of its file describes it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    path: str


def inspect_safetensors(paths: Path | Iterable[Path]) -> dict[str, TensorInfo]:
    """Returns the tensors of the files by name. Reads only the headers; follows indexes as load_safetensors() does."""
    found = {}
    for path in _paths(paths):
        tensors, _ = _native.inspect(path)
        found |= {name: TensorInfo(name, dtype, shape, nbytes, path) for name, dtype, shape, nbytes in tensors}
    return found


def load_safetensors(
    paths: Path | Iterable[Path],
    *,
    device: str = "cpu",
    names: Iterable[str] | None = None,
    slices: Mapping[str, tuple[int, int, int]] | None = None,
    framework: Framework = "numpy",
    progress: Callable[[int, int], object] | None = None,
    threads: int = 0,
    chunk_bytes: int = 0,
    mapped: bool = False,
    rank: int = 0,
    world_size: int = 1,
    group: str = "",
    rank_timeout: float = 600,
) -> dict[str, Any]:
    """Returns the tensors of safetensors files by name, in their final memory; each byte is read once.

    paths: files; an index, `model.safetensors.index.json`, stands for the files that it names.
    device: "cpu" or "cuda:N"; to a GPU the bytes go directly or by pinned memory, whichever is faster.
    names: only these tensors. Without, all of them.
    slices: by name (dimension, begin, end): of these tensors only that range of one dimension, without gaps in memory.
        Rows with less than 64 KiB between them are read with what is between. Not together with mapped.
    framework: "numpy" arrays, "torch" tensors (by DLPack; needs torch), or "hearth" for `hearth.Tensor`.
        A NumPy array of BF16 or FP8 needs the package ml-dtypes.
    progress: called with the bytes that are loaded and the bytes to load, on this thread, at most every 50 ms
        and at the end. An exception that it raises ends the load.
    threads: how many read side by side; 0 chooses. chunk_bytes: what one thread reads at once, a multiple of
        4096; 0 chooses.
    mapped: files that are in the page cache are mapped into host memory and not copied. Writes of this process stay
        its own; but whoever writes or cuts such a file later changes the tensors, or ends the process (SIGBUS).
    rank, world_size: of a process that loads together with others of its node, which give the same files and names:
        each byte is read once between them. Tensors in host memory share their pages until one of the processes
        writes there. progress counts the bytes of this process.
    group: names the job where several of a user load in one network namespace; by default $MASTER_PORT.
    rank_timeout: seconds, the end of each wait for the other ranks. One that fails or dies ends the load of all.

    Raises HearthError; `code` is "NotFound" (file or name), "Corrupt" (malformed or truncated file),
    "Unsupported" (unknown dtype, device), "OriginChanged" (written or replaced during the load), "OutOfSpace"
    (memory), "IoError", "InvalidArgument" (a slice leaves its tensor); with ranks also "DeadlineExceeded", "Unavailable" (a rank has ended) and "InvalidArgument"
    (ranks load different things). Either all tensors are whole or none is returned.
    """
    if device != "cpu" and framework == "numpy":
        raise hearth_error("Unsupported", f"NumPy has no memory on {device}; use framework='torch' or framework='hearth'")
    convert = dtypes.converter(framework)
    paths = _paths(paths)
    names = None if names is None else list(names)
    # A dtype that the framework lacks is found before anything is read.
    wanted = None if names is None else {*names, *(slices or ())}
    for path in paths:
        for name, dtype, _, _ in _native.inspect(path)[0]:
            if wanted is None or name in wanted:
                convert.check(name, dtype)
    if not 0 <= rank < world_size < 1 << 32:
        # The native call keeps the lowest 32 bits of a number.
        raise hearth_error("InvalidArgument", f"rank {rank} of {world_size} cannot be: ranks count from 0")
    place = (rank, world_size, group or os.environ.get("MASTER_PORT", ""), round(rank_timeout * 1000))
    parts = None if slices is None else [(name, *_numbers(name, part)) for name, part in slices.items()]
    tensors = _native.load(paths, names, device, threads, chunk_bytes, progress, mapped, place, parts)
    return {tensor.name: convert(tensor) for tensor in tensors}


def _numbers(name: str, part: tuple[int, int, int]) -> tuple[int, int, int]:
    """The native call keeps the lowest 64 bits of a number and would load another slice."""
    if any(number < 0 or number >= 1 << 63 for number in part):
        raise hearth_error("InvalidArgument", f"the slice {part} of tensor {name!r} leaves the tensor")
    return part


def _paths(paths: Path | Iterable[Path]) -> list[str]:
    given = [paths] if isinstance(paths, str | PathLike) else paths
    return [shard for path in given for shard in shards_of(fspath(path))]
