"""The atlas in a real JupyterLab and as a page from disk without network: the same clicks, in both themes."""

from __future__ import annotations

import time

import nbformat
import pandas as pd
import pytest

import survey_taxonomy

IMPORT = "import survey_taxonomy"
SHOW = "atlas = survey_taxonomy.Explorer()\natlas"
# Press something as a mouse would, and measure until its views are laid out anew.
PRESS = """selector => {
  const item = document.querySelector(selector);
  const start = performance.now();
  item.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  document.querySelector(".arl-atlas").getBoundingClientRect();
  return performance.now() - start;
}"""
READY = ".arl-atlas[data-ready]"


@pytest.fixture(scope="module")
def tax():
    return survey_taxonomy.load()


@pytest.fixture(scope="module")
def atlas_page(tax, tmp_path_factory):
    return survey_taxonomy.Explorer(tax).save(tmp_path_factory.mktemp("atlas") / "atlas.html")


@pytest.fixture
def open_page(browser, atlas_page):
    """The page from disk in a browser without network; what it asks for from outside ends up in `asked`."""
    contexts, asked = [], []

    def open_one(scheme: str = "light", **options):
        contexts.append(
            browser.new_context(color_scheme=scheme, viewport={"width": 1180, "height": 1000}, **options)
        )
        contexts[-1].set_offline(True)
        page = contexts[-1].new_page()
        page.on(
            "request",
            lambda request: asked.append(request.url) if not request.url.startswith("file:") else None,
        )
        page.on("pageerror", lambda error: asked.append(str(error)))
        page.goto(atlas_page.as_uri())
        return page

    yield open_one
    assert [url for url in asked if not url.startswith("blob:")] == []
    for context in contexts:
        context.close()


def number(page) -> int:
    return int(page.locator(".arl-number").inner_text().split()[0])


def rows(page, tab: str = "entries") -> int:
    return page.locator(f"[data-tab={tab}] tr[data-entry]:not([hidden])").count()


def clear(page) -> None:
    page.locator(".arl-chips button").last.click()


def walk(page, tax, everything: int) -> None:
    """A click in each view, and what the others show then."""
    assert number(page) == rows(page) == everything
    fast = [page.evaluate(PRESS, '[data-cell="tool_use|search"]')]
    crossing = tax.find(capability="tool_use", task="search")
    assert number(page) == rows(page) == len(crossing) == tax.matrix().loc["tool_use", "search"]
    months = page.locator(".arl-timeline [data-value='2025-05']").get_attribute("aria-label")
    assert months.endswith(f", {int((crossing['first_public'] == '2025-05').sum())}")
    assert page.locator(".arl-icicle [data-value='3.3']").get_attribute("aria-label").endswith(", 0")
    assert page.locator(".arl-lineage [data-open=dapo].arl-off").count() == 1
    fast.append(page.evaluate(PRESS, ".arl-timeline [data-value='2025-05']"))
    assert number(page) == int((crossing["first_public"] == "2025-05").sum())
    clear(page)
    page.locator("[data-show=sections]").click()
    fast.append(page.evaluate(PRESS, ".arl-icicle [data-value='3.3']"))
    memory = tax.find(section="3.3")
    assert number(page) == len(memory)
    page.locator("[data-panel=rl_used] summary").click()
    page.locator("[data-panel=rl_used] input[value=yes]").check()
    assert number(page) == len(tax.find(section="3.3", where={"rl_used": "yes"}))
    clear(page)
    fast.append(page.evaluate(PRESS, "[data-panel=status] input[value=contradicted]"))
    page.locator("[data-show=stated]").click()
    wrong = tax.claims[tax.claims["status"] == "contradicted"]["entry_id"]
    checked = tax.stated_against_checked()
    assert number(page) == wrong.nunique()
    assert rows(page, "stated") == int(checked["entry_id"].isin(set(wrong)).sum())
    clear(page)
    assert max(fast) < 200, fast


def look_up(page, tax) -> None:
    """Lineage and card, search, chooser, editions, language."""
    page.locator("[data-show=lineage]").click()
    page.locator(".arl-lineage [data-open=dapo]").click()
    card = page.locator(".arl-card")
    assert "class DAPO(GRPO):" in card.locator(".arl-source pre").first.inner_text()
    assert "def loss(" in card.locator(".arl-source pre").nth(1).inner_text()
    assert "contradicted" in card.locator("tr[data-status=contradicted]").first.inner_text()
    card.locator(".arl-bibtex summary").click()
    assert "eprint = {2503.14476}" in card.locator(".arl-bibtex pre").inner_text()
    card.locator("h3").press("Escape")
    assert not card.is_visible()
    page.locator(".arl-atlas input[type=search]").fill("kahneman")
    assert number(page) == len(survey_taxonomy.Explorer(tax, query="kahneman").selection) > 0
    assert page.locator("[data-tab=entries] tr[data-entry=kto]:not([hidden])").count() == 1
    clear(page)
    page.locator("[data-show=chooser]").click()
    page.locator(".arl-asks select").first.select_option("framework")
    page.locator("[data-ask=framework_type]").select_option("agentic_rl")
    assert number(page) == len(tax.find(kind="framework", where={"framework_type": "agentic_rl"}))
    assert page.locator("[data-choice=framework]").is_visible()
    assert not page.locator("[data-choice=algorithm]").is_visible()
    clear(page)
    page.locator("[data-show=editions]").click()
    page.locator("[data-tab=editions] [data-value=list_only]").click()
    seen = tax.editions().groupby("entry_id")[["in_v3", "in_list"]].any()
    assert number(page) == int((seen["in_list"] & ~seen["in_v3"]).sum())
    clear(page)
    page.locator(".arl-language").click()
    assert page.locator(".arl-matrix text").filter(has_text="知覚").count() == 1
    assert page.locator("[data-show=lineage]").inner_text() == "系譜"
    page.locator(".arl-language").click()
    assert page.locator("[data-show=lineage]").inner_text() == "Lineage"


def test_the_page_from_disk_without_network(open_page, tax, screenshots):
    for scheme in ("light", "dark"):
        page = open_page(scheme)
        page.locator(READY).wait_for(timeout=20_000)
        walk(page, tax, len(tax.entries))
        look_up(page, tax)
        page.locator("[data-show=lineage]").click()
        page.locator(".arl-lineage [data-open=gspo]").click()
        page.evaluate(PRESS, '[data-cell="perception|vision"]')
        page.screenshot(path=screenshots / f"atlas_page_{scheme}.png")
        ink, paper = page.evaluate("""() => {
          const style = getComputedStyle(document.querySelector(".arl-atlas input"));
          const sum = (color) => color.match(/[\\d.]+/g).slice(0, 3).reduce((a, b) => a + +b, 0);
          return [sum(style.color), sum(style.backgroundColor)];
        }""")
        assert (ink < 200 and paper > 600) if scheme == "light" else (ink > 600 and paper < 200)


def test_the_page_by_keyboard(open_page, tax):
    page = open_page()
    page.locator(READY).wait_for(timeout=20_000)
    first = page.locator(".arl-matrix [tabindex='0']")
    assert first.count() == 1  # one stop for the whole matrix
    first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    where = page.evaluate("document.activeElement.dataset")
    assert page.evaluate("document.activeElement.closest('.arl-matrix') !== null"), where
    page.locator(".arl-matrix [data-cell='tool_use|code']").focus()
    page.keyboard.press("Enter")
    assert number(page) == len(tax.find(capability="tool_use", task="code"))
    page.keyboard.press(" ")
    assert number(page) == len(tax.entries)
    page.locator("[role=tab][aria-selected=true]").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert page.locator("[role=tab][aria-selected=true]").get_attribute("data-show") == "sections"
    page.locator("[data-show=entries]").click()
    page.locator("[data-tab=entries] [data-open]").first.press("Enter")
    assert page.evaluate("document.activeElement.closest('.arl-card') !== null")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.dataset.open !== undefined")


def test_saved_selections_hold_what_is_shown(open_page, tax, tmp_path):
    page = open_page(accept_downloads=True)
    page.locator(READY).wait_for(timeout=20_000)
    page.evaluate(PRESS, '[data-cell="tool_use|search"]')
    for kind in ("csv", "json", "bib"):
        with page.expect_download() as waited:
            page.locator(f".arl-save-{kind}").click()
        waited.value.save_as(tmp_path / waited.value.suggested_filename)
    chosen = tax.find(capability="tool_use", task="search")
    table = pd.read_csv(tmp_path / "selection.csv")
    assert list(table["id"]) == list(chosen["entry_id"]) and list(table["note"]) == list(chosen["note"])
    assert list(pd.read_json(tmp_path / "selection.json")["id"]) == list(chosen["entry_id"])
    records = (tmp_path / "selection.bib").read_text(encoding="utf-8")
    assert records.count("\n@") + 1 == chosen["work_id"].nunique()


def test_the_page_reads_without_javascript(open_page, tax, screenshots):
    page = open_page(java_script_enabled=False)
    assert rows(page) == len(tax.entries)
    assert page.locator(".arl-matrix").is_visible() and page.locator(".arl-lineage").is_visible()
    assert "58" in page.locator(".arl-matrix").text_content()
    page.screenshot(path=screenshots / "atlas_page_without_script.png")


def opened(nb, cell: int) -> float:
    """Seconds from running a cell until its explorer can be used: the least of five tries."""
    least = float("inf")
    for _ in range(5):
        nb.page.evaluate("document.querySelector('.arl-atlas')?.remove()")
        start = time.perf_counter()
        nb.run_cell(cell)
        nb.page.locator(READY).wait_for(timeout=30_000)
        least = min(least, time.perf_counter() - start)
        nb.wait_until_done(20)
        if least < 2:
            break
    return least


def test_in_jupyterlab(open_notebook, tax, screenshots, lab_server):
    cells = [
        IMPORT,
        SHOW,
        "print(len(atlas.selection), atlas.filters)",
        "atlas.filters = {'kl': ['none'], 'critic': ['no']}\natlas.query = 'group'\natlas.entry = 'Dr.GRPO'",
    ]
    for dark in (False, True):
        nb = open_notebook(f"atlas_{dark}.ipynb", cells, dark=dark)
        nb.run_cell(0)
        nb.wait_until_done(60)
        seconds = opened(nb, 1)
        assert seconds < 2, seconds
        walk(nb.page, tax, len(tax.entries))
        look_up(nb.page, tax)
        before = nb.page.locator(".jp-Notebook .jp-Cell").count()
        nb.page.locator("[data-cell='tool_use|code']").focus()
        for key in ("a", "ArrowDown", "b", "ArrowUp", "Enter"):  # the notebook's own keys must not be heard
            nb.page.keyboard.press(key)
        assert nb.page.locator(".jp-Notebook .jp-Cell").count() == before
        assert number(nb.page) == len(tax.find(capability="tool_use", task="code"))
        nb.run_cell(2)
        crossing = len(tax.find(capability="tool_use", task="code"))
        told = f"{crossing} {{'capability': ['tool_use'], 'task': ['code']}}"
        nb.until(lambda nb=nb: nb.cell_text(2).strip(), lambda text, told=told: text == told)
        nb.run_cell(3)
        nb.until(
            lambda nb=nb: nb.page.locator(".arl-card h3").all_inner_texts(), lambda told: told == ["Dr.GRPO"]
        )
        expected = survey_taxonomy.Explorer(tax, filters={"kl": ["none"], "critic": ["no"]}, query="group")
        nb.until(lambda nb=nb: number(nb.page), lambda told: told == len(expected.selection))
        nb.shot(screenshots / f"atlas_lab_{'dark' if dark else 'light'}.png", ".arl-atlas")
        assert nb.outside == []
    nb.save()
    saved = nbformat.read(lab_server[1] / "atlas_True.ipynb", as_version=4)
    assert not saved.metadata.get("widgets")
    assert "image/svg+xml" in saved.cells[1].outputs[0].data
    assert len(nbformat.writes(saved)) < 200_000
