"""Loads safetensors files by the ranks of a torch.distributed group, on one node or many.

Each rank reads its share of the tensors, and broadcasts bring them to the others: the group reads each byte once. Ranks
of one node that have no process group load together by load_safetensors(rank=..., world_size=...).
"""

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

from hearth._native import HearthError
from hearth.dtypes import torch_dtype
from hearth.errors import hearth_error
from hearth.safetensors import Path, TensorInfo, inspect_safetensors, load_safetensors


def load_and_broadcast(
    paths: Path | Iterable[Path],
    *,
    group: Any = None,
    device: str = "cpu",
    names: Iterable[str] | None = None,
    progress: Callable[[int, int], object] | None = None,
    threads: int = 0,
) -> dict[str, Any]:
    """Returns the torch tensors of the files by name; called by all ranks of the group with the same files and names.

    group: by default the whole world; its backend must serve the device (gloo for "cpu", NCCL for "cuda:N").
    progress: called with the bytes of this rank's share. The others are those of load_safetensors().

    Raises HearthError as load_safetensors() does, on all ranks when one fails, and with the code "InvalidArgument" when
    ranks load different things. Waits for other ranks end as the group's timeout says.
    """
    import torch
    import torch.distributed as dist

    rank = dist.get_rank(group)
    paths = [paths] if isinstance(paths, str) or not isinstance(paths, Iterable) else list(paths)
    names = None if names is None else list(names)
    wanted: list[TensorInfo] = []
    owners: list[int] = []
    mine: dict[str, Any] = {}
    failure: tuple[str, str] | None = None
    try:
        wanted = _wanted(inspect_safetensors(paths), names)
        owners = _owners(wanted, dist.get_world_size(group))
        owned = [info.name for info, owner in zip(wanted, owners, strict=True) if owner == rank]
        options = {"device": device, "progress": progress, "threads": threads}
        mine = load_safetensors(paths, names=owned, framework="torch", **options) if owned else {}
    except HearthError as error:
        failure = (error.code, str(error))
    _agree(dist, group, failure, wanted)
    loaded = {}
    for info, owner in zip(wanted, owners, strict=True):
        tensor = mine.pop(info.name, None)
        if tensor is None:
            tensor = torch.empty(info.shape, dtype=torch_dtype(info.name, info.dtype), device=device)
        if info.nbytes > 0:
            source = owner if group is None else dist.get_global_rank(group, owner)
            dist.broadcast(tensor.reshape(-1).view(torch.uint8), src=source, group=group)
        loaded[info.name] = tensor
    return loaded


def _wanted(found: dict[str, TensorInfo], names: list[str] | None) -> list[TensorInfo]:
    if names is None:
        return list(found.values())
    for name in names:
        if name not in found:
            raise hearth_error("NotFound", f"no file has the tensor {name!r}")
    chosen = set(names)
    return [info for info in found.values() if info.name in chosen]


def _owners(wanted: list[TensorInfo], ranks: int) -> list[int]:
    """The rank that reads each tensor: neighbours in the files go to one rank, and each reads about as many bytes."""
    total = max(1, sum(info.nbytes for info in wanted))
    owners, before = [], 0
    for info in wanted:
        owners.append(min(ranks - 1, (before + info.nbytes // 2) * ranks // total))
        before += info.nbytes
    return owners


def _agree(dist: Any, group: Any, failure: tuple[str, str] | None, wanted: list[TensorInfo]) -> None:
    described = [(info.name, info.dtype, info.shape, info.nbytes) for info in wanted]
    digest = hashlib.sha256(repr(described).encode()).hexdigest()
    answers: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(answers, (failure, digest), group=group)
    for rank, (theirs, _) in enumerate(answers):
        if theirs is not None:
            raise hearth_error(theirs[0], f"rank {rank}: {theirs[1]}")
    for rank, (_, theirs) in enumerate(answers):
        if theirs != digest:
            raise hearth_error("InvalidArgument", f"rank {rank} loads other tensors than rank {dist.get_rank(group)}")
