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

/** A bar whose length is a share of its room. */
function bar(share, kind = "") {
  const inner = make("span", { class: "bar " + kind });
  inner.style.inlineSize = 100 * Math.min(Math.max(share, 0), 1) + "%";
  return make("span", { class: "bar-room", "aria-hidden": "true" }, inner);
}
