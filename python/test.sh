#!/bin/sh
# SPDX-License-Identifier: MIT
# make python: builds the package into build/python/site and runs its tests, from the clone's folder. $PYTHON (python3)
# when it has what that needs; else an environment in build/python/venv, made on first use. $1: a folder that CMake
# built the library in.
python=${PYTHON:-python3}
home=build/python
needed='import cffi, numpy, pytest, setuptools, sys
try: import setuptools.command.bdist_wheel
except ImportError: import wheel'
mkdir -p "$home"
if ! command -v "$python" >/dev/null; then
    echo "make python: no $python here; name one: make python PYTHON=/path/to/python3" >&2
    exit 1
fi
if ! "$python" -c "$needed" 2>/dev/null || ! "$python" -m pip --version >/dev/null 2>&1; then
    if ! "$home/venv/bin/python" -c "$needed" 2>/dev/null; then
        echo "make python: $python lacks cffi, numpy, pytest, setuptools, wheel or pip; an environment is made in $home/venv" >&2
        if ! { "$python" -m venv "$home/venv" && "$home/venv/bin/python" -m pip install setuptools wheel cffi numpy pytest safetensors; } \
            >"$home/venv.log" 2>&1; then
            tail -n 5 "$home/venv.log" >&2
            echo "make python: they could not be installed (all of it: $home/venv.log); a way to a Python package index is needed" >&2
            exit 1
        fi
    fi
    python=$home/venv/bin/python
fi
rm -rf "$home/site"
if ! SIA_BUILD=$1 "$python" -m pip install --disable-pip-version-check --no-build-isolation --no-deps --target "$home/site" ./python \
    >"$home/install.log" 2>&1; then
    cat "$home/install.log" >&2
    exit 1
fi
SIA_PROGRAM=$(pwd)/$1/sia PYTHONPATH=$home/site exec "$python" -m pytest -q -p no:cacheprovider python/tests
