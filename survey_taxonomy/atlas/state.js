// The parts of this folder are joined, in the order of explorer.PARTS, into one module without imports.
// Here: which entries match. Values of one facet are alternatives; facets, and words, must all hold.

function makeState(facts) {
  const entries = facts.entries.map((entry) => ({ ...entry, text: searchText(entry, facts.sections) }));
  return {
    entries, sections: facts.sections, facets: facts.facets, words: facts.words,
    byId: new Map(entries.map((entry) => [entry.id, entry])),
    filters: {}, query: "", open: "", lang: "en", failed: new Map(),
  };
}

function searchText(entry, sections) {
  const titles = entry.in.flatMap((id) => [id, ...sections[id].slice(0, 2)]);
  const claims = (entry.claims ?? []).map((claim) => claim[1]);
  const parts = [entry.id, entry.name, ...entry.aliases, entry.note, entry.title, entry.authors, entry.venue,
    ...titles, ...claims];
  return parts.join(" ").toLowerCase();
}

// Map id → names of the facets the entry fails ("query" for the words); an empty list means it is shown.
function evaluate(state) {
  const wanted = Object.entries(state.filters);
  const words = state.query.toLowerCase().split(/\s+/).filter(Boolean);
  state.failed.clear();
  for (const entry of state.entries) {
    const failed = [];
    for (const [facet, values] of wanted) {
      const own = entry.facets[facet];
      if (!own || !values.some((value) => own.includes(value))) failed.push(facet);
    }
    if (!words.every((word) => entry.text.includes(word))) failed.push("query");
    state.failed.set(entry.id, failed);
  }
}

function shown(state) {
  return state.entries.filter((entry) => state.failed.get(entry.id).length === 0);
}

// Entries that match, leaving the named facets out of account: what their own options would show.
function without(state, ...facets) {
  return state.entries.filter((entry) => state.failed.get(entry.id).every((name) => facets.includes(name)));
}

// Facet → value → count, for every facet at once.
function countAll(state) {
  const counts = {};
  const add = (facet, entry) => {
    const into = (counts[facet] ??= new Map());
    for (const value of entry.facets[facet] ?? []) into.set(value, (into.get(value) ?? 0) + 1);
  };
  for (const entry of state.entries) {
    const failed = state.failed.get(entry.id);
    if (failed.length === 0) for (const facet in entry.facets) add(facet, entry);
    else if (failed.length === 1) add(failed[0], entry);
  }
  return counts;
}

function toggled(filters, facet, value) {
  const now = filters[facet] ?? [];
  const next = now.includes(value) ? now.filter((other) => other !== value) : [...now, value];
  return chosen(filters, facet, next);
}

function chosen(filters, facet, values) {
  const { [facet]: _, ...rest } = filters;
  return values.length ? { ...rest, [facet]: values } : rest;
}

// A cell of the matrix sets two facets; pressed again, it frees both.
function cellToggled(filters, capability, task) {
  const free = chosen(chosen(filters, "capability", []), "task", []);
  return isCell(filters, capability, task) ? free : { ...free, capability: [capability], task: [task] };
}

function isCell(filters, capability, task) {
  const only = (facet, value) => filters[facet]?.length === 1 && filters[facet][0] === value;
  return only("capability", capability) && only("task", task);
}

function valueName(state, facet, value) {
  if (facet === "section") return `${value.includes("/") ? "" : value + " "}${sectionTitle(state, value)}`;
  return state.words[state.lang].values[value] ?? value.replaceAll("_", " ");
}

function sectionTitle(state, id) {
  return state.sections[id]?.[state.lang === "ja" ? 1 : 0] ?? id;
}

function facetName(state, facet) {
  return state.words[state.lang].facets[facet] ?? facet.replaceAll("_", " ");
}

function say(state, name) {
  return state.words[state.lang].texts[name];
}
