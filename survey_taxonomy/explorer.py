"""The explorer: one page of linked views over the taxonomy, in a notebook or as a file for any browser.

    from survey_taxonomy.explorer import Explorer
    atlas = Explorer()
    atlas                                  # in a cell: pick, filter, open cards
    atlas.selection                        # what is shown, as a table
    atlas.filters = {"capability": ["memory"], "rl_used": ["yes"]}
    atlas.save("atlas.html")               # the same page for a browser, data inside

No drawing library: the views are tables, rectangles and lines, drawn once in Python (``pictures``,
``shell``) so that they read without JavaScript, and brought to life by one small module (``atlas/``). A
library would be larger than all of it, and would draw nothing where no script runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from . import pictures
from .exports import whole
from .facts import facts
from .labels import LANGUAGES, facet, text, word
from .shell import shell
from .taxonomy import Taxonomy, load

HERE = Path(__file__).parent / "atlas"
PARTS = ("state", "dom", "card", "views", "main")
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
Filters = Mapping[str, Sequence[str]]

#: what the page shares with Python, on a page without Python: an anywidget model in ten lines
STAND_IN = """
const read = (name) => document.getElementById(name).textContent;
const lang = document.documentElement.lang;
const values = { facts: read("atlas-facts"), filters: {}, query: "", entry: "", lang };
const place = document.getElementById("atlas");
values.markup = place.innerHTML;
const model = { get: (name) => values[name], set: (name, value) => { values[name] = value; },
  save_changes() {}, on() {}, off() {} };
render({ model, el: place });
"""
POLICY = (
    """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; """
    """script-src 'unsafe-inline'; style-src 'unsafe-inline'">"""
)
PAGE_STYLE = ":root { color-scheme: light dark; } body { margin: 12px; }\n"


def module() -> str:
    """The JavaScript of the explorer: one module, without imports, that exports ``{ render }`` as anywidget
    expects.
    """
    return "\n".join((HERE / f"{name}.js").read_text(encoding="utf-8") for name in PARTS)


def style() -> str:
    """The style sheet of the explorer."""
    return (HERE / "atlas.css").read_text(encoding="utf-8")


class Explorer:
    """Linked views of the taxonomy with one shared selection.

    taxonomy: by default the shipped data. lang: 'en' or 'ja'. ``filters`` maps a facet to the values wanted
    (values of one facet are alternatives); facets are those of ``labels.FACETS``. ``query`` is text to find,
    ``entry`` the id of the open card. All can be read and set, before and after it is shown.
    """

    def __init__(
        self,
        taxonomy: Taxonomy | None = None,
        lang: str = "en",
        filters: Filters | None = None,
        query: str = "",
        entry: str = "",
    ):
        if lang not in LANGUAGES:
            raise ValueError(f"got lang {lang!r}, expected one of {', '.join(LANGUAGES)}")
        self.taxonomy = load() if taxonomy is None else taxonomy
        self._facts = facts(self.taxonomy)
        self._records = {e["id"]: e for e in self._facts["entries"]}
        self._texts = {e["id"]: self._text(e) for e in self._facts["entries"]}
        self._widget = None
        self._state = {"filters": {}, "query": query, "entry": "", "lang": lang}
        self.filters, self.entry = filters or {}, entry

    @property
    def filters(self) -> dict[str, list[str]]:
        """Facet → values wanted."""
        return dict(self._get("filters"))

    @filters.setter
    def filters(self, filters: Filters) -> None:
        known: dict[str, set[str]] = {}
        for record in self._records.values():
            for name, values in record["facets"].items():
                known.setdefault(name, set()).update(values)
        for name, values in filters.items():
            if name not in known:
                raise ValueError(f"got facet {name!r}, expected one of {', '.join(sorted(known))}")
            if wrong := [
                v for v in ([values] if isinstance(values, str) else values) if v not in known[name]
            ]:
                raise ValueError(
                    f"facet {name!r} has no value {wrong[0]!r}; values are {', '.join(sorted(known[name]))}"
                )
        self._set("filters", {k: [v] if isinstance(v, str) else list(v) for k, v in filters.items() if v})

    @property
    def query(self) -> str:
        """Words that must all occur in an entry's names, note, title, authors, sections or values."""
        return self._get("query")

    @query.setter
    def query(self, query: str) -> None:
        self._set("query", query)

    @property
    def entry(self) -> str:
        """Id of the entry whose card is open, or ''."""
        return self._get("entry")

    @entry.setter
    def entry(self, entry: str) -> None:
        self._set("entry", self.taxonomy.entry_id(entry) if entry else "")

    @property
    def lang(self) -> str:
        """'en' or 'ja', as chosen on the page."""
        return self._get("lang")

    @property
    def selection(self) -> pd.DataFrame:
        """The rows of ``taxonomy.entries`` that the filters and words leave."""
        words = self.query.lower().split()
        wanted = self.filters.items()
        ids = [
            e["id"]
            for e in self._records.values()
            if all(set(values) & set(e["facets"].get(name, ())) for name, values in wanted)
            and all(w in self._texts[e["id"]] for w in words)
        ]
        entries = self.taxonomy.entries
        return entries[entries["entry_id"].isin(ids)].reset_index(drop=True)

    def bibtex(self) -> str:
        """BibTeX records of the selection."""
        return self.taxonomy.bibtex(self.selection["entry_id"])

    def __repr__(self) -> str:
        said = [f"{facet(k)}: {', '.join(map(word, v))}" for k, v in self.filters.items()]
        return f"Explorer: {len(self.selection)} of {len(self._records)} entries" + (
            f" ({'; '.join(said)})" if said else ""
        )

    def _text(self, entry: dict) -> str:
        sections = self._facts["sections"]
        titles = [part for s in entry["in"] for part in (s, *sections[s][:2])]
        claims = [claim[1] for claim in entry.get("claims", ())]
        return " ".join(
            [
                entry["id"],
                entry["name"],
                *entry["aliases"],
                entry["note"],
                entry["title"],
                entry["authors"],
                entry["venue"],
                *titles,
                *claims,
            ]
        ).lower()

    def _get(self, name: str):
        return self._state[name] if self._widget is None else getattr(self._widget, name)

    def _set(self, name: str, value: object) -> None:
        if self._widget is None:
            self._state[name] = value
        else:
            setattr(self._widget, name, value)

    @property
    def widget(self):
        """The anywidget behind the page (made on first use; needs ``anywidget``)."""
        if self._widget is None:
            self._widget = _widget_class()(
                markup=shell(self.taxonomy, self._records, self.lang),
                facts=json.dumps(self._facts, ensure_ascii=False),
                **self._state,
            )
        return self._widget

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        still = pictures.overview(self.taxonomy, self.lang)
        shown = {"image/svg+xml": still.svg, "text/plain": f"{self!r}\n{still.about}"}
        if _is_live():
            shown[WIDGET_VIEW] = {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id}
        return shown

    def html(self) -> str:
        """One self-contained page: style, drawn views, data and module inside; it asks for nothing from
        outside.
        """
        data = json.dumps(self._facts, ensure_ascii=False).replace(
            "<", "\\u003c"
        )  # so that no text can end the script
        title = text("title", self.lang)
        return (
            f'<!DOCTYPE html>\n<html lang="{self.lang}"><head><meta charset="utf-8"><title>{title}</title>'
            f'<meta name="viewport" content="width=device-width">{POLICY}<style>{PAGE_STYLE}{style()}</style>'
            "</head><body>"
            f'<div id="atlas">{shell(self.taxonomy, self._records, self.lang)}</div>'
            f'<script type="application/json" id="atlas-facts">{data}</script>'
            f'<script type="module">\n{module()}\n{STAND_IN}</script></body></html>\n'
        )

    def save(self, path: Path | str) -> Path:
        """Write ``html()`` to a file, whole or not at all."""
        return whole(Path(path), lambda part: part.write_text(self.html(), encoding="utf-8"))


def _is_live() -> bool:
    """Whether a widget can live: in a Jupyter kernel, unless a notebook is being built (``ARL_STATIC=1``)."""
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    return os.environ.get("ARL_STATIC") != "1" and getattr(get_ipython(), "kernel", None) is not None


def _widget_class() -> type:
    """The widget; a class made on demand, so that everything else works without Jupyter."""
    import anywidget
    import traitlets

    class Atlas(anywidget.AnyWidget):
        _esm, _css = module(), style()
        markup = traitlets.Unicode().tag(sync=True)
        facts = traitlets.Unicode().tag(sync=True)
        filters = traitlets.Dict().tag(sync=True)
        query = traitlets.Unicode().tag(sync=True)
        entry = traitlets.Unicode().tag(sync=True)
        lang = traitlets.Unicode("en").tag(sync=True)

    return Atlas
