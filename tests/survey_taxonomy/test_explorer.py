"""The explorer without a browser: its facts, its drawings, its selection, the page as text."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

import survey_taxonomy
from survey_taxonomy import explorer, facts, pictures, shell
from survey_taxonomy.__main__ import main
from survey_taxonomy.explorer import Explorer, module
from survey_taxonomy.labels import FACETS, TEXTS, VALUES
from survey_taxonomy.progress import public_names
from survey_taxonomy.quoting import Library
from survey_taxonomy.rules.realised import ROOT

SVG = "{http://www.w3.org/2000/svg}"
DRAWN = ("matrix", "icicle", "timeline", "lineage", "overview")


@pytest.fixture(scope="module")
def tax():
    return survey_taxonomy.load()


@pytest.fixture(scope="module")
def atlas(tax):
    return Explorer(tax)


@pytest.fixture
def fresh(atlas):
    atlas.filters, atlas.query, atlas.entry = {}, "", ""
    return atlas


def test_the_selection_is_that_of_find(fresh, tax):
    fresh.filters = {"section": ["3.3"], "rl_used": ["yes"]}
    assert list(fresh.selection["entry_id"]) == list(
        tax.find(section="3.3", where={"rl_used": "yes"})["entry_id"]
    )
    fresh.filters = {"kl": "none"}
    assert list(fresh.selection["entry_id"]) == list(tax.find(where={"kl": "none"})["entry_id"])
    fresh.filters = {"capability": ["tool_use"], "task": ["search", "code"]}
    either = {
        *tax.find(capability="tool_use", task="search")["entry_id"],
        *tax.find(capability="tool_use", task="code")["entry_id"],
    }
    assert set(fresh.selection["entry_id"]) == either
    assert repr(fresh).startswith(
        f"Explorer: {len(either)} of {len(tax.entries)} entries (Capability: tool use"
    )


def test_words_look_into_everything(fresh):
    for words, entry in (
        ("kahneman", "kto"),
        ("rafailov", "dpo"),
        ("slow reasoning", "openai-o1"),
        ("clip_higher", "dapo"),
        ("Decoupled DAPO", "dapo"),
    ):
        fresh.query = words
        assert entry in set(fresh.selection["entry_id"]), words
    fresh.query = "no such word at all"
    assert len(fresh.selection) == 0
    fresh.query = "dapo"
    assert fresh.bibtex().count("@") == fresh.selection["work_id"].nunique()


@pytest.mark.parametrize(
    "filters, word", [({"colour": ["red"]}, "expected one of"), ({"kl": ["perhaps"]}, "values are")]
)
def test_unknown_filters_say_what_is_known(fresh, filters, word):
    with pytest.raises(ValueError, match=word):
        fresh.filters = filters
    with pytest.raises(KeyError, match="near names"):
        fresh.entry = "DAPOO"
    with pytest.raises(ValueError, match="expected one of en, ja"):
        Explorer(fresh.taxonomy, lang="fr")


def test_every_algorithm_of_the_library_opens_its_loss(atlas):
    quotes = {s["symbol"]: s for e in atlas._facts["entries"] for s in e.get("sources", ())}
    for name in public_names(ROOT / "arl_mini" / "algorithms"):
        if name == "Algorithm":
            continue
        quote = quotes[f"arl_mini.algorithms.{name}"]
        text = (ROOT / quote["file"]).read_text(encoding="utf-8")
        assert quote["text"] in text and f"class {name}(" in quote["text"]
        assert quote["text"].splitlines()[0] == text.splitlines()[quote["line"] - 1]
        assert "def loss(" in (quote["loss"][1] if quote["loss"] else quote["text"])


def test_what_a_class_says_of_itself(tmp_path):
    package = tmp_path / "p"
    package.mkdir()
    (package / "__init__.py").write_text("from .a import Child, Odd\n")
    (package / "a.py").write_text(
        "from .b import Base\n\n\n@frozen\nclass Child(Base):\n    def plan(self): ...\n\n\n"
        "class Odd(Child):\n    @property\n    def needs_critic(self): ...\n"
    )
    (package / "b.py").write_text(
        "class Base:\n    needs_critic = True\n\n    def loss(self):\n        return 1\n"
    )
    child = Library(tmp_path).quote("p.Child")
    assert (child.file, child.line, child.parents, child.changes, child.critic) == (
        "p/a.py",
        4,
        ("Base",),
        ("plan",),
        "yes",
    )
    assert child.text.startswith("@frozen\nclass Child(Base):")
    assert child.loss == ("Base", "    def loss(self):\n        return 1")
    assert Library(tmp_path).quote("p.Odd").critic == "optional"
    assert Library(tmp_path).quote("p.Nothing") is None and Library(tmp_path).quote("q.Child") is None


def pressed(svg, attribute):
    return [e for e in ElementTree.fromstring(svg).iter() if attribute in e.attrib]


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("lang", ["en", "ja"])
def test_pictures_are_well_formed_and_say_what_they_show(tax, name, lang):
    picture = getattr(pictures, name)(tax, lang)
    root = ElementTree.fromstring(picture.svg)
    assert root.tag == f"{SVG}svg" and any(c.isdigit() for c in picture.about)
    assert {"image/svg+xml", "text/plain"} == set(picture._repr_mimebundle_())
    assert "href" not in picture.svg and "<script" not in picture.svg
    if lang == "ja" and name == "matrix":
        assert "知覚" in "".join(root.itertext())


def test_the_matrix_shows_the_counts(tax):
    counts = tax.matrix()
    cells = pressed(pictures.matrix(tax).svg, "data-cell")
    assert len(cells) == counts.size
    for cell in cells:
        row, column = cell.attrib["data-cell"].split("|")
        assert "".join(cell.itertext()) == (str(counts.loc[row, column]) if counts.loc[row, column] else "–")


def test_the_icicle_has_every_section_inside_its_parent(tax):
    boxes = {e.attrib["data-value"]: e.attrib for e in pressed(pictures.icicle(tax).svg, "data-facet")}
    assert set(boxes) == set(tax.sections["section_id"])
    for row in tax.sections.itertuples():
        box = boxes[row.section_id]
        if row.parent:
            top, high = float(boxes[row.parent]["y"]), float(boxes[row.parent]["height"])
            assert top - 0.2 <= float(box["y"]) and float(box["y"]) + float(box["height"]) <= top + high + 0.2


def test_the_timeline_counts_every_entry_once(tax):
    bars = pressed(pictures.timeline(tax).svg, "data-facet")
    counts = [int(bar.find(f"{SVG}title").text.split(": ")[1]) for bar in bars]
    assert sum(counts) == len(tax.entries)
    assert "2025-05" in {bar.attrib["data-value"] for bar in bars}


def test_the_lineage_draws_each_edge_with_its_knob(tax):
    svg = pictures.lineage(tax).svg
    nodes = [e.attrib["data-open"] for e in pressed(svg, "data-open")]
    edges = tax.lineage()
    assert sorted(nodes) == sorted([*edges["src"], "reinforce"])
    knobs = [
        e.text for e in ElementTree.fromstring(svg).iter(f"{SVG}text") if e.attrib.get("class") == "arl-knob"
    ]
    assert sorted(knobs) == sorted(edges["knob"])


class Reader(HTMLParser):
    """Collects what a page would load, and whether tags close."""

    def __init__(self):
        super().__init__()
        self.loads, self.open = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "input", "br"):
            self.open.append(tag)
        self.loads += [
            v
            for k, v in attrs
            if k in ("src", "data", "action", "background") or (k == "href" and tag == "link")
        ]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_holds_everything(fresh, tmp_path):
    page = fresh.save(tmp_path / "atlas.html").read_text(encoding="utf-8")
    reader = Reader()
    reader.feed(page)
    assert reader.loads == [] and reader.open == []
    assert "default-src 'none'" in page and "@import" not in page and "url(" not in page
    data = json.loads(re.search(r'id="atlas-facts">(.*?)</script>', page, re.DOTALL)[1])
    assert [e["id"] for e in data["entries"]] == list(fresh.taxonomy.entries["entry_id"])
    assert data["sections"].keys() == set(fresh.taxonomy.sections["section_id"])


def test_what_comes_from_sources_is_escaped(tax):
    evil = "</script><img src=x onerror=alert(1)>'\""
    entries = tax.entries.copy()
    entries.loc[0, ["name", "note"]] = evil
    page = Explorer(survey_taxonomy.Taxonomy(**{**tax.tables, "entries": entries})).html()
    assert "<img" not in page.split('<script type="application/json"')[0]
    assert page.count("</script>") == 2


def test_tables_have_a_row_a_record(atlas, tax):
    def rows(html):
        return re.findall(r'data-entry="([^"]+)"', html)

    assert sorted(rows(shell.entries(tax, "en"))) == sorted(tax.entries["entry_id"])
    assert len(rows(shell.stated(tax, "en"))) == len(tax.stated_against_checked())
    assert len(rows(shell.editions(tax, "en"))) == len(tax.differences()) > 10
    kinds = {k for kinds, _ in shell.CHOICES.values() for k in kinds}
    assert len(rows(shell.chooser(tax, atlas._records, "en"))) == int(tax.entries["kind"].isin(kinds).sum())


def test_editions_differ_where_the_sources_do(tax):
    found = {(d.entry_id, d.attribute): (d.v3, d.list) for d in tax.differences().itertuples()}
    assert found["posterior-grpo", "group"] == ("generation", "refinement")
    assert ("dapo", "kl") not in found  # wrong in both alike


def test_words_are_there_in_both_languages(atlas):
    for words in (VALUES, FACETS, TEXTS):
        assert all(len(pair) == 2 and all(pair) for pair in words.values())
    used = {name for e in atlas._facts["entries"] for name in e["facets"]}
    assert used <= set(FACETS)
    for name in re.findall(r'say\((?:app\.)?state, "(\w+)"\)|\bt\("(\w+)"\)', module()):
        assert max(name) in TEXTS


def test_a_bundle_has_a_still_picture_and_the_command_writes_a_page(fresh, tmp_path, monkeypatch):
    monkeypatch.setenv("ARL_STATIC", "1")
    assert set(fresh._repr_mimebundle_()) == {"image/svg+xml", "text/plain"}
    assert main(["export", "--html", str(tmp_path / "a.html"), "--lang", "ja"]) == 0
    assert '<html lang="ja">' in (tmp_path / "a.html").read_text(encoding="utf-8")[:60]


BARE = """
import sys
class Gone:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "IPython", "ipywidgets", "anywidget", "jupyterlab", "traitlets"}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Gone())
import survey_taxonomy
atlas = survey_taxonomy.Explorer(filters={"capability": ["memory"]})
assert len(atlas.selection) > 20 and atlas.html().startswith("<!DOCTYPE html>")
assert "image/svg+xml" in atlas._repr_mimebundle_() and survey_taxonomy.table("3.3")
assert survey_taxonomy.check() == []
assert not {"torch", "IPython", "matplotlib"} & set(sys.modules)
"""


def test_all_but_the_widget_works_without_torch_and_jupyter():
    subprocess.run([sys.executable, "-c", BARE], cwd=ROOT, check=True)


def test_facts_name_only_what_exists(atlas):
    known = set(atlas._records)
    for entry in atlas._records.values():
        assert {row[1] for row in entry.get("relations", ())} <= known
    assert facts.when("2025-05", 2025) == "2025-05" and facts.when("", 2025) == facts.when("", 2025) == "2025"
    assert facts.when("2017-07", 2017) == "2017"


def test_widget_and_explorer_share_what_is_picked(tax, monkeypatch):
    monkeypatch.setattr(explorer, "_is_live", lambda: True)
    atlas = Explorer(tax, filters={"kl": "none"}, lang="ja")
    shown = atlas._repr_mimebundle_()
    assert shown[explorer.WIDGET_VIEW]["model_id"] == atlas.widget.model_id and "image/svg+xml" in shown
    assert atlas.widget.filters == {"kl": ["none"]} and atlas.widget.lang == "ja"
    assert json.loads(atlas.widget.facts)["facets"] == atlas._facts["facets"]
    atlas.widget.filters = {"task": ["gui"]}  # as a click would
    assert list(atlas.selection["entry_id"]) == list(tax.find(task="gui")["entry_id"])
    atlas.entry = "UI-TARS"
    assert atlas.widget.entry == "ui-tars" == atlas.entry
