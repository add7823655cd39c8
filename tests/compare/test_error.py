import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_vfuse.compare.error import max_error, output_error, tolerance

FINITE = st.floats(-1e6, 1e6, width=32)


@given(st.lists(FINITE, min_size=1, max_size=20))
def test_equal_outputs_have_no_error(values):
    array = np.array(values, "float32")
    assert output_error(array, array.astype("float64")) == 0


@given(st.lists(st.floats(0.5, 2.0), min_size=2, max_size=20), st.integers(0, 19), st.floats(1e-3, 1.0))
def test_a_deviation_is_measured_against_the_element_and_the_rms(values, at, deviation):
    want = np.array(values)
    got = want.copy()
    got[at % len(values)] += deviation
    rms = np.sqrt(np.mean(want**2))
    expected = abs(got[at % len(values)] - want[at % len(values)]) / (want[at % len(values)] + rms)
    assert output_error(got, want) == pytest.approx(expected)


def test_scale_does_not_matter_even_where_squares_overflow():
    want = np.array([1.0, -2.0, 4.0])
    base = output_error(want * 1.01, want)
    assert output_error(want * 1.01e250, want * 1e250) == pytest.approx(base)
    assert output_error(want * 1.01e-250, want * 1e-250) == pytest.approx(base)


@pytest.mark.parametrize(
    ("got", "want", "error"),
    [
        ([np.nan, 1], [np.nan, 1], 0),
        ([np.inf, 1], [np.inf, 1], 0),
        ([np.inf, 1], [-np.inf, 1], np.inf),
        ([np.nan, 1], [2, 1], np.inf),
        ([2, 1], [np.nan, 1], np.inf),
        ([0, 0], [0, 0], 0),
        ([1e-30, 0], [0, 0], np.inf),
        ([], [], 0),
    ],
)
def test_special_values(got, want, error):
    assert output_error(np.array(got, "float32"), np.array(want, "float64")) == error


def test_a_reference_that_overflows_in_the_outputs_dtype_stands_for_infinity():
    want = np.array([7e4, -7e4, 1.0])
    assert output_error(np.array([np.inf, -np.inf, 1], "float16"), want) == 0
    assert output_error(np.array([np.inf, np.inf, 1], "float16"), want) == np.inf
    assert output_error(np.array([np.inf, -np.inf, 1], "float32"), want) == np.inf


def test_integers_and_bools_are_exact():
    assert output_error(np.array([1, 2]), np.array([1, 2])) == 0
    assert output_error(np.array([1, 2]), np.array([1, 3])) == np.inf
    assert output_error(np.array([True, False]), np.array([True, True])) == np.inf


def test_shapes_and_numbers_of_outputs_must_agree():
    assert output_error(np.zeros((2, 3)), np.zeros((3, 2))) == np.inf
    assert max_error([np.zeros(2)], [np.zeros(2), np.zeros(2)]) == np.inf
    assert max_error([np.ones(2), np.array([1, 2])], [np.ones(2), np.array([1, 2])]) == 0


def test_the_coarsest_float_decides_the_tolerance():
    assert tolerance(["float32", "float16", "int64"]) == tolerance(["float16"])
    assert tolerance(["bfloat16"]) > tolerance(["float16"]) > tolerance(["float32"]) > tolerance(["float64"]) > 0
    assert tolerance(["float8_e4m3fn", "float32"]) > tolerance(["bfloat16"])
    assert tolerance(["int32", "bool"]) == 0
