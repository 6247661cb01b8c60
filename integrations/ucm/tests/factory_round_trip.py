"""UCM's own factory makes the store, which dumps and loads blocks of 2 MiB; torch and UCM's logger are stand-ins.

python factory_round_trip.py UCM_SOURCE, a folder of UCM's source (pip download --no-deps --no-binary :all: uc-manager).
"""

import logging
import secrets
import sys
import tempfile
import types
from pathlib import Path

import numpy as np

BLOCK = 2 << 20
BLOCKS = 8


def make_factory(source: str) -> type:
    """Imports ucm.store.factory_v1 as UCM has it."""
    torch = types.ModuleType("torch")
    torch.Tensor = object
    logger = types.ModuleType("ucm.logger")
    logger.init_logger = logging.getLogger
    ucm = types.ModuleType("ucm")  # without the imports of UCM's own __init__.py
    ucm.__path__ = [str(Path(source) / "ucm")]
    store = types.ModuleType("ucm.store")
    store.__path__ = [str(Path(source) / "ucm/store")]
    sys.modules |= {"torch": torch, "ucm": ucm, "ucm.logger": logger, "ucm.store": store}
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from ucm.store.factory_v1 import UcmConnectorFactoryV1

    return UcmConnectorFactoryV1


def main() -> None:
    logging.basicConfig(level=logging.INFO)
    factory = make_factory(sys.argv[1])
    for direct in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            config = {"storage_backends": folder, "useDirect": direct}
            config |= {"tensor_size_list": [BLOCK], "shard_size": BLOCK, "block_size": BLOCK}
            store = factory.create_connector("UcmHearthStore", config, "hearth_ucm_store")
            memory = np.empty(2 * BLOCKS * BLOCK + 4096, dtype=np.uint8)
            memory = memory[-memory.ctypes.data % 4096 :]
            saved, loaded = memory[: BLOCKS * BLOCK], memory[BLOCKS * BLOCK : 2 * BLOCKS * BLOCK]
            saved[:] = np.frombuffer(secrets.token_bytes(saved.size), dtype=np.uint8)
            ids = [secrets.token_bytes(16) for _ in range(BLOCKS)]
            for move, array in ((store.dump_data, saved), (store.load_data, loaded)):
                addresses = [[array.ctypes.data + i * BLOCK] for i in range(BLOCKS)]
                store.wait(move(ids, [0] * BLOCKS, addresses))
            print(store.lookup(ids), store.lookup_on_prefix(ids))
            print("useDirect", direct, "equal", bool((saved == loaded).all()))


if __name__ == "__main__":
    main()
