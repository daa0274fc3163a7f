// Bringing the drawn page to life: what can be pressed, and what is shown after each change.

function hydrate(app) {
  const { root } = app;
  for (const cell of root.querySelectorAll("[data-cell]")) {
    const [capability, task] = cell.dataset.cell.split("|");
    pressable(cell, () => app.setFilters(cellToggled(app.state.filters, capability, task)));
  }
  for (const item of root.querySelectorAll("[data-facet]")) {
    pressable(item, () => app.toggle(item.dataset.facet, item.dataset.value));
  }
  for (const item of root.querySelectorAll("[data-open]")) {
    pressable(item, () => app.openEntry(item.dataset.open, item, item.closest(".arl-lineage") !== null));
  }
  for (const count of root.querySelectorAll("[data-count]")) count.dataset.still = count.textContent;
  app.rests = [
    roving(root.querySelector(".arl-matrix"), "[data-cell], [data-facet]", 9),
    ...[".arl-timeline", ".arl-icicle", ".arl-lineage"].map((name) =>
      roving(root.querySelector(name), "[data-facet], [data-open]")),
    ...[...root.querySelectorAll("[data-tab] table")].map((table) => roving(table, "[data-open]")),
  ];
  app.rows = [...root.querySelectorAll("tr[data-entry]")];
}

function refresh(app) {
  const { state, root } = app;
  evaluate(state);
  const visible = new Set(shown(state).map((entry) => entry.id));
  const counts = countAll(state);
  const narrowed = Object.keys(state.filters).length > 0 || state.query !== "";
  for (const row of app.rows) row.hidden = !visible.has(row.dataset.entry);
  refreshPressed(app, counts, narrowed);
  refreshMatrix(app, narrowed);
  for (const node of root.querySelectorAll(".arl-lineage [data-open]")) {
    node.classList.toggle("arl-off", !visible.has(node.dataset.open));
    node.setAttribute("aria-label", state.byId.get(node.dataset.open).name);
  }
  refreshFacets(app, counts);
  refreshChooser(app, counts);
  app.number.textContent = `${visible.size} ${say(state, "of")} ${state.entries.length}`;
  app.nothing.hidden = visible.size > 0;
  app.nothing.textContent = say(state, "nothing");
  drawChips(app);
  for (const rest of app.rests) rest();
}

function refreshPressed(app, counts, narrowed) {
  const { state, root } = app;
  for (const item of root.querySelectorAll("[data-facet]")) {
    const { facet, value } = item.dataset;
    const n = counts[facet]?.get(value) ?? 0;
    const on = state.filters[facet]?.includes(value) ?? false;
    item.setAttribute("aria-pressed", on);
    item.classList.toggle("arl-off", n === 0);
    if (item.closest("svg")) item.setAttribute("aria-label", `${facetName(state, facet)}: ${valueName(state, facet, value)}, ${n}`);
    const number = item.querySelector("[data-count]");
    if (number) number.textContent = narrowed ? n : number.dataset.still;
    const bar = item.querySelector("[data-bar]");
    if (bar) {
      const foot = (bar.dataset.foot ??= Number(bar.getAttribute("y")) + Number(bar.getAttribute("height")));
      bar.setAttribute("height", n * bar.dataset.bar);
      bar.setAttribute("y", foot - n * bar.dataset.bar);
    }
  }
}

function refreshMatrix(app, narrowed) {
  const { state, root } = app;
  const counts = new Map();
  for (const entry of without(state, "capability", "task")) {
    for (const capability of entry.facets.capability ?? []) {
      for (const task of entry.facets.task ?? []) {
        const key = `${capability}|${task}`;
        counts.set(key, (counts.get(key) ?? 0) + 1);
      }
    }
  }
  const most = Math.max(1, ...counts.values());
  for (const cell of root.querySelectorAll("[data-cell]")) {
    const [capability, task] = cell.dataset.cell.split("|");
    const n = counts.get(cell.dataset.cell) ?? 0;
    cell.setAttribute("aria-pressed", isCell(state.filters, capability, task));
    cell.setAttribute("aria-label", `${valueName(state, "capability", capability)} × ${valueName(state, "task", task)}, ${n}`);
    cell.querySelector("[data-count]").textContent = n || (narrowed ? "0" : "–");
    cell.querySelector("rect").setAttribute("fill-opacity", (0.35 * Math.sqrt(n / most)).toFixed(2));
  }
}

function buildFacets(app) {
  for (const facet of app.state.facets) {
    const values = new Map();
    for (const entry of app.state.entries) {
      for (const value of entry.facets[facet] ?? []) values.set(value, (values.get(value) ?? 0) + 1);
    }
    const box = make("details", { "data-panel": facet }, make("summary"));
    for (const value of [...values.keys()].sort((a, b) => values.get(b) - values.get(a))) {
      const tick = make("input", { type: "checkbox", value, onchange: () => app.toggle(facet, value) });
      box.append(make("label", {}, tick, make("span"), make("small")));
    }
    box.open = ["kind", "coverage"].includes(facet);
    app.facets.append(box);
  }
}

function refreshFacets(app, counts) {
  const { state } = app;
  for (const box of app.facets.querySelectorAll("details")) {
    const facet = box.dataset.panel;
    box.querySelector("summary").textContent = facetName(state, facet);
    for (const label of box.querySelectorAll("label")) {
      const [tick, name, number] = label.children;
      const n = counts[facet]?.get(tick.value) ?? 0;
      tick.checked = state.filters[facet]?.includes(tick.value) ?? false;
      name.textContent = valueName(state, facet, tick.value);
      number.textContent = n;
      label.hidden = n === 0 && !tick.checked;
    }
    box.hidden = !box.querySelector("label:not([hidden])");
  }
}

// The chooser asks a few questions; its answers are ordinary filters.
function buildChooser(app) {
  const panel = app.root.querySelector("[data-tab=chooser]");
  const parts = [...panel.querySelectorAll("[data-choice]")];
  const choice = make("select", { onchange: () => app.choose(choice.value) });
  app.choice = { panel, parts, choice, asks: make("span") };
  panel.querySelector("h3").after(make("p", { class: "arl-asks" }, make("label", {}, make("span"), choice), app.choice.asks));
  for (const part of parts) choice.append(make("option", { value: part.dataset.choice }));
  app.choose = (name, filter = true) => {
    const part = parts.find((one) => one.dataset.choice === name);
    choice.value = name;
    for (const one of parts) one.hidden = one !== part;
    app.choice.asks.replaceChildren(...part.dataset.asks.split(" ").map((facet) => make("label", {}, make("span"),
      make("select", { "data-ask": facet, onchange: (event) =>
        app.setFilters(chosen(app.state.filters, facet, event.target.value ? [event.target.value] : [])) }))));
    if (filter) app.setFilters({ kind: part.dataset.kinds.split(" ") });
  };
  app.choose(parts[0].dataset.choice, false);
}

function refreshChooser(app, counts) {
  const { state } = app;
  const { choice, asks } = app.choice;
  choice.previousSibling.textContent = `${say(state, "choose")} `;
  for (const option of choice.options) option.textContent = valueName(state, "kind", option.value);
  const kinds = app.choice.parts.find((part) => part.dataset.choice === choice.value).dataset.kinds.split(" ");
  for (const select of asks.querySelectorAll("select")) {
    const facet = select.dataset.ask;
    const now = state.filters[facet]?.[0] ?? "";
    select.previousSibling.textContent = ` ${facetName(state, facet)} `;
    const here = new Map();
    for (const entry of without(state, facet, "kind")) {
      if (!kinds.includes(entry.kind)) continue;
      for (const value of entry.facets[facet] ?? []) here.set(value, (here.get(value) ?? 0) + 1);
    }
    if (now && !here.has(now)) here.set(now, 0);
    select.replaceChildren(make("option", { value: "", text: say(state, "any") }), ...[...here].sort().map(([value, n]) =>
      make("option", { value, text: `${valueName(state, facet, value)} (${n})` })));
    select.value = now;
  }
}

function drawChips(app) {
  const { state } = app;
  const one = (text, act) => button(`${text} ×`, act, { class: "arl-chip" });
  const chips = Object.entries(state.filters).flatMap(([facet, values]) => values.map((value) =>
    one(`${facetName(state, facet)}: ${valueName(state, facet, value)}`, () => app.toggle(facet, value))));
  if (state.query) chips.push(one(`“${state.query}”`, () => app.setQuery("")));
  if (chips.length) chips.push(button(say(state, "clear"), () => { app.setQuery(""); app.setFilters({}); }));
  app.chips.replaceChildren(...chips);
}
