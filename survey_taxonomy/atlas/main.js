// Putting it together: head, facets, tabs, and the model that Python shares (or a stand-in, on a page without Python).

const COLUMNS = ["id", "name", "kind", "year", "note", "title", "authors", "venue", "url", "coverage"];

function exported(state, kind) {
  const rows = shown(state);
  if (kind === "bib") return [...new Set(rows.map((entry) => entry.bibtex))].join("\n\n") + "\n";
  if (kind === "json") return JSON.stringify(rows.map(({ text, ...entry }) => entry), null, 1);
  const quoted = (value) => `"${String(value).replaceAll('"', '""')}"`;
  const lines = rows.map((entry) => [...COLUMNS.map((name) => entry[name]), entry.in.join("; "),
    (entry.facets.capability ?? []).join("; "), (entry.facets.task ?? []).join("; ")].map(quoted).join(","));
  return [[...COLUMNS, "sections", "capabilities", "tasks"].join(","), ...lines].join("\r\n") + "\r\n";
}

function buildHead(app) {
  const { state, root } = app;
  const head = root.querySelector("header");
  head.querySelector(".arl-still").remove();
  app.search = make("input", { type: "search", oninput: () => app.setQuery(app.search.value) });
  app.number = make("output", { class: "arl-number" });
  app.language = button("", () => app.setLang(state.lang === "en" ? "ja" : "en"), { class: "arl-language" });
  app.saved = make("span");
  const save = [["csv", "text/csv"], ["json", "application/json"], ["bib", "application/x-bibtex"]].map(([kind, type]) =>
    button(kind.toUpperCase(), () => download(`selection.${kind}`, type, exported(state, kind)), { class: `arl-save-${kind}` }));
  app.chips = make("p", { class: "arl-chips", "aria-live": "polite" });
  app.nothing = make("p", { role: "status" });
  head.append(app.search, app.number, make("span", { class: "arl-save" }, app.saved, ...save), app.language, app.chips,
    app.nothing);
  app.facets = make("nav", { class: "arl-facets" });
  root.querySelector(".arl-main").before(app.facets);
}

function buildTabs(app) {
  const { root } = app;
  const box = root.querySelector(".arl-tabs");
  const panels = [...box.querySelectorAll("[data-tab]")];
  const list = make("div", { role: "tablist" });
  const tag = `arl-${Math.random().toString(36).slice(2)}`; // several explorers may stand on one page
  panels.forEach((panel, i) => {
    const title = panel.querySelector("h3");
    const tab = make("button", { type: "button", role: "tab", id: `${tag}-${i}`, "data-show": panel.dataset.tab,
      "data-en": title.dataset.en, "data-ja": title.dataset.ja, text: title.textContent, onclick: () => app.showTab(i) });
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", tab.id);
    list.append(tab);
  });
  app.card = make("aside", { class: "arl-card", hidden: true });
  app.card.addEventListener("keydown", (event) => { if (event.key === "Escape") app.openEntry(""); });
  box.prepend(list);
  box.append(app.card);
  roving(list, "[role=tab]");
  app.showTab = (at) => panels.forEach((panel, i) => {
    panel.hidden = i !== at;
    list.children[i].setAttribute("aria-selected", i === at);
    list.children[i].setAttribute("tabindex", i === at ? 0 : -1);
  });
  app.showTab(0);
}

function attach(app, model) {
  const { state } = app;
  const share = (name, value) => {
    if (JSON.stringify(model.get(name)) === JSON.stringify(value)) return;
    model.set(name, value);
    model.save_changes();
  };
  app.setFilters = (filters) => { state.filters = filters; refresh(app); share("filters", filters); };
  app.toggle = (facet, value) => app.setFilters(toggled(state.filters, facet, value));
  app.setQuery = (query) => {
    state.query = query;
    if (app.search.value !== query) app.search.value = query;
    refresh(app);
    share("query", query);
  };
  app.openEntry = (id, from = null, withSource = false) => {
    if (id && from) app.opener = from;
    app.openSource = withSource;
    state.open = id;
    drawCard(app);
    if (id) app.card.querySelector("h3").focus({ preventScroll: true });
    else app.opener?.focus();
    share("entry", id);
  };
  app.setLang = (lang) => {
    state.lang = lang;
    speak(app.root, lang);
    app.search.placeholder = say(state, "search");
    app.search.setAttribute("aria-label", say(state, "search"));
    app.language.textContent = say(state, "language");
    app.language.lang = lang === "en" ? "ja" : "en";
    app.facets.setAttribute("aria-label", say(state, "facets"));
    app.card.setAttribute("aria-label", say(state, "card"));
    app.saved.textContent = `${say(state, "export")}: `;
    drawCard(app);
    refresh(app);
    share("lang", lang);
  };
  const listen = { filters: "setFilters", query: "setQuery", lang: "setLang", entry: "openEntry" };
  const now = { filters: () => state.filters, query: () => state.query, lang: () => state.lang, entry: () => state.open };
  const handlers = Object.entries(listen).map(([name, act]) => [`change:${name}`, () => {
    const value = model.get(name);
    if (JSON.stringify(value) !== JSON.stringify(now[name]())) app[act](value);
  }]);
  for (const [event, handler] of handlers) model.on(event, handler);
  return () => handlers.forEach(([event, handler]) => model.off(event, handler));
}

function render({ model, el }) {
  el.innerHTML = model.get("markup"); // made by this project's shell.py, which escapes what comes from sources
  const root = el.querySelector(".arl-atlas");
  const app = { root, state: makeState(JSON.parse(model.get("facts"))) };
  root.classList.add("arl-live");
  // JupyterLab asks the focused element itself whether keys are its own.
  root.addEventListener("focusin", (event) => event.target.setAttribute("data-lm-suppress-shortcuts", "true"));
  const detach = attach(app, model);
  buildHead(app);
  buildTabs(app);
  buildFacets(app);
  hydrate(app);
  buildChooser(app);
  app.state.filters = model.get("filters");
  app.state.query = app.search.value = model.get("query");
  app.setLang(model.get("lang"));
  if (model.get("entry")) app.openEntry(model.get("entry"));
  root.dataset.ready = "true";
  return detach;
}

export default { render };
