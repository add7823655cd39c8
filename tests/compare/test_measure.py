import itertools
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_vfuse.compare.measure import geometric_mean, measure, quartiles


class Bench:
    """Functions that take a given time on a clock of their own."""

    def __init__(self, **seconds):
        self.now, self.log = 0.0, []
        self.functions = {name: self._function(name, s) for name, s in seconds.items()}

    def _function(self, name, seconds):
        source = iter(seconds) if isinstance(seconds, itertools.cycle) else itertools.repeat(seconds)

        def run():
            self.log.append(name)
            self.now += next(source)

        return run

    def measure(self, budget_s=1.0):
        def pause(seconds):
            self.now += seconds

        return measure(self.functions, budget_s, clock=lambda: self.now, pause=pause)


def test_the_median_is_the_time_of_one_call_in_ms():
    measured = Bench(a=0.002, b=0.010).measure()
    assert measured.timing("a").median == pytest.approx(2.0)
    assert measured.timing("b").median == pytest.approx(10.0)
    assert measured.ratio("b", "a").median == pytest.approx(5.0)


def test_a_slow_function_gets_three_rounds_and_they_are_paired_with_the_others():
    measured = Bench(fast=0.001, slow=30.0).measure(budget_s=1.0)
    assert measured.timing("slow").runs == 3
    assert measured.timing("fast").runs > 3
    assert measured.ratio("slow", "fast").runs == 3
    rounds = [index for index, sample in enumerate(measured.samples_ms["slow"]) if sample is not None]
    gaps = [b - a for a, b in itertools.pairwise(rounds)]
    assert max(gaps) - min(gaps) <= 1
    assert len(measured.samples_ms["slow"]) == len(measured.samples_ms["fast"])


def test_the_budget_bounds_the_time_of_functions_that_are_not_slow():
    bench = Bench(a=0.02, b=0.02)
    bench.measure(budget_s=0.4)
    assert bench.now < 0.4 * 1.5 + 2 * 4 * 0.02


def test_short_functions_are_called_many_times_a_sample():
    bench = Bench(a=1e-5)
    bench.measure(budget_s=0.05)
    assert bench.log.count("a") / len(bench.measure(budget_s=0.05).samples_ms["a"]) > 100


def test_the_order_rotates_from_round_to_round():
    bench = Bench(a=0.05, b=0.05, c=0.05)
    bench.measure(budget_s=1.0)
    after_first_calls = bench.log[3:]
    firsts = [after_first_calls[i] for i in range(0, 9, 3)]
    assert firsts == ["a", "b", "c"]
    assert all(sorted(after_first_calls[i : i + 3]) == ["a", "b", "c"] for i in range(0, 9, 3))


def test_disturbance_of_a_whole_round_leaves_the_ratio():
    shared = [0.04, 0.04, 0.4, 0.04, 0.04, 0.4]
    measured = Bench(a=itertools.cycle(shared), b=itertools.cycle([2 * s for s in shared])).measure(budget_s=100.0)
    ratio = measured.ratio("b", "a")
    assert (ratio.p25, ratio.median, ratio.p75) == pytest.approx((2.0, 2.0, 2.0))


@given(st.lists(st.floats(0.1, 1e3), min_size=2, max_size=30))
def test_quartiles_are_ordered_and_the_middle_one_is_the_median(values):
    timing = quartiles(values)
    assert timing.p25 <= timing.median <= timing.p75
    assert timing.median == pytest.approx(statistics.median(values))
    assert timing.runs == len(values)


def test_one_sample_is_its_own_quartiles():
    assert quartiles([3.0]).p25 == quartiles([3.0]).p75 == 3.0


def test_geometric_mean():
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    assert geometric_mean([]) is None
