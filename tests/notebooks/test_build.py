"""The build: one real run of a small notebook, and everything that must stop it."""

import nbformat
import pytest

from notebooks import build

SOURCE = '''# ---
# jupyter:
#   jupytext: {}
# ---
# %% [markdown]
# # A small chapter

# %%
import os
from arl_mini import lab
lab.style.use()
print(os.environ["OMP_NUM_THREADS"], lab.budget().name)

# %% tags=["nbval-check-output", "other"] nonsense=1
1 + 1

# %%
import time
run = ({"step": i, "success": i / 9, "reward": 0.0, "seconds": time.time()} for i in range(10))
live = lab.live(run, title="Hello")
records = await live.done()

# %%
lab.curves({"a": records});

# %%
import ipywidgets
ipywidgets.IntSlider()

# %%
1 + 1
'''


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A source, the notebook built from it, and a second build of the same."""
    folder = tmp_path_factory.mktemp("chapters")
    source = folder / "90_small.py"
    source.write_text(SOURCE)
    target = build.build(source, "cpu", folder)
    first = target.read_bytes()
    build.build(source, "cpu", folder)
    return source, target, first


def test_built_notebook(built):
    source, target, _ = built
    assert build.check(source, target.parent) == []
    notebook = nbformat.read(target, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert notebook.metadata.kernelspec.name == "python3"
    assert "version" not in notebook.metadata.language_info and "widgets" not in notebook.metadata
    assert [cell.execution_count for cell in code] == [1, 2, 3, 4, 5, 6]
    assert code[0].outputs[0].text == "1 cpu\n"
    assert code[1].metadata == {"tags": ["nbval-check-output", "other"]}
    assert [set(output.data) for output in code[2].outputs] == [{"image/svg+xml", "text/plain"}]
    figure = code[3].outputs[0].data
    assert set(figure) == {"image/svg+xml", "text/plain"} and "dc:date" not in figure["image/svg+xml"]
    assert list(code[4].outputs[0].data) == ["text/plain"]


def test_a_second_build_is_the_same_file(built):
    _, target, first = built
    assert target.read_bytes() == first


def test_ids_follow_content(built):
    source, *_ = built
    before = [cell.id for cell in build.read_source(source).cells]
    assert len(set(before)) == len(before)
    other = source.with_name("91_other.py")
    other.write_text(SOURCE.replace("# %%\nimport time", "# %%\nnew = 1\n\n# %%\nimport time"))
    after = [cell.id for cell in build.read_source(other).cells]
    assert [id for id in after if id in before] == before and len(after) == len(before) + 1


@pytest.mark.parametrize(("cell", "words"), [
    ("raise KeyError('gone')", "KeyError"),
    ("print(__import__('sys').prefix)", "path of this machine"),
    ("print(object())", "memory address"),
    ("print('x' * 500_000)", "500,.* bytes, allowed are 400,000; cell 1"),
    ("try: 1 / 0\nexcept Exception: get_ipython().showtraceback()", "ZeroDivisionError"),
    ("import sys; sys.stderr.write('Traceback (most recent call last)');", "shows a traceback"),
    ("from arl_mini import lab\nlab.live([{'step': 1}], show=('loss',))", "records have no 'loss'"),
    ("pass", "has no outputs"),
])
def test_what_stops_a_build_leaves_the_old_file(tmp_path, cell, words):
    source = tmp_path / "90_small.py"
    source.write_text(f"# %%\n{cell}\n")
    (tmp_path / "90_small.ipynb").write_text("old")
    with pytest.raises(build.BuildError, match=words):
        build.build(source, "smoke", tmp_path)
    assert (tmp_path / "90_small.ipynb").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["90_small.ipynb", "90_small.py"]


@pytest.mark.parametrize(("how", "words"), [
    (lambda nb, code: code[0].update(source="print(2)"), "cell 2 differs from its source"),
    (lambda nb, code: nb["cells"].pop(), "has 6 cells, its source 7"),
    (lambda nb, code: code[0].update(id="other"), "cell 2 differs from its source"),
    (lambda nb, code: code[1]["metadata"].clear(), "cell 3 differs from its source"),
    (lambda nb, code: code[0].update(execution_count=None), "cell 2 was not run"),
    (lambda nb, code: code[1].update(outputs=[]), "tagged nbval-check-output but has no output"),
    (lambda nb, code: [cell.update(outputs=[]) for cell in code], "has no outputs"),
    (lambda nb, code: nb["metadata"].update(widgets={}), "widget state"),
    (lambda nb, code: nb["metadata"]["kernelspec"].update(name="mine"), "kernel is not called python3"),
    (lambda nb, code: nb["metadata"]["arl_mini"].update(budget="smoke"), "built at budget 'smoke'"),
    (lambda nb, code: code[4]["outputs"][0]["data"].update({build.WIDGET_VIEW: {}}), "widget view"),
    (lambda nb, code: code[0]["outputs"][0].update(text="in /home/ann/x.py"), "'in /home/ann/x"),
    (lambda nb, code: code[0]["outputs"][0].update(text=r"in C:\Users\ann"), "a path of this machine"),
])
def test_check_finds(built, how, words):
    source, target, _ = built
    notebook = nbformat.read(target, as_version=4)
    how(notebook, [cell for cell in notebook.cells if cell.cell_type == "code"])
    assert any(words in text for text in build.problems(notebook, source))


def test_streams_are_joined_as_a_screen_would_show_them():
    pieces = [("stdout", "a\rb"), ("stdout", "c\n10%\r"), ("stderr", "x"), ("stdout", "y")]
    outputs = [nbformat.v4.new_output("stream", name=name, text=text) for name, text in pieces]
    assert [(o.name, o.text) for o in build._joined(outputs)] == [
        ("stdout", "bc\n10%"), ("stderr", "x"), ("stdout", "y")]


def test_widget_without_a_still_picture_stops_the_build():
    output = nbformat.v4.new_output("display_data", {build.WIDGET_VIEW: {"model_id": "x"}})
    cell = nbformat.v4.new_code_cell("show()", outputs=[output])
    with pytest.raises(build.BuildError, match="cell 1 shows a widget with no still picture"):
        build.clean(nbformat.v4.new_notebook(cells=[cell]), "cpu")


def test_addresses_and_words_are_no_machine_paths():
    for text in ("see example.org/home/page", "a/tmp/b is relative", "and/or", "the /obs mark"):
        cell = nbformat.v4.new_code_cell("", outputs=[nbformat.v4.new_output("stream", text=text)])
        assert build._output_problems(cell) == []


def test_command_line(built, monkeypatch, capsys):
    source, target, _ = built
    monkeypatch.setattr(build, "sources", lambda: [source])
    assert build.main(["--check", "--out", str(target.parent)]) == 0
    assert build.main(["--check", "--out", str(target.parent / "nowhere")]) == 1
    assert "is missing; run: python -m notebooks.build 90_small" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="no source for 99_none; there are: 90_small"):
        build.main(["99_none"])
