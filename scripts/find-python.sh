#!/usr/bin/env bash
# Prints the interpreter of a version of CPython, such as 3.10: one of the PATH, or that pyenv has installed.
set -euo pipefail
for candidate in "$(command -v "python$1" || true)" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/"python$1"; do
  # A shim of pyenv's ends with an error when its version is not chosen.
  "$candidate" -c 'import sys; print(sys.executable)' 2>/dev/null && exit
done
echo "there is no Python $1: install it, or have pyenv do so" >&2
exit 1
