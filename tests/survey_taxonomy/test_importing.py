"""The importer: parse and render are inverse, known faults are flagged, nothing is merged."""

import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from survey_taxonomy.__main__ import main
from survey_taxonomy.importing import (
    Listing,
    Row,
    Section,
    parse_bullets,
    parse_official,
    propose,
    read_commit,
    render_bullets,
    render_official,
)
from survey_taxonomy.importing.bullets import COLUMNS as BULLET_COLUMNS
from survey_taxonomy.importing.proposal import COLUMNS
from survey_taxonomy.reading import DATA, read

FIXTURE = (Path(__file__).parent / "fixture" / "official.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def book():
    return read()


# round trip

text = st.text(
    st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp", "Zs")), min_size=1, max_size=12
).filter(lambda s: s != "-" and not set(s) <= set(":-"))
url = st.from_regex(r"https://[a-z]{1,8}\.(org|com)/[A-Za-z0-9._/?=-]{0,12}", fullmatch=True)
paper = st.tuples(st.sampled_from(["Paper", "Blog"]), url)
other = st.tuples(st.sampled_from(["Code", "Model", "Website"]), st.one_of(url, st.just("")))
heading = st.from_regex(r"Sec[1-6]\.[1-9] [A-Za-z:&]{1,10}", fullmatch=True)


@st.composite
def official_sections(draw):
    columns = (
        "Method",
        *draw(st.lists(text.filter(lambda c: c not in ("Link", "Resource")), max_size=3, unique=True)),
        "Link",
        "Resource",
    )
    groups = sorted(draw(st.lists(text, max_size=2, unique=True)))
    rows = []
    for group in groups or [""]:
        for _ in range(draw(st.integers(1, 3))):
            cells = tuple((c, draw(text)) for c in columns[1:-2])
            links = tuple(draw(st.lists(paper, max_size=2)) + draw(st.lists(other, max_size=2)))
            rows.append(Row(draw(text), group, cells, links))
    return Section(draw(heading), columns, tuple(rows))


@settings(max_examples=80, deadline=None)
@given(st.lists(official_sections(), max_size=3))
def test_official_round_trip(sections):
    listing = Listing(("# A list",), tuple(sections))
    assert parse_official(render_official(listing)) == listing


@st.composite
def bullet_sections(draw):
    rows = []
    for _ in range(draw(st.integers(0, 3))):
        date = draw(st.sampled_from(["", "2025.03", "2024.11"]))
        cells = (("Date", date), ("Title", draw(st.one_of(st.just(""), text))))
        rows.append(
            Row(
                draw(text),
                "",
                cells,
                tuple(draw(st.lists(st.tuples(st.sampled_from(["Paper", "Code"]), url), max_size=2))),
            )
        )
    return Section(draw(heading), BULLET_COLUMNS, tuple(rows))


@settings(max_examples=80, deadline=None)
@given(st.lists(bullet_sections(), max_size=3))
def test_bullets_round_trip(sections):
    listing = Listing(("# A list",), tuple(sections))
    assert parse_bullets(render_bullets(listing)) == listing


def test_fixture_round_trip():
    listing = parse_official(FIXTURE)
    assert parse_official(render_official(listing)) == listing
    assert sum(len(s.rows) for s in listing.sections) == 36 and not listing.strange


# proposals


def test_entries_already_in_give_no_change(book):
    proposal = propose(parse_official(FIXTURE), book)
    assert proposal.new == () and proposal.changed == ()
    assert proposal.matched == 35  # 36 rows; PF-PPO stands twice under two names


def test_known_faults_of_links_are_flagged(book):
    """Every fault L01–L25 that shows in the list itself is found, at its entry."""
    found = {(f.rule, f.entry) for f in propose(parse_official(FIXTURE), book).findings}
    for c in book.records["corrections"]:
        if not c["id"].startswith("L") or c["rule"] in ("reading", "evidence_agrees", "citation_name"):
            continue
        if c["id"] == "L25":
            continue  # legitimate sharing, on the allow list
        assert (c["rule"].removeprefix("import:"), c["target"]["entry"]) in found, c["id"]


def listing_from(book):
    """The whole list, rebuilt from the facts recorded under S-list."""
    back = {}
    for column, attribute in COLUMNS.items():
        back.setdefault(attribute, column)
    sections = {}
    for entry in book.records["entries"]:
        for p in entry["placements"]:
            if p["source"] != "S-list" or p["role"] != "table_row":
                continue
            number = ".".join(p["section"].split("/")[0].split(".")[:2])
            cells = tuple((back[k], str(v)) for k, v in p["cells"].items() if k in back)
            links = tuple(
                (k.get("stated", k)["rel"].capitalize(), k.get("stated", k)["url"])
                for k in entry.get("links", ())
                if k["at"] == p["at"]
            )
            name = p["cells"].get("name", entry["name"])
            sections.setdefault(number, []).append(Row(name, "", cells, links, int(p["at"].split("L")[1])))
    made = []
    for number, rows in sorted(sections.items()):
        columns = dict.fromkeys(c for row in rows for c, _ in row.cells)
        made.append(Section(f"Sec{number} Rebuilt", ("Method", *columns, "Link", "Resource"), tuple(rows)))
    return Listing(("# Rebuilt",), tuple(made))


def test_the_whole_list_proposes_nothing(book):
    listing = parse_official(render_official(listing_from(book)))
    assert sum(len(s.rows) for s in listing.sections) == 208
    proposal = propose(listing, book)
    assert (proposal.new, proposal.changed, proposal.vanished) == ((), (), ())


def test_changes_are_proposed(book):
    changed = FIXTURE.replace(
        "| PPO | 2017 | Policy gradient | Yes | No |", "| PPO | 2018 | Policy gradient | Yes | Yes |"
    )
    changed = changed.replace("https://github.com/camel-ai/camel)", "https://github.com/camel-ai/moved)")
    proposal = propose(parse_official(changed), book)
    by = {c["entry"]: c for c in proposal.changed}
    assert {v["attribute"]: (v["was"], v["now"]) for v in by["ppo"]["values"]} == {
        "year": ("2017", "2018"),
        "kl": ("No", "Yes"),
    }
    assert by["camel"]["new_links"] == ["https://github.com/camel-ai/moved"]
    assert "vapo" in proposal.vanished


def test_a_new_row_keeps_known_hosts_only_and_is_escaped(book):
    row = (
        "| <b>Shiny</b> | External | Qwen9-1B | [Paper](https://arxiv.org/abs/2612.00001) "
        "| [Code](https://evil.example/x) [Website](javascript:alert) |\n| **_Closed"
    )
    proposal = propose(parse_official(FIXTURE.replace("| **_Closed", row, 1)), book)
    (new,) = proposal.new
    assert new["name"] == "&lt;b&gt;Shiny&lt;/b&gt;"
    assert (
        new["links"] == [{"rel": "paper", "url": "https://arxiv.org/abs/2612.00001"}]
        and new["refused_links"] == 2
    )
    assert {"markup", "host_known"} <= {f.rule for f in proposal.findings if f.line == new["line"]}


def test_an_injected_line_is_no_row(book):
    """A copy of the list carried a promotional line under section 2.7."""
    line = "Visit https://promo.example for the best agents! <script>x</script>"
    text_ = FIXTURE.replace("| **_DPO family_**", f"{line}\n| **_DPO family_**")
    listing = parse_official(text_)
    assert listing.sections == parse_official(FIXTURE).sections
    finding = next(f for f in propose(listing, book).findings if f.rule == "strange_line")
    assert "&lt;script&gt;" in finding.message and "<" not in finding.message


def test_matching_order(book):
    rows = [
        Row("Renamed entirely", links=(("Paper", "https://arxiv.org/abs/2503.14476"),)),
        Row("Also renamed", links=(("Paper", "https://openreview.net/forum?id=3Tzcot1LKb"),)),
        Row("policy filtration for rlhf"),
        Row("Unheard of"),
    ]
    proposal = propose(Listing((), (Section("Other", ("Method",), tuple(rows)),)), book)
    assert proposal.matched == 3 and [n["name"] for n in proposal.new] == ["Unheard of"]


def test_second_format_is_imported(book):
    text_ = "# Papers\n\n## Search\n- [2025.03] **Search-R1**: Training LLMs [[Paper](https://arxiv.org/abs/2503.09516)]\n"
    proposal = propose(parse_bullets(text_), book)
    assert proposal.matched == 1 and proposal.new == ()


# git and command line


@pytest.fixture
def clone(tmp_path):
    folder = tmp_path / "clone"
    folder.mkdir()
    (folder / "README.md").write_text(FIXTURE, encoding="utf-8")
    run = [
        "git",
        "-C",
        str(folder),
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@t",
        "-c",
        "commit.gpgsign=false",
    ]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "list"]):
        subprocess.run([*run, *command], check=True, capture_output=True)
    sha = subprocess.run(
        [*run, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    (folder / "README.md").write_text("changed since", encoding="utf-8")
    return folder, sha


def test_import_reads_the_pinned_commit(clone, tmp_path, capsys):
    folder, sha = clone
    before = {p: p.read_bytes() for p in DATA.rglob("*.yml")}
    out = tmp_path / "proposal.yml"
    assert main(["import-list", str(folder), "--commit", sha[:10], "--out", str(out)]) == 0
    assert "0 new rows, 0 changed" in capsys.readouterr().out
    proposal = yaml.safe_load(out.read_text(encoding="utf-8"))
    assert proposal["new"] == [] and len(proposal["findings"]) > 30
    assert before == {p: p.read_bytes() for p in DATA.rglob("*.yml")}, "the importer never writes data"


@pytest.mark.parametrize(
    "commit,word", [("main", "hex digits"), ("deadbeef", "could not show"), ("--help", "hex")]
)
def test_bad_commits_are_refused(clone, commit, word):
    with pytest.raises(ValueError, match=word):
        read_commit(clone[0], commit)


def test_missing_clone_and_size_limit(clone, tmp_path, capsys):
    with pytest.raises(ValueError, match="clone the list first"):
        read_commit(tmp_path / "nowhere", "3006129")
    with pytest.raises(ValueError, match="at most 10"):
        read_commit(*clone, limit=10)
    assert main(["import-list", str(tmp_path / "nowhere"), "--commit", "3006129"]) == 2
