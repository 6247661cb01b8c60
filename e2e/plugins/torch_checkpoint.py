"""torch.distributed.checkpoint: three ranks save one state, by the writer of files and by fsspec's, and two load it."""

import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as multiprocessing
from step import content, run
from torch.distributed.checkpoint.fsspec_filesystem import FsspecReader, FsspecWriter

LAYERS = 6
SHAPE = (512, 700)


def state(filled: bool) -> dict[str, object]:
    def layer(number: int) -> torch.Tensor:
        if not filled:
            return torch.zeros(SHAPE)
        size = SHAPE[0] * SHAPE[1] * 4
        return torch.frombuffer(bytearray(content(number, size)), dtype=torch.int32).view(SHAPE).to(torch.float32)

    return {"step": 7 if filled else 0, **{f"layers.{number}": layer(number) for number in range(LAYERS)}}


def paths(mount: str) -> tuple[str, str]:
    return os.path.join(mount, "checkpoints", "files"), f"file://{mount}/checkpoints/fsspec"


def save_rank(rank: int, world: int, meeting: str, mount: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world)
    files, url = paths(mount)
    for _ in range(2):  # The second replaces the first.
        dcp.save(state(filled=True), checkpoint_id=files)
    dcp.save(state(filled=True), storage_writer=FsspecWriter(url))
    dist.destroy_process_group()


def load_rank(rank: int, world: int, meeting: str, mount: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world)
    files, url = paths(mount)
    for reader in (dcp.FileSystemReader(files), FsspecReader(url)):
        loaded, expected = state(filled=False), state(filled=True)
        dcp.load(loaded, storage_reader=reader)
        assert loaded["step"] == expected["step"]
        for number in range(LAYERS):
            assert torch.equal(loaded[f"layers.{number}"], expected[f"layers.{number}"]), number
    dist.destroy_process_group()


def spawn(rank_of: object, world: int, mount: str) -> None:
    meeting = os.path.join("/tmp", f"hearth-ranks-{os.getpid()}")
    try:
        multiprocessing.spawn(rank_of, args=(world, meeting, mount), nprocs=world)
    finally:
        if os.path.exists(meeting):
            os.unlink(meeting)


def store(mount: str) -> None:
    spawn(save_rank, 3, mount)


def load(mount: str) -> None:
    spawn(load_rank, 2, mount)


if __name__ == "__main__":
    run(store, load)
    sys.exit(0)
