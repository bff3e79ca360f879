"""The examples of README.md run as printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlglot", reason="SQL needs the sql extra")

README = (Path(__file__).resolve().parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """All examples but those of Spark, which have their own tests. Comments state the output."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in BLOCKS:
        if "pyspark" in block:
            continue
        exec(block, names)
        promised = re.findall(r"print\(.*\) +# (\[.*\])$", block, re.MULTILINE)
        printed = capsys.readouterr().out.splitlines()
        assert printed[: len(promised)] == promised
    names.clear()
