// One example: its words with their labels, shaded by doubt; for a chosen word, its labels' probabilities and feature contributions.

const DRAWINGS = { trees: dependencyDrawing, constituents: constituentDrawing, graphs: graphDrawing };

/** The type of a label of an entity or chunk (B-PER: PER); any other label is its own type. */
function typeOf(name) {
  return /^[BIESLU]-./.test(name) ? name.slice(2) : name;
}

/** Whether labels mark entities or chunks: all are O, or a letter of IOBES or BILOU, a hyphen and a type. */
function areChunks(labels) {
  return labels.some((name) => typeOf(name) !== name) && labels.every((name) => name === "O" || typeOf(name) !== name);
}

/** Entities that labels mark: [first, last, type, probability of the least probable label, or nothing]. */
function entitiesOf(labels, probability = () => null) {
  const found = [];
  labels.forEach((name, k) => {
    if (name === "O") return;
    const before = labels[k - 1], type = typeOf(name), own = found[found.length - 1];
    const starts = !before || before === "O" || typeOf(before) !== type || "BSU".includes(name[0]) || "ESLU".includes(before[0]);
    const p = probability(k);
    if (starts) found.push([k, k, type, p ?? undefined]);
    else { own[1] = k; if (p !== null && p < own[3]) own[3] = p; }
  });
  return found;
}

/** An answer whose labels mark entities, with these as segments. */
function withEntities(answer) {
  const labels = answer.labels || [];
  if (answer.segments || answer.heads || answer.nodes || answer.edges) return answer;
  if (!areChunks([...labels, ...(answer.truth || [])])) return answer;
  const exact = new Map((answer.entities || []).map((each) => [[each.first, each.last, each.type].join("\u0000"), each.probability]));
  const entities = (own) => entitiesOf(own.labels, (k) => probabilityHere(answer, own, k)).map((each) =>
    [...each.slice(0, 3), exact.get(each.slice(0, 3).join("\u0000")) ?? each[3]]);
  return {
    ...answer, segments: entities(answer),
    true_segments: answer.truth ? entitiesOf(answer.truth).map((each) => each.slice(0, 3)) : undefined,
    kbest: answer.kbest?.map((each) => ({ ...each, segments: entities(each) })),
  };
}

/** The place to look at first: the first error, if the truth is known. */
function firstError(answer) {
  const place = answer.tokens.findIndex((_, k) => { const truth = truthOf(answer, k); return truth !== null && truth !== labelOf(answer, answer, k); });
  return Math.max(place, 0);
}

/** The view of one answer; move(step) goes to another example where there are any. */
function answerView(given, move = () => {}) {
  const answer = withEntities(given);
  const details = make("div", { class: "details", "aria-live": "polite" });
  const room = make("div", { class: "answer" });
  const start = firstError(answer);
  let chosen = [start, start + 1], rank = 0;
  const select = (first, end) => {
    chosen = [first, end];
    details.replaceChildren(...detailsOf(answer, first, end));
    room.querySelectorAll(".token").forEach((token, k) => {
      const isChosen = k >= first && k < end;
      token.setAttribute("aria-selected", isChosen);
      token.tabIndex = k === first ? 0 : -1;
    });
  };
  const pick = (k) => { rank = k; show(); room.querySelectorAll(".kbest button")[k]?.focus(); };
  const show = () => {
    const tree = rank ? answer.kbest[rank] : answer;
    const parts = [
      answer.note ? make("p", { class: "warning" }, answer.note) : null,
      wordStrip(answer, tree, select, move),
      missingSegments(answer, rank),
      DRAWINGS[answer.kind] ? DRAWINGS[answer.kind](answer, tree, select) : null,
      details,
      kbestTable(answer, rank, pick),
      againstTable(answer),
    ];
    room.replaceChildren(...parts.filter((part) => part));
    select(...chosen);
  };
  show();
  return room;
}

/** Words that can be walked through by arrow keys. */
function wordStrip(answer, tree, select, move) {
  const strip = make("div", { class: "strip", role: "listbox", "aria-label": "words and their labels", "aria-orientation": "horizontal", dir: "auto" });
  const tokens = answer.tokens.map((word, k) => tokenOf(answer, tree, word, k, select));
  strip.append(...grouped(answer, tree, tokens));
  strip.addEventListener("keydown", (event) => {
    const current = tokens.indexOf(document.activeElement);
    const ahead = getComputedStyle(strip).direction === "rtl" ? -1 : 1;
    const next = { ArrowLeft: current - ahead, ArrowRight: current + ahead, Home: 0, End: tokens.length - 1 }[event.key];
    if (next !== undefined && current >= 0) {
      event.preventDefault();
      const place = Math.min(Math.max(next, 0), tokens.length - 1);
      select(place, place + 1);
      tokens[place].focus();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      move(event.key === "ArrowDown" ? 1 : -1);
    }
  });
  return strip;
}

function tokenOf(answer, tree, word, k, select) {
  const name = labelOf(answer, tree, k), p = probabilityHere(answer, tree, k), truth = truthOf(answer, k);
  const isWrong = truth !== null && truth !== name;
  const isPlain = answer.segments && !isWrong; // its colour says the rest
  const token = make("button", {
    type: "button", role: "option", class: `token${isWrong ? " wrong" : ""}${isPlain ? " plain" : ""}`, tabindex: k ? -1 : 0,
    title: `${shortened(word, 200)}: ${name}${p === null ? "" : ", probability " + percent(p)}${isWrong ? ", truly " + truth : ""}`,
    click: () => select(k, k + 1),
  }, make("span", { class: "word", dir: "auto" }, shortened(word, 60)), isPlain ? null : make("span", { class: "name", dir: "auto" }, shortened(name, 40)));
  if (isWrong) token.append(make("span", { class: "truth", dir: "auto" }, shortened(truth, 40)));
  if (!answer.heads && !answer.segments) tinted(token, name, p);
  return token;
}

/** In the colour of its type, the paler the less probable. */
function tinted(element, type, p) {
  element.style.setProperty("--hue", hueOf(type));
  element.style.setProperty("--strength", `${Math.round(4 + 30 * (p ?? 1))}%`);
  return element;
}

/** What stands under a word: its label, or its head and relation. */
function labelOf(answer, tree, k) {
  if (!answer.heads) return (tree.labels || answer.labels)[k];
  return headName(answer, tree.heads[k], (tree.labels || answer.labels)[k]);
}

function truthOf(answer, k) {
  if (answer.heads) return answer.true_heads ? headName(answer, answer.true_heads[k], answer.truth ? answer.truth[k] : "") : null;
  return answer.truth ? answer.truth[k] : null;
}

function headName(answer, head, relation) {
  return `${relation ? relation + " " : ""}← ${head ? shortened(answer.tokens[head - 1], 20) : "root"}`;
}

function probabilityHere(answer, tree, k) {
  return probabilityOf(answer.marginals?.[k], answer.heads ? tree.heads[k] : (tree.labels || answer.labels)[k]);
}

/** Words of a segment in one box with its label. */
function grouped(answer, tree, tokens) {
  if (!answer.segments) return tokens;
  const result = [], segments = tree.segments;
  for (let k = 0; k < tokens.length; ) {
    const own = segments.find(([first]) => first === k);
    if (!own) { result.push(tokens[k]); k += 1; continue; }
    const [first, last, name, p] = own;
    const isWrong = answer.true_segments && !answer.true_segments.some((each) => each[0] === first && each[1] === last && each[2] === name);
    const text = shortened(name, 40) + (p === undefined ? "" : ` ${percent(p)}`);
    result.push(tinted(make("span", { class: isWrong ? "segment wrong" : "segment", role: "group", "aria-label": text },
      make("span", { class: "segment-words" }, ...tokens.slice(first, last + 1)),
      make("span", { class: "segment-name", dir: "auto" }, text)), name, p));
    k = last + 1;
  }
  return result;
}

function missingSegments(answer, rank) {
  if (!answer.true_segments || rank) return null;
  const found = new Set(answer.segments.map((each) => each.slice(0, 3).join("\u0000")));
  const missing = answer.true_segments.filter((each) => !found.has(each.join("\u0000")));
  const named = missing.map(([first, last, name]) => `${name} [${answer.tokens.slice(first, last + 1).map((word) => shortened(word)).join(" ")}]`);
  return missing.length ? make("p", { class: "missing", dir: "auto" }, `missing: ${named.join("; ")}`) : null;
}

/** The rivals at a place and the terms of its score. */
function detailsOf(answer, first, end) {
  const words = answer.tokens.slice(first, end).join(" ");
  const isWord = end === first + 1;
  const parts = [make("h3", { dir: "auto" }, shortened(words, 300))];
  if (isWord && answer.columns?.[first]?.length) parts.push(make("p", { class: "note", dir: "auto" }, answer.columns[first].map((cell) => shortened(cell, 60)).join(" · ")));
  const rivals = rivalsAt(answer, first, end);
  const terms = (answer.terms || []).filter((term) => term[0] === first && term[1] === end);
  const pair = make("div", { class: "pair" });
  if (rivals.length) {
    const rows = rivals.map(([name, p]) => [shortened(name, 40), percent(p), bar(p, "plus")]);
    pair.append(make("div", {}, make("h4", {}, "probabilities"), table([], rows, ["", "number", "bars"])));
  }
  if (terms.length) {
    const rows = terms.map(([, , name, label_, contribution]) => [name, label_, contribution]);
    pair.append(make("div", {}, make("h4", {}, "Feature contributions"), scrolling("terms of the score", weights(["feature", "label", "contribution"], rows))));
  }
  if (!pair.childNodes.length) parts.push(make("p", { class: "note" }, "Nothing is known about this place beyond its label."));
  return [...parts, pair];
}

function rivalsAt(answer, first, end) {
  if (answer.span_marginals) {
    const here = answer.span_marginals.filter((span) => span[0] === first && span[1] === end).map((span) => [span[2], span[3]]);
    if (here.length) return here.slice(0, 8);
  }
  if (end !== first + 1 || !answer.marginals) return [];
  if (!answer.heads) return answer.marginals[first];
  return answer.marginals[first].map(([head, p]) => [headName(answer, head, ""), p]);
}

/** The best answers; choosing one shows it above. */
function kbestTable(answer, rank, pick) {
  if (!answer.kbest || answer.kbest.length < 2) return null;
  const isProbability = "probability" in answer.kbest[0];
  const rows = answer.kbest.map((each, k) => [
    make("button", { type: "button", "aria-pressed": k === rank, click: () => pick(k) }, String(k + 1)),
    isProbability ? percent(each.probability) : shown(each.score),
    make("span", { class: "labels", dir: "auto" }, ...changes(answer, each, k)),
  ]);
  const titles = ["", isProbability ? "probability" : "score", "differs from the best in"];
  return make("div", { class: "kbest" }, make("h3", {}, "The best answers"), scrolling("the best answers", table(titles, rows, ["", "number", "wide"])));
}

function changes(answer, other, k) {
  if (!k) return ["the answer above"];
  if (answer.kind === "constituents") return spanChanges(answer, other);
  const found = answer.tokens.flatMap((word, t) => {
    const here = labelOf(answer, other, t);
    return here === labelOf(answer, answer, t) ? [] : [make("span", { class: "change" }, `${shortened(word)} ${shortened(here, 40)}`), " "];
  });
  return found.length ? found : ["nothing that is shown here"];
}

/** Constituents that only one of two trees has. */
function spanChanges(answer, other) {
  const spans = (nodes) => new Map(nodes.filter((node) => node[1] === null && node[0])
    .map(([name, , , first, end]) => [[first, end, name].join("\u0000"), `${name} [${shortened(answer.tokens.slice(first, end).join(" "), 60)}]`]));
  const mine = spans(answer.nodes), theirs = spans(other.nodes);
  const only = (own, others, sign) => [...own].filter(([key]) => !others.has(key)).flatMap(([, text]) => [make("span", { class: "change" }, sign + text), " "]);
  const found = [...only(theirs, mine, "+ "), ...only(mine, theirs, "− ")];
  return found.length ? found : ["its tags"];
}

function againstTable(answer) {
  if (!answer.against) return null;
  const { score, terms } = answer.against;
  const rows = terms.map(([first, end, name, label_, contribution]) => [
    shortened(answer.tokens.slice(first, end).join(" "), 40), name, label_, contribution]);
  return make("div", {}, make("h3", {}, "Why this and not the next"),
    make("p", { class: "note" }, `The best answer scores ${shown(score)} higher. The largest contributions to this difference; negative ones favour the other answer.`),
    scrolling("terms of the lead", weights(["place", "feature", "label", "contribution"], rows)));
}
