# SPDX-License-Identifier: MIT
"""Does Hugging Face's safetensors read what we write, and we what it writes? It needs safetensors and torch.

    python3 tests/outside/safetensors_agree.py build/release/tests/base/safetensors_tool

  1. a file with a tensor of each type, written here, opened there: types, shapes, every byte, the metadata;
  2. a file with other shapes, written there, read here: the same;
  3. files that it refuses, which we must refuse too.
"""
import hashlib
import json
import os
import struct
import subprocess
import sys
import tempfile

import safetensors
import torch
from safetensors.torch import save_file

TYPES = {"F64": torch.float64, "I64": torch.int64, "U64": torch.uint64, "F32": torch.float32, "I32": torch.int32, "U32": torch.uint32, "F16": torch.float16,
         "BF16": torch.bfloat16, "I16": torch.int16, "U16": torch.uint16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool}


def raw(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def verdict(what: str, good: bool) -> bool:
    print(f"{what}: {'the same' if good else 'DIFFERENT'}", flush=True)
    return good


def ours_read_there(tool: str, path: str) -> bool:
    subprocess.run([tool, "write", path], check=True)
    good = True
    with safetensors.safe_open(path, "pt") as file:
        good &= verdict("names", sorted(file.keys()) == sorted(TYPES))
        good &= verdict("metadata", file.metadata() == {"step": "500", "config": '{"name": "été\\""}'})
        for t, (name, dtype) in enumerate(TYPES.items()):
            tensor = file.get_tensor(name)
            shape = {"I64": (), "U64": (0, 7)}.get(name, (5, 7))
            wanted = bytes((37 * i + 11 * t) % (2 if name == "BOOL" else 251) for i in range(tensor.numel() * tensor.element_size()))
            good &= verdict(f"{name} {list(shape)}", tensor.dtype == dtype and tuple(tensor.shape) == shape and raw(tensor) == wanted)
    with open(path, "rb") as file:
        good &= verdict("data at a multiple of 64", (8 + struct.unpack("<Q", file.read(8))[0]) % 64 == 0)
    return good


def theirs_read_here(tool: str, path: str) -> bool:
    generator = torch.Generator().manual_seed(1)
    tensors = {}
    for name, dtype in TYPES.items():
        for shape in ((3,), (2, 3, 4), (), (4, 0), (1, 1, 1, 1, 2)):
            count = torch.Size(shape).numel() * torch.empty((), dtype=dtype).element_size()
            data = torch.randint(0, 2 if name == "BOOL" else 256, (count,), dtype=torch.uint8, generator=generator)
            tensors[f"{name}.{len(tensors)}"] = data.view(dtype).reshape(shape).clone() if count else torch.empty(shape, dtype=dtype)
    save_file(tensors, path, metadata={"who": "Hugging Face", "ü": "é"})
    lines = set(subprocess.run([tool, "read", path], stdout=subprocess.PIPE, check=True).stdout.decode().splitlines())
    wanted = {f"tensor {name} {name.split('.')[0]} {list(t.shape)} {hashlib.sha256(raw(t)).hexdigest()}" for name, t in tensors.items()}
    wanted |= {"metadata who Hugging Face", "metadata ü é"}
    return verdict(f"{len(tensors)} tensors of safetensors {safetensors.__version__} read here", lines == wanted)


def both_refuse(tool: str, path: str) -> bool:
    good = True
    one = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    for what, header, data in (("cut", {"a": one}, 7), ("grown", {"a": one}, 9), ("gap", {"a": one, "b": {**one, "data_offsets": [9, 17]}}, 17),
                               ("overlap", {"a": one, "b": {**one, "data_offsets": [4, 12]}}, 12), ("type", {"a": {**one, "dtype": "F33"}}, 8),
                               ("shape", {"a": {**one, "shape": [3]}}, 8), ("huge", {"a": {**one, "shape": [2**60, 2**60]}}, 8),
                               ("metadata", {"__metadata__": {"a": 1}, "a": one}, 8)):
        text = json.dumps(header).encode()
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + bytes(data))
        try:
            with safetensors.safe_open(path, "pt"):
                theirs = "taken"
        except Exception as refused:  # its errors have no common class in every version
            theirs = f"refused ({refused})"
        ours = subprocess.run([tool, "read", path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        print(f"{what}: there {theirs}; here {'refused' if ours.returncode == 1 else 'TAKEN'}: {ours.stderr.decode().strip().split('/')[-1]}")
        good &= ours.returncode == 1 and theirs != "taken"
    return good


def main() -> int:
    tool = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "file.safetensors")
        results = [ours_read_there(tool, path), theirs_read_here(tool, path), both_refuse(tool, path)]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
