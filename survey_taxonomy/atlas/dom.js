// Making elements, and moving by arrow keys.

// make("button", { type: "button", text: "Copy", onclick: f }, child, …)
function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function button(text, onclick, options = {}) {
  return make("button", { type: "button", text, onclick, ...options });
}

// A link only where the address is a web address; else the text alone.
function link(text, url) {
  return /^https?:\/\//.test(url) ? make("a", { href: url, rel: "noopener noreferrer", target: "_blank", text })
    : make("span", { text });
}

// Texts that carry both languages show the one asked for.
function speak(root, lang) {
  root.lang = lang;
  for (const element of root.querySelectorAll("[data-en]")) element.textContent = element.dataset[lang];
}

// One tab stop for a group of things to press; arrow keys go on and back, or up and down in a grid of `columns`.
function roving(group, selector, columns = 1) {
  const items = () => [...group.querySelectorAll(selector)].filter((item) => !item.closest("[hidden]"));
  const rest = () => {
    const all = items();
    if (!all.some((item) => item.tabIndex === 0)) all.forEach((item, i) => item.setAttribute("tabindex", i ? -1 : 0));
  };
  for (const item of group.querySelectorAll(selector)) item.setAttribute("tabindex", -1);
  rest();
  group.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns };
    const all = items();
    const at = all.indexOf(event.target.closest(selector));
    const to = event.key === "Home" ? 0 : event.key === "End" ? all.length - 1 : at + steps[event.key];
    if (at < 0 || !all[to]) return;
    event.preventDefault();
    all[at].setAttribute("tabindex", -1);
    all[to].setAttribute("tabindex", 0);
    all[to].focus();
  });
  return rest;
}

// Drawn things behave as buttons: mouse, Enter and space.
function pressable(element, act) {
  element.setAttribute("role", "button");
  element.addEventListener("click", (event) => { event.stopPropagation(); act(); });
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    event.stopPropagation();
    act();
  });
}

function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

async function copyText(text, from, told, back) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    getSelection().selectAllChildren(from); // no clipboard here: the reader copies what is marked
    return;
  }
  told.textContent = back.done;
  setTimeout(() => { told.textContent = back.name; }, 1200);
}
