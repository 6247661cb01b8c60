"""The index of a model in several files, as `model.safetensors.index.json` of transformers has it."""

import json
import os
from pathlib import Path, PurePosixPath

from hearth import _native
from hearth.errors import hearth_error


def shards_of(path: str) -> list[str]:
    """Returns the files that an index names, in the order of their names; of another path that path.

    The names are relative to the index. HearthError: "NotFound" for no such index, and when a file lacks a tensor that
    the index says it has; "Corrupt" for an index that is not what transformers writes, or leaves its folder.
    """
    if not path.endswith(".safetensors.index.json"):
        return [path]
    try:
        index = json.loads(Path(path).read_bytes())
        placed = {str(name): PurePosixPath(shard) for name, shard in index["weight_map"].items()}
    except OSError as error:
        raise hearth_error("NotFound", f"{path}: {os.strerror(error.errno or 0)}") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise hearth_error("Corrupt", f"{path}: not an index of safetensors files; download it again") from error
    names: dict[PurePosixPath, set[str]] = {}
    for name, shard in placed.items():
        if "\0" in str(shard) or not _is_unicode(str(shard)):
            raise hearth_error("Corrupt", f"{path}: {str(shard)!r} names no file; download it again")
        if shard.is_absolute() or ".." in shard.parts:
            raise hearth_error("Corrupt", f"{path}: {shard} is outside of the index's folder; download it again")
        names.setdefault(shard, set()).add(name)
    shards = []
    for shard in sorted(names):
        shards.append(str(Path(path).parent / shard))
        absent = names[shard] - {name for name, *_ in _native.inspect(shards[-1])[0]}
        if absent:
            message = f"{shards[-1]} lacks the tensor {min(absent)!r} that {path} says it has; download both again"
            raise hearth_error("NotFound", message)
    return shards


def _is_unicode(name: str) -> bool:
    """False for half of a surrogate pair, which JSON can express and UTF-8 cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in name)
