import pytest

from tvm_vfuse.device import cache_bytes, cpu_device, cpu_model, parse_target, runs_here, target_features, vector_set
from tvm_vfuse.errors import InputError


def test_llvm_is_this_cpu_and_runs_here():
    target = parse_target("llvm")
    assert target.kind.name == "llvm"
    assert runs_here(target)
    cpu = cpu_device(target)
    assert cpu.cores >= 1
    assert cpu.vector_bits >= 128
    assert cpu.lanes(32) == cpu.vector_bits // 32
    assert cpu.lanes(100_000) == 1
    assert dict(cpu.sources).keys() >= {"cores", "caches"}


def test_a_target_as_json_keeps_its_attributes():
    target = parse_target('{"kind": "llvm", "mcpu": "haswell", "num-cores": 3}')
    cpu = cpu_device(target)
    assert (cpu.mcpu, cpu.vector_bits, cpu.vector_registers, cpu.cores) == ("haswell", 256, 16, 3)


def test_vector_facts_are_those_of_the_target_and_not_of_this_machine():
    wide = cpu_device(parse_target('{"kind": "llvm", "mcpu": "skylake-avx512"}'))
    assert (wide.vector_bits, wide.vector_registers) == (512, 32)
    arm = parse_target('{"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72"}')
    assert not runs_here(arm)
    assert (cpu_device(arm).vector_bits, cpu_device(arm).l2_bytes) == (128, None)


def test_the_host_target_uses_no_instruction_set_that_this_cpu_lacks():
    import tvm

    have = {str(k) for k, on in tvm.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")().items() if on}
    vectors = {f for f in target_features(parse_target("llvm")) if f.startswith(("avx", "sse", "fma"))}
    assert vectors <= have


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gpu", "unknown; use llvm"),
        ("", "unknown; use llvm"),
        ("cuda", "CUDA kernels are not built by this version"),
        ("cuda:sm_90", "CUDA kernels are not built by this version"),
        ('{"kind": "cuda", "arch": "sm_90"}', "CUDA kernels are not built by this version"),
        ('{"kind": "vulkan"}', "'vulkan' is not built"),
        ('{"kind": ', "not valid JSON"),
        ('{"mcpu": "haswell"}', 'needs "kind"'),
        ('{"kind": 3}', 'needs "kind"'),
        ('{"kind": "llvm", "mcpu": "haswel"}', "did you mean haswell"),
        ('{"kind": "llvm", "mtriple": "nowhere-linux"}', "names no architecture"),
        ('{"kind": "llvm", "mtriple": 5}', "names no architecture"),
        ('{"kind": "llvm", "colour": "red"}', "Unknown config option 'colour'"),
        ('{"kind": "llvm", "num-cores": "many"}', "num-cores"),
    ],
)
def test_what_is_no_target_is_an_input_error_that_says_why(text, says):
    with pytest.raises(InputError) as caught:
        parse_target(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_widest_vector_set_counts():
    assert vector_set(["sse2", "avx2", "avx", "avx512f"]) == (512, 32)
    assert vector_set(["sse2", "avx"]) == (256, 16)
    assert vector_set(["neon"]) == (128, 32)
    assert vector_set([]) == (64, 16)


def test_caches_are_read_from_the_system_s_description(tmp_path):
    described = [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2M"), ("3", "Unified", "36864K")]
    for number, (level, kind, size) in enumerate(described):
        index = tmp_path / f"index{number}"
        index.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size), ("coherency_line_size", "64")):
            (index / name).write_text(text + "\n")
    (tmp_path / "index9").mkdir()
    assert cache_bytes(tmp_path) == {"l1d": 49152, "l2": 2 << 20, "l3": 36 << 20, "line": 64}
    assert cache_bytes(tmp_path / "nothing") == {}


def test_the_processor_s_name_is_the_system_s(tmp_path):
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t: x\n")
    assert cpu_model(info) == "Some CPU @ 2 GHz"
    assert cpu_model(tmp_path / "missing")
