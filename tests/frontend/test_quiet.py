"""Nothing that libraries write reaches the program's output, and the output comes back afterwards."""

from __future__ import annotations

import os
import sys
import warnings

import pytest

from tvm_vfuse.frontend.quiet import quiet


def chatter_everywhere():
    print("python out")
    print("python err", file=sys.stderr)
    os.write(1, b"c out\n")
    os.write(2, b"c err\n")
    warnings.warn("a warning", stacklevel=1)


def test_all_is_diverted_and_kept(capfd):
    with quiet() as chatter:
        chatter_everywhere()
    assert capfd.readouterr() == ("", "")
    for text in ("python out", "python err", "c out", "c err"):
        assert text in chatter.text


def test_output_comes_back_even_after_an_exception(capfd):
    with pytest.raises(ValueError, match="inside"), quiet():
        raise ValueError("inside")
    os.write(1, b"after out\n")
    os.write(2, b"after err\n")
    assert capfd.readouterr() == ("after out\n", "after err\n")
