"""SGLang's HiCache back end `file`: pages of a model of two ranks, by the back end's own factory."""

import os

import torch
from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig
from sglang.srt.mem_cache.storage import StorageBackendFactory
from step import content, run

PAGES = 16
PAGE_BYTES = 2 * 16 * 4 * 8 * 64 * 2
RANKS = 2


def backend(mount: str, rank: int):  # noqa: ANN201, its type is SGLang's
    config = HiCacheStorageConfig(
        tp_rank=rank,
        tp_size=RANKS,
        pp_rank=0,
        pp_size=1,
        attn_cp_rank=0,
        attn_cp_size=1,
        is_mla_model=False,
        enable_storage_metrics=False,
        is_page_first_layout=True,
        model_name="org/model",
        extra_config={"file_storage_path": os.path.join(mount, "sglang")},
    )
    return StorageBackendFactory.create_backend("file", config, None)


def page(rank: int, number: int) -> torch.Tensor:
    return torch.frombuffer(bytearray(content(rank * PAGES + number, PAGE_BYTES)), dtype=torch.bfloat16)


KEYS = [f"{number:064x}" for number in range(PAGES)]


def store(mount: str) -> None:
    for rank in range(RANKS):
        assert backend(mount, rank).batch_set(KEYS, [page(rank, number) for number in range(PAGES)])


def load(mount: str) -> None:
    for rank in range(RANKS):
        ours = backend(mount, rank)
        assert ours.batch_exists([*KEYS, "f" * 64]) == PAGES
        into = [torch.zeros(PAGE_BYTES // 2, dtype=torch.bfloat16) for _ in KEYS]
        loaded = ours.batch_get(KEYS, into)
        for number, found in enumerate(loaded):
            assert found is not None, number
            assert found.view(torch.uint8).equal(page(rank, number).view(torch.uint8)), number
        assert ours.get("f" * 64, into[0]) is None


if __name__ == "__main__":
    run(store, load)
