"""May two groups become one? Rules that return reasons and facts; none of them needs TVM."""
