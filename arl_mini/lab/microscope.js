// Episodes token by token: the kernel computes the columns, this colours by them. No dependency.

const ALPHA = [0.14, 0.26, 0.38, 0.5, 0.62];
const INK = { p: [58, 149, 204], n: [213, 94, 0], a: [196, 105, 155] };
const PIXEL = {}; // style class → a pixel, a little stronger: there is no text on it
for (const [key, colour] of Object.entries(INK))
  ALPHA.forEach((a, k) => {
    [PIXEL[key + (k + 1)]] = new Uint32Array(Uint8Array.of(...colour, 255 * (a + 0.3)).buffer);
  });
const CALM = "data-lm-suppress-shortcuts"; // JupyterLab takes no key from an element that has it

const make = (tag, name = "", text = "") => {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (text) node.textContent = text;
  return node;
};
const floats = ({ buffer, byteOffset, byteLength }) =>
  new Float32Array(buffer.slice(byteOffset, byteOffset + byteLength));
const clamp = (x, top) => Math.max(0, Math.min(x, top));

// The same steps as `lab.colouring`.
const strength = (kind, x) => {
  if (kind === "around one") x = x > 0 ? Math.log(x) : NaN;
  return Number.isFinite(x) ? x : 0;
};
const tint = (kind, x, top) => {
  const size = strength(kind, x);
  if (kind === "flag" || !top || Math.abs(size) < 1e-6 * top) return "";
  const step = Math.min(5, Math.max(1, Math.ceil((5 * Math.abs(size)) / top - 1e-9)));
  return (kind === "amount" ? "a" : size > 0 ? "p" : "n") + step;
};
const written = (x, signed = true) => {
  if (!Number.isFinite(x)) return "–";
  const size = Math.abs(Number(x.toPrecision(3)));
  const small = () => size.toExponential().replace("-", "−");
  const text = Math.abs(x) >= 999.5 ? Math.abs(x).toFixed(0) : size && size < 1e-4 ? small() : String(size);
  return (x < 0 ? "−" : signed && x > 0 ? "+" : "") + text;
};

class Scope {
  constructor(model, el) {
    this.model = model;
    this.root = make("div", "arl-scope-app");
    el.append(this.root);
    this.views = new Map();
    this.page = model.get("page");
    ({ colour: this.colour, algorithm: this.algorithm } = this.page);
    this.panes = [{ row: 0, policy: this.page.policy }];
    this.active = 0;
    this.keep(model.get("view"));
    this.onMessage = (message, buffers) => this.hear(message, buffers);
    this.onChange = () => this.renew();
    model.on("msg:custom", this.onMessage);
    model.on("change:view", this.onChange);
    this.frame();
    this.openPanes();
  }

  close() {
    this.model.off("msg:custom", this.onMessage);
    this.model.off("change:view", this.onChange);
  }

  // --- columns: one view for each policy and algorithm ---

  keep(view) {
    const size = this.page.rows.length * this.page.width;
    const cut = (data, names) => {
      const all = floats(data);
      return Object.fromEntries(names.map((name, k) => [name, all.subarray(k * size, (k + 1) * size)]));
    };
    const was = view.was.byteLength ? cut(view.was, view.names.filter((name) => name !== "moved")) : null;
    const kept = { columns: cut(view.data, view.names), was, tops: view.tops };
    this.views.set(view.policy + "\n" + view.algorithm, kept);
  }

  view(pane) {
    return this.views.get(pane.policy + "\n" + this.algorithm);
  }

  ask() {
    for (const { policy } of this.panes)
      if (!this.view({ policy })) this.model.send({ ask: "view", policy, algorithm: this.algorithm });
    this.trouble.textContent = this.panes.every((pane) => this.view(pane)) ? "" : "asking the kernel …";
  }

  hear(message, buffers) {
    if (message.trouble) this.trouble.textContent = message.trouble;
    if (!message.view || message.view.edits !== this.page.edits) return;
    this.keep({ ...message.view, data: buffers[0], was: buffers[1] });
    this.ask();
    this.paint();
  }

  renew() {
    this.page = this.model.get("page");
    this.views.clear();
    this.keep(this.model.get("view"));
    this.ask();
    this.list.replaceChildren(...this.page.rows.map((row, k) => this.rowOf(row, k)));
    this.openPanes();
  }

  colouring(name) {
    return this.page.colourings.find((c) => c.name === name);
  }

  // --- the frame: what stays ---

  frame() {
    const pick = (name) => (value) => { this[name] = value; this.ask(); this.paint(); };
    this.colours = this.chips("colour by", "arl-colours", pick("colour"));
    this.estimators = this.chips("estimator", "arl-estimators", pick("algorithm"));
    this.policies = this.chips("policy", "arl-policies", (name) => {
      this.panes[this.active].policy = name;
      this.ask();
      this.openPanes();
    });
    this.legend = make("div", "arl-legend");
    this.list = make("div", "arl-rows");
    this.listKeys();
    this.list.append(...this.page.rows.map((row, k) => this.rowOf(row, k)));
    this.compare = make("button", "arl-compare", "Compare two");
    this.compare.setAttribute(CALM, "true");
    this.compare.onclick = () => this.split();
    this.grid = make("div", "arl-panes");
    this.trouble = make("div", "arl-trouble");
    this.trouble.setAttribute("role", "status");
    const tools = make("div", "arl-chips");
    tools.append(make("small", "", "episodes"), this.compare);
    this.root.append(this.colours, this.estimators, this.policies, this.legend, tools, this.list, this.grid,
      this.editor(), this.trouble);
  }

  chips(title, name, act) {
    const bar = make("div", "arl-chips " + name);
    bar.setAttribute("role", "radiogroup");
    bar.setAttribute("aria-label", title);
    bar.onclick = ({ target }) => target.dataset.value !== undefined && act(target.dataset.value);
    bar.onkeydown = (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const all = [...bar.querySelectorAll("button:not(:disabled)")];
      const next = all[(all.indexOf(event.target) + step + all.length) % all.length];
      next.focus();
      act(next.dataset.value);
    };
    bar.append(make("small", "", title));
    return bar;
  }

  fill(bar, options, value) {
    bar.hidden = options.length < 1;
    const old = new Map([...bar.querySelectorAll("button")].map((b) => [b.dataset.value, b]));
    for (const { name, label, about } of options) {
      const chip = old.get(name) ?? make("button", "", label);
      old.delete(name);
      chip.dataset.value = name;
      chip.setAttribute(CALM, "true");
      chip.setAttribute("role", "radio");
      chip.setAttribute("aria-checked", String(name === value));
      chip.tabIndex = name === value ? 0 : -1;
      chip.title = about ?? "";
      if (chip.parentNode !== bar) bar.append(chip);
    }
    for (const gone of old.values()) gone.remove();
  }

  // --- the rows: all episodes at a glance ---

  rowOf(row, k) {
    const line = make("div", "arl-row" + (row.first ? " arl-first" : ""));
    const strip = make("canvas");
    strip.width = this.page.width;
    strip.height = 1;
    line.id = `${this.name()}-row-${k}`;
    line.setAttribute("role", "option");
    line.append(make("span", "", row.label), strip);
    line.onclick = () => this.open(k);
    return line;
  }

  name() {
    return (this.id ??= "arl-" + Math.random().toString(36).slice(2));
  }

  listKeys() {
    this.list.tabIndex = 0;
    this.list.setAttribute(CALM, "true");
    this.list.setAttribute("role", "listbox");
    this.list.setAttribute("aria-label", "episodes");
    this.list.onkeydown = (event) => {
      const last = this.page.rows.length - 1, now = this.panes[this.active].row;
      const to = { ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: last }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      this.open(clamp(to, last));
    };
  }

  open(row) {
    Object.assign(this.panes[this.active], { row, at: undefined });
    this.openPanes();
    const line = this.list.children[row];
    const above = line.offsetTop - this.list.offsetTop; // scrolls the list alone, never the page
    if (above < this.list.scrollTop || above + 20 > this.list.scrollTop + this.list.clientHeight)
      this.list.scrollTop = above - this.list.clientHeight / 2;
  }

  // Beside the open episode: under the next policy, or else the next try.
  split() {
    if (this.panes.length === 2) {
      this.panes = [this.panes[0]];
      this.active = 0;
    } else {
      const { row, policy } = this.panes[0], { policies, rows } = this.page;
      const other = policies[(policies.indexOf(policy) + 1) % policies.length];
      const same = rows.map((_, k) => k).filter((k) => k !== row && rows[k].group === rows[row].group);
      const next = same.find((k) => k > row) ?? same[0] ?? clamp(row + 1, rows.length - 1);
      this.panes.push(policies.length > 1 ? { row, policy: other } : { row: next, policy });
      this.active = 1;
    }
    this.ask();
    this.openPanes();
  }

  // --- the panes: one episode as text ---

  openPanes() {
    this.grid.classList.toggle("arl-two", this.panes.length === 2);
    this.grid.replaceChildren(...this.panes.map((pane, k) => this.paneOf(pane, k)));
    this.paint();
  }

  paneOf(pane, k) {
    const row = this.page.rows[pane.row], node = make("div", "arl-pane");
    const many = this.page.policies.length > 1 ? ` · under “${pane.policy}”` : "";
    pane.text = make("div", "arl-text");
    pane.text.tabIndex = 0;
    pane.text.setAttribute(CALM, "true");
    pane.text.setAttribute("role", "listbox");
    pane.text.setAttribute("aria-label", `tokens of ${row.label}`);
    pane.tokens = [];
    pane.turns = [];
    row.pieces.forEach((piece, t) => {
      if (!t || row.turn[t] !== row.turn[t - 1]) pane.turns.push(this.turnOf(pane, row.turn[t], t));
      pane.tokens.push(this.tokenOf(row, piece, t, pane.turns.at(-1).body, k));
    });
    pane.readout = make("div", "arl-readout");
    pane.readout.setAttribute("aria-live", "polite");
    pane.at ??= Math.max(row.mask.lastIndexOf(1), 0);
    this.paneKeys(pane, k);
    node.append(make("strong", "", row.heading + many), pane.text, pane.readout);
    node.onclick = () => this.activate(k);
    return node;
  }

  turnOf(pane, turn, start) {
    const block = make("div", "arl-turn"), head = make("small"), body = make("div", "arl-tokens");
    block.append(head, body);
    pane.text.append(block);
    return { name: turn < 0 ? "prompt" : `turn ${turn + 1}`, start, head, body };
  }

  tokenOf(row, piece, t, body, k) {
    const call = row.calls.includes(t), tag = row.mask[t] ? (call ? "b" : "span") : "u";
    const token = make(tag, call ? "arl-call" : "", piece.replaceAll("\n", "⏎\n"));
    token.dataset.t = t;
    token.id = `${this.name()}-${k}-${t}`;
    token.setAttribute("role", "option");
    const paid = make("sup");
    body.append(token, paid);
    return { token, paid, base: call ? "arl-call" : "" };
  }

  paneKeys(pane, k) {
    const place = ({ target }) => (target.dataset?.t === undefined ? undefined : Number(target.dataset.t));
    pane.text.onmouseover = (event) => this.read(pane, place(event) ?? pane.at);
    pane.text.onmouseleave = () => this.read(pane, pane.at);
    pane.text.onclick = (event) => { if (place(event) !== undefined) this.move(pane, place(event)); };
    pane.text.onfocus = () => this.activate(k);
    pane.text.onkeydown = (event) => {
      const last = pane.tokens.length - 1, now = pane.turns.findLastIndex((turn) => turn.start <= pane.at);
      const turn = (by) => pane.turns[clamp(now + by, pane.turns.length - 1)].start;
      const moves = { ArrowRight: pane.at + 1, ArrowLeft: pane.at - 1, Home: 0, End: last };
      const to = { ...moves, ArrowDown: turn(1), ArrowUp: turn(-1) }[event.key];
      if (event.key === "Enter") this.fields.reward.focus();
      if (to === undefined) return;
      event.preventDefault();
      this.move(pane, clamp(to, last));
      const box = pane.text.getBoundingClientRect(), it = pane.cursor.getBoundingClientRect();
      const outside = it.top < box.top || it.bottom > box.bottom; // scrolls the text alone, never the page
      if (outside) pane.text.scrollTop += it.top - box.top - box.height / 2;
    };
  }

  activate(k) {
    if (this.active === k) return;
    this.active = k;
    this.paint();
  }

  // The cursor goes to a token, in both panes where both show one episode.
  move(pane, at) {
    for (const one of this.panes) {
      if (one !== pane && one.row !== pane.row) continue;
      one.at = at;
      this.read(one, at);
    }
    this.fields.show();
  }

  // --- painting: everything that colour, estimator and cursor change ---

  paint() {
    const { page } = this, active = this.panes[this.active], view = this.view(active);
    const options = (names) => names.map((name) => ({ name, label: name }));
    this.fill(this.estimators, options(page.algorithms), this.algorithm);
    this.fill(this.policies, page.policies.length > 1 ? options(page.policies) : [], active.policy);
    this.compare.setAttribute("aria-pressed", String(this.panes.length === 2));
    this.compare.disabled = page.rows.length < 2 && page.policies.length < 2;
    if (!view) return;
    const known = page.colourings.filter((c) => c.name in view.columns);
    const name = this.colour in view.columns ? this.colour : "mask";
    const kind = this.colouring(name).kind;
    const top = Math.max(0, ...this.panes.map((pane) => this.view(pane)?.tops[name] ?? 0));
    this.fill(this.colours, known, name);
    this.explain(name, kind, top);
    this.strips(view.columns[name], name, kind, top);
    for (const pane of this.panes) this.paintPane(pane, name, kind, top);
    this.fields.show();
  }

  explain(name, kind, top) {
    const { label, about } = this.colouring(name), parts = [make("small", "", `${label}: ${about} `)];
    const swatch = (look, text) => parts.push(make("i", look, text));
    const size = (k) => {
      const x = (top * k) / 5;
      return kind === "around one" ? written(Math.exp(x), false) : written(x, kind === "signed");
    };
    if (name === "clipped") swatch("cut", "clipped");
    else if (kind === "flag") {
      const key = [make("u", "", "forced"), make("b", "arl-call", "tool call")];
      parts.push(make("span", "", "sampled "), key[0], make("span", "", " "), key[1]);
    } else if (!top) parts.push(make("small", "", "0 everywhere"));
    else if (kind === "amount") {
      for (const k of [1, 2, 3, 4, 5]) swatch("a" + k, (name === "logp" ? "−" : "") + size(k));
    } else for (const k of [-5, -3, -1, 1, 3, 5]) swatch((k < 0 ? "n" : "p") + Math.abs(k), size(k));
    this.legend.classList.toggle("arl-plain", name === "mask");
    this.legend.replaceChildren(...parts);
  }

  strips(column, name, kind, top) {
    const { rows, width } = this.page;
    const flag = { mask: (x) => (x ? "" : "p2"), clipped: (x) => (x ? "n5" : "") }[name];
    rows.forEach((row, i) => {
      const line = this.list.children[i], image = new ImageData(width, 1);
      const pixels = new Uint32Array(image.data.buffer);
      for (let t = 0; t < row.pieces.length; t++) {
        const x = column[i * width + t], look = flag ? flag(x) : tint(kind, x, top);
        if (look) pixels[t] = PIXEL[look];
      }
      line.lastChild.getContext("2d").putImageData(image, 0, 0);
      line.classList.toggle("arl-open", this.panes.some((pane) => pane.row === i));
      const on = this.panes[this.active].row === i;
      line.classList.toggle("arl-on", on);
      line.setAttribute("aria-selected", String(on));
      if (on) this.list.setAttribute("aria-activedescendant", line.id);
    });
  }

  paintPane(pane, name, kind, top) {
    pane.text.parentNode.classList.toggle("arl-on", this.panes[this.active] === pane);
    const view = this.view(pane);
    if (!view) return;
    const start = pane.row * this.page.width, column = view.columns[name];
    pane.text.classList.toggle("arl-plain", name === "mask");
    pane.tokens.forEach(({ token, paid, base }, t) => {
      const x = column ? column[start + t] : NaN, reward = view.columns.reward[start + t];
      const look = `${base} ${name === "clipped" && x ? "cut" : tint(kind, x, top)}`.trim();
      if (token.className !== look) token.className = look;
      const text = reward ? written(reward) : "";
      if (paid.textContent !== text) paid.textContent = text;
    });
    this.heads(pane, view, start);
    this.read(pane, pane.at);
  }

  // What each turn gets: mean advantage of its sampled tokens, and its part of the whole gradient.
  heads(pane, { columns: { advantage, share } }, start) {
    pane.turns.forEach(({ name, start: from, head }, k) => {
      const to = pane.turns[k + 1]?.start ?? pane.tokens.length;
      const inside = (column) => column.slice(start + from, start + to).filter((x) => !Number.isNaN(x));
      const mine = advantage ? inside(advantage) : [];
      const mean = mine.reduce((a, b) => a + b, 0) / mine.length;
      const part = share ? inside(share).reduce((a, b) => a + Math.abs(b), 0) : 0;
      const credit = ` · mean advantage ${written(mean)} · ${written(part, false)} % of the gradient`;
      head.textContent = name + (mine.length ? credit : "");
    });
  }

  read(pane, at) {
    const view = this.view(pane), row = this.page.rows[pane.row], place = pane.row * this.page.width + at;
    if (pane.cursor) pane.cursor.style.outline = "";
    pane.cursor = pane.tokens[at].token;
    pane.cursor.style.outline = "2px solid currentColor"; // no class: painting sets classes
    pane.text.setAttribute("aria-activedescendant", pane.cursor.id);
    if (!view) return;
    const where = row.turn[at] < 0 ? "prompt" : `turn ${row.turn[at] + 1}`;
    const who = make("span", "", `· ${row.mask[at] ? "sampled" : "forced"} · ${where}`);
    const parts = [make("strong", "", `token ${at} “${row.pieces[at]}”`), who];
    for (const { name, label, kind } of this.page.colourings) {
      const x = view.columns[name]?.[place], was = view.was?.[name]?.[place];
      if (name === "mask" || !Number.isFinite(x)) continue;
      const unit = name === "share" || name === "moved" ? " %" : "";
      const say = (y) => (name === "clipped" ? (y ? "yes" : "no") : written(y, kind === "signed") + unit);
      const more = name === "logp" ? ` (p ${written(Math.exp(x), false)})` : "";
      const before = was !== undefined && say(was) !== say(x) ? ` (was ${say(was)})` : "";
      parts.push(make("span", "arl-number-" + name, `${label} ${say(x)}${more}${before}`));
    }
    pane.readout.replaceChildren(...parts.flatMap((part) => [part, " "]));
  }

  // --- edits: another reward, another token ---

  editor() {
    const bar = make("div", "arl-edit");
    const reward = make("input", "arl-reward"), token = make("input", "arl-token");
    const undo = make("button", "arl-undo", "Undo edits"), where = make("span");
    for (const field of [reward, token, undo]) field.setAttribute(CALM, "true");
    const label = (text, field) => {
      const whole = make("label", "", text + " ");
      whole.append(field);
      return whole;
    };
    const rewardLabel = label("reward at this token", reward), tokenLabel = label("this token", token);
    const send = (change) => {
      const { row, at, policy } = this.panes[this.active];
      this.trouble.textContent = "asking the kernel …";
      this.model.send({ ask: "edit", row, at, policy, algorithm: this.algorithm, ...change });
    };
    reward.inputMode = "decimal";
    reward.onchange = () => {
      const x = Number(reward.value.replace("−", "-").replace(",", "."));
      if (Number.isFinite(x)) send({ reward: x });
      else this.trouble.textContent = `“${reward.value}” is no number`;
    };
    token.onchange = () => send({ text: token.value.replaceAll("⏎", "\n").replaceAll("␣", " ") });
    undo.onclick = () => send({ ask: "undo" });
    const show = () => {
      const { row, at } = this.panes[this.active], { rewards, pieces, mask } = this.page.rows[row];
      const { edits, editable, policies } = this.page;
      if (document.activeElement !== reward) reward.value = written(rewards[at], false);
      const piece = pieces[at].replaceAll("\n", "⏎").replaceAll(" ", "␣");
      if (document.activeElement !== token) token.value = piece;
      rewardLabel.hidden = !editable;
      reward.disabled = !mask[at];
      tokenLabel.hidden = !(editable && policies.length);
      undo.hidden = !edits;
      where.textContent = edits ? `${edits} edit${edits > 1 ? "s" : ""}` : "";
    };
    this.fields = { reward, show };
    bar.append(rewardLabel, tokenLabel, undo, where);
    return bar;
  }
}

export default {
  render({ model, el }) {
    const scope = new Scope(model, el);
    return () => scope.close();
  },
};
