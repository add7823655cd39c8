"""The parts of MetaSchedule that a tuner of ours must go round."""

from __future__ import annotations

import pytest
import tvm
from tvm.s_tir import meta_schedule  # noqa: F401  (registers the functions looked up below)
from tvm.script import tirx as T


def test_removing_a_build_artifact_deletes_the_whole_folder_it_lies_in(tmp_path):
    folder = tmp_path / "of_its_own"
    folder.mkdir()
    artifact, neighbour = folder / "kernel.so", folder / "results.json"
    artifact.touch()
    neighbour.touch()
    tvm.get_global_func("s_tir.meta_schedule.remove_build_dir")(str(artifact))
    assert not neighbour.exists()
    assert not folder.exists()
    assert tmp_path.exists()


def test_a_schedule_refuses_the_seed_zero():
    @T.prim_func(private=True, s_tir=True)
    def copy(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("copy"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi]

    with pytest.raises(ValueError, match="seed must be in the range"):
        tvm.s_tir.Schedule(copy, seed=0)
    assert tvm.s_tir.Schedule(copy, seed=1).mod is not None
