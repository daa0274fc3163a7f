"""What CONTRIBUTING.md tells a contributor to write works as written."""

from arl_mini.algorithms import GRPO, catalogue, compare
from tests.algorithms.walkthrough import module

EXAMPLE = module()
TESTS = {name: test for name, test in vars(EXAMPLE).items() if name.startswith("test_")}
assert len(TESTS) == 3
globals().update(TESTS)  # pytest finds them here


def test_the_example_can_be_compared():
    text = str(compare(GRPO, EXAMPLE.SAPO))
    assert "sigmoid" in text and "f(r)" in catalogue.formula(EXAMPLE.SAPO)
