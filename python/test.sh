#!/bin/sh
# SPDX-License-Identifier: MIT
# make python: builds the package into build/python/site and runs its tests, from the clone's folder. With $PYTHON, else
# python3, else Debian's own, whichever has what that needs first; else in an environment in build/python/venv, made on
# first use. Nothing is left outside build/. $1: a folder that CMake built the library in.
home=build/python
needed='import cffi, numpy, pytest, setuptools
try: import setuptools.command.bdist_wheel
except ImportError: import wheel'
mkdir -p "$home"

has_all() { "$1" -c "$needed" 2>/dev/null && "$1" -m pip --version >/dev/null 2>&1; }

make_environment() {
    first=${PYTHON:-python3}
    if ! command -v "$first" >/dev/null; then
        echo "make python: no $first here; name one: make python PYTHON=/path/to/python3" >&2
        exit 1
    fi
    echo "make python: $first lacks cffi, numpy, pytest, setuptools, wheel or pip; an environment is made in $home/venv" >&2
    if ! { "$first" -m venv "$home/venv" && "$home/venv/bin/python" -m pip install setuptools wheel cffi numpy pytest safetensors; } \
        >"$home/venv.log" 2>&1; then
        tail -n 5 "$home/venv.log" >&2
        echo "make python: they could not be installed (all of it: $home/venv.log); a way to a Python package index is needed" >&2
        exit 1
    fi
}

python=
for candidate in ${PYTHON:-python3 /usr/bin/python3} "$home/venv/bin/python"; do
    if [ -z "$python" ] && has_all "$candidate"; then python=$candidate; fi
done
if [ -z "$python" ]; then
    make_environment
    python=$home/venv/bin/python
fi

folders() { find python -type d | sort; }
before=$(folders)
# What an older build left goes first: files that are no more would stay in the package.
rm -rf "$home/site" build/pip/lib* build/pip/sia.egg-info
export PYTHONDONTWRITEBYTECODE=1
if ! SIA_BUILD=$1 "$python" -m pip install --disable-pip-version-check --no-build-isolation --no-deps --target "$home/site" ./python \
    >"$home/install.log" 2>&1; then
    cat "$home/install.log" >&2
    exit 1
fi
SIA_PROGRAM=$(pwd)/$1/sia PYTHONPATH=$home/site "$python" -m pytest -q -p no:cacheprovider python/tests || exit 1
if [ "$(folders)" != "$before" ]; then
    echo "make python: want nothing outside build/; python/ held the folders" $before "and now" $(folders) >&2
    exit 1
fi
echo "to use it: PYTHONPATH=$home/site $python"
