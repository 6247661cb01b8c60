#!/usr/bin/env bash
# Measures the wheel beside other loaders of safetensors files, in a virtual environment that is kept in build/.
# FOLDER names the storage to measure; further arguments are those of bench/python/main.py.
set -euo pipefail
cd "$(dirname "$0")/.."
environment=build/bench-python
if [[ ! -x $environment/bin/pip ]]; then python3 -m venv "$environment"; fi
pip=("$environment/bin/pip" --quiet --disable-pip-version-check)
# Rivals that cannot be installed have rows that say so.
for rival in safetensors torch fastsafetensors instanttensor runai-model-streamer; do
  "$environment/bin/python" -c "import importlib.metadata as m; m.version('$rival')" 2>/dev/null && continue
  "${pip[@]}" install --only-binary :all: "$rival" || echo "$rival could not be installed" >&2
done
if [[ -z ${HEARTH_WHEEL-} ]]; then
  scripts/build-wheel.sh
  wheels=(build/wheels/hearth_storage-*-abi3-*.whl)
  HEARTH_WHEEL=${wheels[0]}
fi
"${pip[@]}" install --force-reinstall --no-deps "$HEARTH_WHEEL"
exec "$environment/bin/python" bench/python/main.py ${FOLDER:+"$FOLDER"} "$@"
