// The card of one entry: what it is, what was stated and checked, how it is built here.

function drawCard(app) {
  const { state, card } = app;
  const entry = state.byId.get(state.open);
  card.replaceChildren();
  card.hidden = !entry;
  if (!entry) return;
  const t = (name) => say(state, name);
  const close = button("×", () => app.openEntry(""), { "aria-label": t("close"), class: "arl-close" });
  card.append(make("div", {}, make("h3", { text: entry.name, tabindex: -1 }), close),
    make("p", { text: entry.note }),
    make("p", {}, link(entry.title, entry.url), `. ${entry.authors}, ${entry.year}. `,
      make("em", { text: `${valueName(state, "kind", entry.kind)}; ${valueName(state, "coverage", entry.coverage)}` })),
    make("p", {}, `${t("in_survey")}: `, ...entry.in.flatMap((id, i) => [i ? " · " : "",
      button(`§${id.split("/")[0]} ${sectionTitle(state, id)}`, () => app.toggle("section", id))])));
  part(card, t("realised"), (entry.realised ?? []).map((row) => make("li", {
    text: [valueName(state, "coverage", row[0]), ...row.slice(1)].filter(Boolean).join(" · ") })), "ul");
  for (const source of entry.sources ?? []) card.append(sourceOf(app, source));
  part(card, t("stated"), (entry.claims ?? []).map((claim) => claimRow(state, claim)), "table");
  part(card, t("relations"), (entry.relations ?? []).map((row) => relation(app, row)), "ul");
  part(card, t("corrections"), (entry.corrections ?? []).map(([id, field, stated, corrected, sure]) => make("li", {
    text: `${id} ${field}: ${stated} → ${corrected} (${sure})` })), "ul");
  part(card, t("links"), (entry.links ?? []).filter((row) => row[1]).map(([rel, url, status]) =>
    make("li", {}, link(`${rel}: ${url}`, url), status === "unchecked" ? "" : ` (${status})`)), "ul");
  card.append(bibtex(app, entry));
}

function part(card, title, items, kind) {
  if (items.length) card.append(make("h4", { text: title }), make(kind, {}, ...items));
}

function claimRow(state, [attribute, value, status, stated, note]) {
  return make("tr", { "data-status": status }, make("th", { scope: "row", text: facetName(state, attribute) }),
    make("td", { text: value }), make("td", { text: valueName(state, "status", status) }),
    make("td", { text: [stated, note].filter(Boolean).join(" — ") }));
}

function relation(app, [rel, other, knob, forward]) {
  const name = rel.replaceAll("_", " ");
  return make("li", {}, forward ? `${name} ` : "", button(app.state.byId.get(other).name, () => app.openEntry(other)),
    forward ? "" : ` ${name}`, knob ? `: ${knob}` : "");
}

function sourceOf(app, source) {
  const t = (name) => say(app.state, name);
  const box = make("details", { class: "arl-source" },
    make("summary", { text: `${t("source")}: ${source.symbol}` }),
    make("p", {}, make("code", { text: `${source.file}:${source.line}` })), make("pre", { text: source.text, tabindex: 0 }));
  if (source.loss) box.append(make("p", { text: `${t("loss_of")} ${source.loss[0]}:` }),
    make("pre", { text: source.loss[1], tabindex: 0 }));
  box.open = app.openSource;
  return box;
}

function bibtex(app, entry) {
  const text = make("pre", { text: entry.bibtex, tabindex: 0 });
  const name = say(app.state, "copy");
  const copy = button(name, () => copyText(entry.bibtex, text, copy, { name, done: say(app.state, "copied") }));
  return make("details", { class: "arl-bibtex" }, make("summary", { text: "BibTeX" }), copy, text);
}
