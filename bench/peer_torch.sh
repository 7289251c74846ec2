#!/bin/sh
# SPDX-License-Identifier: MIT
# make bench-peer: runs bench/peer_torch.py with a Python that has PyTorch. $PYTHON (python3) when it has; else an
# environment in build/peer, made on first use.
python=${PYTHON:-python3}
home=build/peer
if ! command -v "$python" >/dev/null; then
    echo "make bench-peer: no $python here; install Python 3, or name one: make bench-peer PYTHON=/path/to/python3" >&2
    exit 1
fi
if ! "$python" -c 'import torch' 2>/dev/null; then
    if ! "$home/bin/python" -c 'import torch' 2>/dev/null; then
        echo "make bench-peer: $python has no PyTorch; installing it into $home: a large download" >&2
        if ! { "$python" -m venv "$home" && "$home/bin/python" -m pip install torch numpy; } >"$home.log" 2>&1; then
            tail -n 5 "$home.log" >&2
            echo "make bench-peer: PyTorch could not be installed (all of it: $home.log). On Debian the packages" \
                 "python3-venv and g++ are needed, and a way to a Python package index." >&2
            exit 1
        fi
    fi
    python=$home/bin/python
fi
exec "$python" bench/peer_torch.py "$@"
