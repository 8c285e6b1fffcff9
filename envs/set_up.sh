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

digest() {
    "$python" -c 'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())'
}

is_done() { # is_done STEP DIGEST: whether the environment holds this step as it is wanted now
    [ "$(cat "$venv/set-up-$1" 2>/dev/null)" = "$2" ]
}

install=("$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-input)

# The packages depend on the lock, the Python and the place of the environment.
packages=$(cat envs/requirements.txt <("$python" -V) <(pwd) | digest)
if ! is_done packages "$packages"; then
    echo "set-up: installing the packages of envs/requirements.txt into $venv (some minutes, once)"
    if ! "$python" -m venv --clear "$venv"; then
        echo "set-up: '$python -m venv' failed; Debian and Ubuntu have it in python3-venv" >&2
        exit 1
    fi
    "${install[@]}" --requirement envs/requirements.txt
    echo "$packages" >"$venv/set-up-packages"
fi

# This package's own metadata.
project=$(digest <pyproject.toml)
if ! is_done project "$project"; then
    "${install[@]}" --no-deps --no-build-isolation --editable .
    echo "$project" >"$venv/set-up-project"
fi
