// Elements, text and numbers. Whatever comes from data becomes text or an attribute's value, never markup.

const SVG = "http://www.w3.org/2000/svg";
const COLORS = 5;

/** An element; attributes that are functions listen, children that are strings become text. */
function make(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** The same for drawings. */
function draw(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(key, value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** A heading with what belongs under it. */
function section(title, ...children) {
  const name = "section-" + title.toLowerCase().replace(/[^a-z]+/g, "-");
  return make("section", { "aria-labelledby": name }, make("h2", { id: name }, title), ...children);
}

/** What may be wider than the page scrolls by itself, also by keyboard. */
function scrolling(label, ...children) {
  return make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, ...children);
}

function shortened(text, longest = 24) {
  const letters = Array.from(text.slice(0, 2 * longest + 2));
  return letters.length <= longest ? text : letters.slice(0, longest - 1).join("") + "…";
}

/** Text that may break behind signs that part the names of features, not inside words. */
function breakable(text) {
  return text.split(/(?<=[|=,)])/).flatMap((part, k) => (k ? [document.createElement("wbr"), part] : [part]));
}

/** A number as people read it. */
function shown(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (value === true) return "yes";
  if (value === false) return "no";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) return value.toExponential(Math.max(digits - 2, 1));
  return String(Number(value.toPrecision(digits)));
}

function percent(p) {
  return p === null || p === undefined ? "–" : (100 * p).toFixed(p > 0.9995 || p < 0.1 ? 2 : 1) + " %";
}

const hues = new Map();

/** The hue of a type: hues of types that were seen one after another are far apart. */
function hueOf(type) {
  if (!hues.has(type)) hues.set(type, Math.round((210 + 137.5 * hues.size) % 360));
  return hues.get(type);
}

/** Panels of which one is shown, chosen by tabs; on paper all are shown. panels: [[title, element], …] */
function tabbed(panels) {
  if (panels.length < 2) return panels.map(([, panel]) => panel);
  const buttons = panels.map(([title], k) => make("button", {
    type: "button", role: "tab", id: `tab-${k}`, "aria-controls": `panel-${k}`, click: () => choose(k),
  }, title));
  const bodies = panels.map(([title, panel], k) => make("div", { role: "tabpanel", id: `panel-${k}`, "aria-labelledby": `tab-${k}` },
    make("p", { class: "panel-title" }, title), panel));
  const choose = (chosen) => buttons.forEach((button, k) => {
    button.setAttribute("aria-selected", k === chosen);
    button.tabIndex = k === chosen ? 0 : -1;
    bodies[k].classList.toggle("away", k !== chosen);
  });
  const list = make("div", { role: "tablist", class: "tabs", "aria-label": "parts of the page" }, ...buttons);
  list.addEventListener("keydown", (event) => {
    const current = buttons.indexOf(document.activeElement);
    const next = { ArrowLeft: current - 1, ArrowRight: current + 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (next === undefined || current < 0) return;
    event.preventDefault();
    const place = (next + buttons.length) % buttons.length;
    choose(place);
    buttons[place].focus();
  });
  choose(0);
  return [list, ...bodies];
}

/** A bar from a centre line: to the right if the value is positive, to the left if it is negative. */
function leaning(share) {
  const inner = make("span", { class: "bar " + (share < 0 ? "minus" : "plus") });
  inner.style.inlineSize = 50 * Math.min(Math.abs(share), 1) + "%";
  return make("span", { class: "bar-room leaning", "aria-hidden": "true" }, inner);
}

/** A bar whose length is a share of its room. */
function bar(share, kind = "") {
  const inner = make("span", { class: "bar " + kind });
  inner.style.inlineSize = 100 * Math.min(Math.max(share, 0), 1) + "%";
  return make("span", { class: "bar-room", "aria-hidden": "true" }, inner);
}
