#!/bin/sh
# Print the path of a Python 3.11, 3.12, 3.13 or 3.14 that runs: the one named, or else the first of these. Print nothing
# where there is none.
# pyenv puts a shim on the path for each version it has, but only the active ones run: the others are found in its folder.

runs() {
  "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' >/dev/null 2>&1
}

for name in ${1:-python3.11 python3.12 python3.13 python3.14 python3 python}; do
  if runs "$name"; then command -v "$name"; exit; fi
  for found in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/"$name"; do
    if runs "$found"; then echo "$found"; exit; fi
  done
done
