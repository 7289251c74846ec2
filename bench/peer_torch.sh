#!/bin/sh
# SPDX-License-Identifier: MIT
# make bench-peer: runs bench/peer_torch.py, from the clone's folder, with a Python that has PyTorch: $PYTHON when it is
# named and has it; else an environment in build/peer, made on first use with the newest of PyPI; else Debian's.
home=build/peer
first=${PYTHON:-python3}

say() { echo "make bench-peer: $*" >&2; }

has_torch() { version=$("$1" -c 'import torch; print(torch.__version__)' 2>/dev/null); }

# Unless it is there already. Another run may be at it, and any may be interrupted: one at a time, in a folder beside, which
# is renamed when it is whole. bin/python still finds its folder then; bin/pip and the like, which hold the old name, do not.
make_environment() {
    flock -n 9 || { say "another run is making $home; waiting for it"; flock 9; }
    has_torch "$home/bin/python" && return
    say "installing the newest PyTorch into $home: a large download"
    # Debian has venv, and the headers that torch.compile wants, in packages of their own.
    "$first" -c 'import ensurepip, os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null ||
        sh cmake/deps.sh python3-venv python3-dev
    if { rm -rf "$home.new" && "$first" -m venv "$home.new" && "$home.new/bin/python" -m pip install torch numpy &&
        "$home.new/bin/python" -c 'import torch' && rm -rf "$home" && mv "$home.new" "$home"; } >"$home.log" 2>&1; then
        has_torch "$home/bin/python"
    else
        rm -rf "$home.new"
        return 1
    fi
} 9>"$home.lock"

# Leaves in $python the one that has it.
find_debian() {
    for python in python3 /usr/bin/python3; do has_torch "$python" && return; done
    sh cmake/deps.sh python3-torch && has_torch "$python"
}

mkdir -p build
python=$first
if [ -n "$PYTHON" ] && ! command -v "$PYTHON" >/dev/null; then
    say "no $PYTHON here; name another Python 3, or none: make bench-peer PYTHON=/path/to/python3"
    exit 1
fi
if [ -z "$PYTHON" ] || ! has_torch "$PYTHON"; then
    [ -z "$PYTHON" ] || say "$PYTHON has no PyTorch"
    python=$home/bin/python
    if ! make_environment; then
        tail -n 3 "$home.log" >&2
        say "PyTorch could not be installed from PyPI (all of it: $home.log); trying Debian's"
        if ! find_debian; then
            say "no PyTorch: neither PyPI's ($home.log says why) nor Debian's python3-torch could be installed." \
                "If a Python here has it, name that one: make bench-peer PYTHON=/path/to/python3"
            exit 1
        fi
        say "what follows is not measured with the newest PyTorch"
    fi
fi
say "PyTorch $version of $(command -v "$python")"
exec "$python" bench/peer_torch.py "$@"
