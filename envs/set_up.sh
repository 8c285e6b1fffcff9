#!/usr/bin/env bash
# Make the virtual environment VENV (default .venv) with the packages of requirements.txt and this
# package (editable). Does nothing if that is what VENV holds already. PYTHON names the Python to use.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${VENV:-.venv}
python=${PYTHON:-python3}

if ! command -v "$python" >/dev/null; then
    echo "set-up: no program '$python' here; Python 3.11 or newer is needed (PYTHON=... names it)" >&2
    exit 1
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "set-up: '$python' is $("$python" -V 2>&1), Python 3.11 or newer is needed (PYTHON=... names it)" >&2
    exit 1
fi

# What the environment depends on: the lock, the metadata of the package, the Python, the place.
key=$(cat envs/requirements.txt pyproject.toml <("$python" -V) <(pwd) | "$python" -c \
    'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())')
if [ "$(cat "$venv/set-up-key" 2>/dev/null)" = "$key" ]; then
    exit 0
fi

echo "set-up: installing the packages of envs/requirements.txt into $venv (some minutes, once)"
if ! "$python" -m venv --clear "$venv"; then
    echo "set-up: '$python -m venv' failed; on Debian and Ubuntu it needs the package python3-venv" >&2
    exit 1
fi
install=("$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-input)
"${install[@]}" --requirement envs/requirements.txt
"${install[@]}" --no-deps --no-build-isolation --editable .
echo "$key" >"$venv/set-up-key"
