"""Every built notebook equals its source and reads well where nothing can be run."""

import pytest

from notebooks import build

SOURCES = build.sources()


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_built_notebook_is_well(source):
    assert build.check(source) == []


def test_every_notebook_has_a_source():
    built = {path.stem for path in build.HERE.glob("*.ipynb")}
    assert built <= {source.stem for source in SOURCES}
