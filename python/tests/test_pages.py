# SPDX-License-Identifier: MIT
"""The Python blocks of the pages run as they stand, one after the other, where runs/mine is a run."""

import re

import pytest
from conftest import CLONE

pages = [CLONE / name for name in ("README.md", "python/README.md")]


@pytest.mark.parametrize("page", pages, ids=str)
def test_blocks(page, run_folder, tmp_path, monkeypatch):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "mine").symlink_to(run_folder)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    assert blocks
    names = {}
    for block in blocks:
        if "import torch" in block:
            pytest.importorskip("torch")
        exec(compile(block, str(page), "exec"), names)
