"""The table in docs/architecture.md names every module, and no module that is not there."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tvm_vfuse"


def named_patterns() -> list[str]:
    """Paths of the table's first column; a bare name lies in the folder of the row's first one."""
    patterns = []
    for row in re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE):
        names = re.findall(r"`([^`]+\.py)`", row)
        for name in names:
            folder = str(Path(names[0]).parent)
            patterns.append(name if "/" in name or folder == "." else f"{folder}/{name}")
    return patterns


def modules() -> list[str]:
    paths = (path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
    return sorted(path for path in paths if not path.endswith(("__init__.py", "__main__.py")))


def test_every_module_is_in_the_source_map():
    patterns = named_patterns()
    assert [m for m in modules() if not any(fnmatch(m, p) for p in patterns)] == []


def test_every_entry_of_the_source_map_exists():
    found = modules()
    assert [p for p in named_patterns() if not any(fnmatch(m, p) for m in found)] == []
