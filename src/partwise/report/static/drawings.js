// Drawings of trees and graphs. Each takes select(first, end), called when a word, constituent or node is chosen.

const LETTER = 8, GAP = 16, LEVEL = 26;

function canvas(width, height, label, parts) {
  const size = { width: Math.ceil(width), height: Math.ceil(height), viewBox: `0 0 ${Math.ceil(width)} ${Math.ceil(height)}` };
  return scrolling(label, draw("svg", { ...size, class: "drawing", role: "group", "aria-label": label }, ...parts));
}

function label(x, y, text, kind, longest = 24) {
  return draw("text", { x: Math.round(10 * x) / 10, y: Math.round(10 * y) / 10, class: kind }, draw("title", {}, text), shortened(text, longest));
}

/** Listens to the keys that press a button. */
function onEnter(action) {
  return (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    action();
  };
}

function opacity(p) {
  return p === null || p === undefined ? 1 : Math.max(p, 0.18).toFixed(3);
}

/** The middles of words beside each other, and the width of all. */
function wordPlaces(columns) {
  let at = 4;
  const places = columns.map((texts) => {
    const room = Math.max(...texts.map((text) => LETTER * shortened(text || "").length)) + GAP;
    at += room;
    return at - room / 2;
  });
  return [places, at + 4];
}

/** How high each arc is, so that it passes over those below it; 0 for the root's. */
function arcLevels(heads) {
  const highest = new Array(heads.length + 1).fill(0), found = new Array(heads.length).fill(0);
  heads.map((head, word) => [Math.abs(head - word - 1), Math.min(head, word + 1), word])
    .filter(([, , word]) => heads[word] > 0)
    .sort((a, b) => a[0] - b[0])
    .forEach(([span, left, word]) => {
      const level = Math.max(0, ...highest.slice(left, left + span)) + 1;
      highest.fill(level, left, left + span);
      found[word] = level;
    });
  return found;
}

function dependencyDrawing(answer, tree, select) {
  const { tokens } = answer, heads = tree.heads, names = tree.labels || answer.labels;
  const [places, width] = wordPlaces(tokens.map((token, k) => [token, (answer.columns || [])[k]?.[0] || "", names[k] || ""]));
  const levels = arcLevels(heads), highest = Math.max(...levels, 1);
  const step = Math.min(LEVEL, 420 / highest), baseline = 34 + step * (highest + 1);
  const parts = heads.map((head, word) => {
    const p = probabilityOf(answer.marginals?.[word], head);
    const isWrong = answer.true_heads && answer.true_heads[word] !== head;
    const x = places[word], rise = step * levels[word];
    const start = head ? places[head - 1] + (head - 1 < word ? 4 : -4) : x;
    const control = baseline - rise / 0.75;
    const line = head ? `M${start} ${baseline}C${start} ${control} ${x} ${control} ${x} ${baseline}` : `M${x} 18V${baseline}`;
    const source = head ? tokens[head - 1] : "root";
    const told = `${source} → ${tokens[word]}${names[word] ? ": " + names[word] : ""}${p === null ? "" : ", probability " + percent(p)}`;
    const truth = isWrong ? ` (truly under ${answer.true_heads[word] ? tokens[answer.true_heads[word] - 1] : "root"})` : "";
    return draw("g", { class: isWrong ? "arc wrong" : "arc", click: () => select(word, word + 1) },
      draw("title", {}, told + truth),
      draw("path", { class: "line", d: line, opacity: opacity(p) }),
      draw("path", { class: "tip", d: `M${x} ${baseline}l-3.5 -7h7z`, opacity: opacity(p) }),
      label(head ? (start + x) / 2 : x + 4, head ? baseline - rise - 4 : 14, names[word] || (head ? "" : "root"), "relation"));
  });
  tokens.forEach((token, k) => parts.push(draw("g", { class: "pick", click: () => select(k, k + 1) },
    label(places[k], baseline + 17, token, "word"),
    label(places[k], baseline + 32, (answer.columns || [])[k]?.[0] || "", "tag"))));
  return canvas(width, baseline + 42, "dependency tree", parts);
}

function probabilityOf(row, key) {
  if (!row) return null;
  const found = row.find(([name]) => name === key);
  return found ? found[1] : 0;
}

/** nodes: [label, word or null, parent, first, end, probability or null], each before its children. */
function constituentDrawing(answer, tree, select) {
  const hasBracket = tree.nodes.length > 1 && !tree.nodes[0][0];
  const nodes = tree.nodes, words = nodes.filter((node) => node[1] !== null);
  const [places, width] = wordPlaces(words.map((node) => [node[1], node[0]]));
  const level = nodes.map(() => 0), x = nodes.map(() => 0), ends = nodes.map(() => null);
  for (let k = nodes.length - 1; k >= 0; k -= 1) {
    const [, word, parent, first] = nodes[k];
    x[k] = word !== null ? places[first] : (ends[k][0] + ends[k][1]) / 2;
    if (parent >= 0) {
      level[parent] = Math.max(level[parent], level[k] + 1);
      ends[parent] = ends[parent] ? [x[k], ends[parent][1]] : [x[k], x[k]];
    }
  }
  const top = Math.max(...level) - (hasBracket ? 1 : 0);
  const step = Math.min(34, 640 / Math.max(top, 1)), baseline = 24 + step * top;
  const truth = answer.true_spans && new Set(answer.true_spans.map((span) => span.join("\u0000")));
  const parts = nodes.flatMap(([name, word, parent, first, end, p], k) => {
    if (hasBracket && k === 0) return [];
    const y = baseline - step * level[k];
    const isWrong = truth && word === null && name && !truth.has([first, end, plainLabel(name)].join("\u0000"));
    const told = `${name} over words ${first + 1} to ${end}${p === null ? "" : ", probability " + percent(p)}${isWrong ? ", not in the true tree" : ""}`;
    const above = parent < 0 || (hasBracket && parent === 0) ? null : baseline - step * level[parent] + 5;
    // Words are reached in the strip above; constituents only here.
    const keys = word !== null ? {} : { tabindex: 0, role: "button", "aria-label": told, keydown: onEnter(() => select(first, end)) };
    return [draw("g", { class: isWrong ? "node wrong" : "node", opacity: opacity(p), click: () => select(first, end), ...keys },
      draw("title", {}, told),
      above === null ? null : draw("path", { class: "branch", d: `M${x[parent]} ${above}L${x[k]} ${y - 13}` }),
      label(x[k], y, name || "·", word === null ? "label" : "tag"),
      word === null ? null : label(x[k], baseline + 19, word, "word"))];
  });
  return canvas(width, baseline + 30, "constituent tree", parts);
}

/** A label without function tags and indices, as the truth is compared. */
function plainLabel(name) {
  return name.startsWith("-") ? name : name.split(/[-=]/, 1)[0];
}

function graphDrawing(answer, tree, select) {
  const n = answer.tokens.length, size = Math.min(680, 150 + 42 * Math.sqrt(n) * 2);
  const places = graphLayout(n, answer.edges, size);
  const names = tree.labels;
  const lines = answer.edges.map(([a, b]) => draw("path", { class: "branch", d: `M${places[a].join(" ")}L${places[b].join(" ")}` }));
  const nodes = places.map(([x, y], k) => {
    const p = probabilityOf(answer.marginals?.[k], names[k]);
    const isWrong = answer.truth && answer.truth[k] !== names[k];
    return draw("g", { class: isWrong ? "node wrong pick" : "node pick", click: () => select(k, k + 1) },
      draw("title", {}, `${answer.tokens[k]}: ${names[k]}${p === null ? "" : ", probability " + percent(p)}${isWrong ? ", truly " + answer.truth[k] : ""}`),
      draw("circle", { class: "vertex", cx: x, cy: y, r: 9, "fill-opacity": opacity(p) }),
      label(x, y - 13, names[k], "label", 12),
      label(x, y + 22, answer.tokens[k], "tag", 14));
  });
  return canvas(size, size, "graph", [...lines, ...nodes]);
}

/** Nodes on a circle, then pulled by edges and pushed by each other. */
function graphLayout(n, edges, size) {
  const middle = size / 2, radius = middle - 50;
  const places = Array.from({ length: n }, (_, k) => [
    middle + radius * Math.sin((2 * Math.PI * k) / n), middle - radius * Math.cos((2 * Math.PI * k) / n)]);
  if (n > 120) return places;
  const wanted = (1.6 * radius) / Math.sqrt(n);
  for (let round = 0; round < 120; round += 1) {
    const force = places.map(() => [0, 0]), heat = 0.12 * radius * (1 - round / 120);
    const push = (a, b, size_) => {
      const dx = places[a][0] - places[b][0] || 0.01, dy = places[a][1] - places[b][1];
      const length = Math.hypot(dx, dy) || 0.01, amount = size_(length);
      force[a][0] += (amount * dx) / length; force[a][1] += (amount * dy) / length;
      force[b][0] -= (amount * dx) / length; force[b][1] -= (amount * dy) / length;
    };
    for (let a = 0; a < n; a += 1) for (let b = a + 1; b < n; b += 1) push(a, b, (length) => (wanted * wanted) / length);
    edges.forEach(([a, b]) => push(a, b, (length) => -(length * length) / wanted));
    places.forEach((place, k) => {
      const length = Math.hypot(...force[k]) || 1, move = Math.min(length, heat) / length;
      [0, 1].forEach((axis_) => { place[axis_] = Math.min(Math.max(place[axis_] + move * force[k][axis_], 46), size - 46); });
    });
  }
  return places.map((place) => place.map((value) => Math.round(value)));
}
