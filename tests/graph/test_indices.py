"""Index arithmetic: flat positions, 64 bits, affine terms, digits of a mixed radix, factors that refine two shapes."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import tirx
from tvm.ir import Range, Var

from tvm_vfuse.graph.axes import Axis, is_mixed_radix, linear_terms
from tvm_vfuse.graph.indices import (
    const_int,
    equal,
    flatten,
    free_vars,
    index,
    new_analyzer,
    product,
    promote,
    structural_key,
    substitute,
    unravel,
)
from tvm_vfuse.graph.spread import common_factors

extents = st.lists(st.integers(1, 9), min_size=1, max_size=4)


def axes_of(sizes, analyzer=None):
    axes = [Axis(Var(f"a{i}", "int64"), index(e)) for i, e in enumerate(sizes)]
    for a in axes if analyzer is not None else ():
        analyzer.bind(a.var, Range(index(0), a.extent))
    return axes


def at(expr, values):
    """The integer an expression has with its variables given."""
    return const_int(new_analyzer().simplify(substitute(expr, {v: index(x) for v, x in values.items()})))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(extents)
def test_unravel_is_the_inverse_of_flatten(sizes):
    flat = Var("flat", "int64")
    parts = unravel(flat, [index(e) for e in sizes], new_analyzer())
    total = math.prod(sizes)
    for k in {0, total // 2, total - 1}:
        place = [at(p, {flat: k}) for p in parts]
        assert all(0 <= p < e for p, e in zip(place, sizes, strict=True))
        assert const_int(new_analyzer().simplify(flatten([index(p) for p in place], [index(e) for e in sizes]))) == k


@settings(max_examples=60, deadline=None, derandomize=True)
@given(extents, st.randoms(use_true_random=False), st.integers(0, 2))
def test_a_mixed_radix_takes_every_value_once(sizes, random, fault):
    """Against counting: digits in any order are one; a gap, a shift or a repeated stride is none."""
    analyzer = new_analyzer()
    axes = axes_of(sizes, analyzer)
    order = list(range(len(sizes)))
    random.shuffle(order)
    strides, step = {}, 1
    for i in order:
        strides[i], step = step, step * sizes[i]
    if fault == 1:
        strides[order[-1]] += 1
    offset = 1 if fault == 2 else 0
    flat = sum((a.var * strides[i] for i, a in enumerate(axes)), index(offset))
    values = [
        offset + sum(p * strides[i] for i, p in enumerate(point)) for point in itertools.product(*map(range, sizes))
    ]
    once = sorted(values) == list(range(math.prod(sizes)))
    found = is_mixed_radix(analyzer.simplify(flat), axes, index(math.prod(sizes)), analyzer)
    assert not found or once
    if fault == 0:
        assert found


@settings(max_examples=100, deadline=None, derandomize=True)
@given(extents, extents)
def test_common_factors_refine_both(a, b):
    fine = common_factors(a, b)
    if fine is None:
        return
    for coarse in (a, b):
        rest = list(fine)
        for e in coarse:
            if not rest:
                break
            while e > 1 and rest:
                f = rest.pop(0)
                assert e % f == 0
                e //= f


@pytest.mark.parametrize(
    ("a", "b", "fine"),
    [
        ([8, 32], [8, 4, 8], [8, 4, 8]),
        ([6, 4], [2, 12], [2, 3, 4]),
        ([32], [32], [32]),
        ([4, 9], [6, 6], None),
    ],
)
def test_common_factors_of_some_shapes(a, b, fine):
    assert common_factors(a, b) == fine


def test_promotion_computes_in_64_bits():
    i, n = Var("i", "int32"), Var("n", "int32")
    wide = promote(i * 2 + tirx.floordiv(n, 3))
    assert str(wide.ty) == "int64"
    replaced = promote(i * 2, {i: Var("k", "int64")})
    assert str(replaced.ty) == "int64"
    assert i not in free_vars(replaced)
    assert str(promote(i < n).ty) == "bool"


def test_substitution_keeps_types():
    i, k = Var("i", "int32"), Var("k", "int64")
    expr = i + 1
    assert str(substitute(expr, {i: k}).ty) == "int32"
    assert free_vars(substitute(expr, {i: k})) == {k}
    assert substitute(expr, {}) is expr


def test_affine_terms_are_found_and_others_are_not():
    analyzer = new_analyzer()
    axes = axes_of([4, 8], analyzer)
    a, b = (x.var for x in axes)
    assert [const_int(t) for t in linear_terms(a * 8 + b + 3, axes)] == [8, 1, 3]
    assert linear_terms(a * b, axes) is None
    assert linear_terms(tirx.floordiv(a, 2), axes) is None


def test_symbolic_extents_are_positive():
    n = Var("n", "int64")
    analyzer = new_analyzer([n])
    assert analyzer.can_prove(n > 0)
    assert equal(n * 4 // 4, n, analyzer)
    assert not equal(n, n + 1, analyzer)
    assert equal(product([n, index(4)]), n * 4, analyzer)


def test_structural_keys_are_equal_for_equal_expressions():
    i, j = Var("i", "int64"), Var("i", "int64")
    assert structural_key(i + 1) == structural_key(i + 1)
    assert structural_key(i) != structural_key(j)
    assert structural_key(index(3)) == 3
