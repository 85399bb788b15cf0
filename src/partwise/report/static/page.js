// The page: a header with the figures that people look for, then tabs for whatever the data hold.

const page = document.getElementById("page");
const PAUSE = 350; // milliseconds without a key before what was typed is sent
const content = JSON.parse(document.getElementById("data").textContent);

// -- training -----------------------------------------------------------------------------------------

/** Bounds of one run, or the gaps of several. */
function trainingSection(runs) {
  const drawn = runs.filter((run) => run.points.length);
  if (!drawn.length) return null;
  if (drawn.length === 1 && drawn[0].bounds.some((each) => each[2] !== undefined && each[2] !== null)) return section("Training", boundsChart(drawn[0]));
  const tols = [...new Set(drawn.map((run) => run.tol).filter((tol) => tol))];
  const level = tols.length === 1 ? { value: tols[0], text: `tol = ${shown(tols[0])}` } : null;
  const lines = (column) => drawn.map((run) => ({ name: run.name, points: run.points.map((point) => [point[column], point[2]]) }));
  const common = { logY: true, level, yLabel: "relative gap" };
  return section("Training",
    make("div", { class: "pair" },
      chart({ title: "Gap by pass", lines: lines(0), xLabel: "pass", ...common }),
      chart({ title: "Gap by second", lines: lines(1), xLabel: "second", ...common })));
}

function boundsChart(run) {
  const estimates = meaningfulEstimates(run);
  const lines = [["objective", 1], ["lower bound", 2]].flatMap(([name, k], color) => {
    const certified = { name, color, points: run.bounds.map((each) => [each[0], each[k]]) };
    if (!estimates.length) return [certified];
    const all = [...estimates, ...run.bounds].sort((a, b) => a[0] - b[0]);
    return [{ ...certified, onlyMarks: true }, { name: `${name}, estimated in between`, color, dash: "5 4", bare: true, points: all.map((each) => [each[0], each[k]]) }];
  });
  return make("div", {},
    make("p", { class: "note" }, "No weights have an objective below the lower bound. When the curves meet, further training cannot gain anything."),
    chart({ title: "Objective and lower bound", lines, xLabel: "pass", yLabel: "objective" }));
}

/** Estimates between certificates, without those so early that the picture would show nothing else. */
function meaningfulEstimates(run) {
  const first = run.bounds.find((each) => typeof each[1] === "number" && typeof each[2] === "number");
  if (!first) return [];
  const room = 3 * (first[1] - first[2]);
  return (run.estimates || []).filter((each) => each[1] <= first[1] + room && each[2] >= first[2] - room);
}

function pathSection(paths) {
  if (!paths.length) return null;
  const line = (key) => paths.map((each) => ({ name: each.name, points: each.points.map((point) => [point.l2, point[key]]) }));
  const common = { xLabel: "l2", logX: true };
  const has = (key) => paths.some((each) => each.points.some((point) => point[key] !== null));
  const rows = paths.flatMap((each) => each.points.map((point) => [
    ...(paths.length > 1 ? [each.name] : []), point.l2, point.dev_score, point.objective, point.gap, point.passes, point.seconds]));
  const titles = [...(paths.length > 1 ? ["path"] : []), "l2", "dev score", "objective", "relative gap", "passes", "seconds"];
  return section("Regularisation path",
    make("div", { class: "pair" },
      has("dev_score") ? chart({ title: "Dev score by l2", lines: line("dev_score"), yLabel: "dev score", ...common }) : make("p", { class: "note" }, "No dev scores: the path had no --dev data."),
      has("passes") ? chart({ title: "Passes by l2", lines: line("passes"), yLabel: "passes", ...common }) : null),
    scrolling("points of the path", table(titles, rows, titles.map((title) => (title === "path" ? "" : "number")))));
}

function certificateSection(model) {
  if (!model) return null;
  const gap = model.certificate["relative gap"];
  const proof = gap == null ? "No bound on how far it is from the optimum is known." :
    "No weights have an objective below the dual value: the model is within the gap of the optimum.";
  return section("Certificate", facts(model.certificate), make("p", { class: "note" }, proof));
}

// -- the model ----------------------------------------------------------------------------------------

function modelSections(model) {
  if (!model) return [];
  const pair = (...parts) => make("div", { class: "pair" }, ...parts.map((part) => make("div", {}, part)));
  return [
    section("Model", pair(facts(model.settings), facts({ ...model.sizes, ...model.training }))),
    model.features.length ? section("Largest feature weights", scrolling("feature weights", weights(["label", "feature", "weight"], model.features))) : null,
    model.transitions.length ? section("Largest transition weights", scrolling("transition weights", weights(["from", "to", "weight"], model.transitions))) : null,
  ];
}

// -- scores and errors ----------------------------------------------------------------------------------

function scoreSections(scores, open) {
  if (!scores) return [];
  return [
    scores.types?.length ? section("Scores by type", labelScores(scores.types, "type")) : null,
    section("Scores", facts(Object.fromEntries(scores.scores))),
    scores.confusion ? section("Confusion matrix", open ? make("p", { class: "note" }, "Choose a number to see examples.") : null, confusionMatrix(scores.confusion, open)) : null,
    scores.labels.length ? section("Scores of labels", labelScores(scores.labels)) : null,
  ];
}

function calibrationSection(scores) {
  if (!scores?.reliability) return null;
  return section("Reliability", make("p", { class: "note" }, "If probabilities are calibrated, the points lie on the line: of all parts with probability p, a share p is true. Large points stand for many parts."),
    make("div", { class: "pair" },
      reliabilityDiagram("Parts that were predicted", scores.reliability.predicted),
      reliabilityDiagram("All parts", scores.reliability.every)));
}

// -- examples -------------------------------------------------------------------------------------------

/** Examples, worst first, with filters. Returns the section and a function that shows examples of one confusion. */
function examplesSection(given) {
  if (!given || !given.examples.length) return [null, null];
  const room = make("div"), told = make("p", { class: "note", role: "status" });
  const types = typesOf(given.examples);
  types.forEach(hueOf); // the same colours whatever example is looked at first
  const found = { type: "", errors: "", doubt: "", pair: null };
  let current = 0, matching = given.examples;
  const chooser = make("select", { id: "example", change: () => show(chooser.selectedIndex) });
  const filter = (name, title, options) => {
    const box = make("select", { id: `filter-${name}`, change: () => { found[name] = box.value; found.pair = null; renew(); } },
      ...options.map(([value, text]) => make("option", { value }, text)));
    return make("span", { class: "field" }, make("label", { for: `filter-${name}` }, title), box);
  };
  const move = (step) => {
    show(Math.min(Math.max(current + step, 0), matching.length - 1));
    room.querySelector(".token[aria-selected=true]")?.focus();
  };
  const show = (k) => {
    current = chooser.selectedIndex = k;
    room.replaceChildren(...(matching.length ? [answerView(matching[k], move)] : []));
  };
  const renew = () => {
    matching = given.examples.filter((each) => matches(each, found));
    chooser.replaceChildren(...matching.map((each) => make("option", {},
      `${each.number}: ${each.errors ? each.errors + " wrong" : "all right"} – ${shortened(each.tokens.slice(0, 12).join(" "), 60)}`)));
    const of = given.examples.length < given.total ? `the ${given.examples.length} with the most errors of ${given.total.toLocaleString("en")}` : `${given.total.toLocaleString("en")}`;
    const what = found.pair ? ` with ${shortened(found.pair[0])} predicted as ${shortened(found.pair[1])}` : "";
    told.textContent = `${matching.length.toLocaleString("en")} examples${what}, of ${of}; worst first.`;
    show(0);
  };
  const step = (text, by) => make("button", { type: "button", click: () => move(by) }, text);
  const probable = given.examples.some((each) => each.marginals || each.span_marginals);
  const element = section("Examples",
    make("div", { class: "chooser" },
      types.length > 1 ? filter("type", "Type", [["", "all"], ...types.map((name) => [name, shortened(name, 40)])]) : null,
      filter("errors", "Errors", [["", "all"], ["wrong", "with errors"], ["right", "without errors"]]),
      probable ? filter("doubt", "Least probable label", [["", "any"], ["0.5", "below 50 %"], ["0.8", "below 80 %"], ["0.95", "below 95 %"]]) : null),
    told,
    make("div", { class: "chooser" }, make("label", { for: "example" }, "Example"), chooser, step("Previous", -1), step("Next", 1)), room,
    make("p", { class: "note" }, "The paler a colour, the less probable the label. Choose a word to see the probabilities and feature contributions of its labels. Arrow keys left and right go from word to word, up and down from example to example."));
  const open = (truth, predicted) => {
    Object.assign(found, { type: "", errors: "", doubt: "", pair: [truth, predicted] });
    element.querySelectorAll("[id^=filter-]").forEach((box) => { box.value = ""; });
    renew();
    element.scrollIntoView({ block: "start" });
    chooser.focus({ preventScroll: true });
  };
  renew();
  return [element, given.examples.some((each) => each.truth) ? open : null];
}

/** The types of entities, or the labels if there are few, of all examples. */
function typesOf(examples) {
  const names = new Set();
  for (const each of examples) {
    for (const name of [...(each.heads ? [] : each.labels || []), ...(each.heads ? [] : each.truth || [])]) names.add(typeOf(name));
    for (const own of [...(each.segments || []), ...(each.true_segments || [])]) names.add(own[2]);
  }
  names.delete("O");
  return names.size <= 40 ? [...names].sort() : [];
}

/** Whether an example passes the filters. */
function matches(example, { type, errors, doubt, pair }) {
  if (errors && (errors === "wrong") !== example.errors > 0) return false;
  if (type) {
    const own = [...(example.labels || []), ...(example.truth || [])].map(typeOf);
    if (!own.includes(type) && !(example.segments || []).concat(example.true_segments || []).some((each) => each[2] === type)) return false;
  }
  if (doubt) {
    const least = Math.min(...example.tokens.map((_, k) => probabilityHere(example, example, k) ?? 1), ...(example.segments || []).map((each) => each[3] ?? 1));
    if (!(least < Number(doubt))) return false;
  }
  return !pair || (example.truth || []).some((name, k) => shortened(name, 160) === pair[0] && shortened(example.labels[k], 160) === pair[1]);
}

// -- a form that asks the server --------------------------------------------------------------------------

/** A form that asks the server, also while somebody types. */
function liveSection(live) {
  const room = make("div"), status = make("p", { class: "warning", role: "alert" });
  const input = make("textarea", { id: "text", rows: Math.min(Math.max(live.example.split("\n").length + 1, 3), 14), spellcheck: "false", dir: "auto" });
  input.value = live.example;
  const kbest = make("input", { id: "kbest", type: "number", min: 1, max: live.most_kbest, value: 3 });
  let asked = 0, waiting = null, underWay = new AbortController();
  const ask = async () => {
    const own = (asked += 1);
    clearTimeout(waiting);
    underWay.abort();
    underWay = new AbortController();
    room.setAttribute("aria-busy", "true");
    try {
      const response = await fetch("predict", {
        method: "POST", headers: { "Content-Type": "application/json" }, signal: underWay.signal,
        body: JSON.stringify({ text: input.value, kbest: Number(kbest.value) || 1 }),
      });
      const found = await response.json();
      if (own !== asked) return;
      status.textContent = response.ok ? "" : found.error;
      if (response.ok) room.replaceChildren(answerView(found));
    } catch {
      if (own === asked) status.textContent = "The server does not answer; is it still running?";
    } finally {
      if (own === asked) room.removeAttribute("aria-busy");
    }
  };
  const form = make("form", { class: "live", submit: (event) => { event.preventDefault(); ask(); } },
    make("label", { for: "text" }, `Type here: ${live.format}`), input,
    make("div", { class: "chooser" }, make("button", { type: "submit" }, "Predict"), make("label", { for: "kbest" }, "answers"), kbest));
  input.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); ask(); } });
  input.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(ask, PAUSE); });
  kbest.addEventListener("change", ask);
  ask();
  return section("Try it", form, status, room);
}

// -- the whole page ---------------------------------------------------------------------------------------

/** The figures that people look for, large. */
function figures(found) {
  if (!found?.length) return null;
  return make("dl", { class: "figures" }, ...found.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
}

function leadOf(model, about) {
  if (!model) return null;
  const gap = model.certificate["relative gap"];
  const proof = gap == null ? "with no bound on how far it is from the optimum" : `proved to be within ${shown(100 * gap, 2)} % of the optimum`;
  return make("p", { class: "lead", dir: "auto" }, [`${model.kind}, ${model.settings.loss} loss, ${proof}`, ...(about || [])].join(" · "));
}

const [examples, open] = examplesSection(content.explorer);
const [byType, ...otherScores] = scoreSections(content.scores, open);
const panels = [
  ["Errors", [byType, examples, ...otherScores]],
  ["Calibration", [calibrationSection(content.scores)]],
  ["Training", [content.runs ? trainingSection(content.runs) : null, content.paths ? pathSection(content.paths) : null, certificateSection(content.model)]],
  ["Model", modelSections(content.model)],
].map(([title, parts]) => [title, parts.filter((part) => part)]).filter(([, parts]) => parts.length);

page.append(...[
  make("h1", { dir: "auto" }, document.title),
  leadOf(content.model, content.about),
  figures(content.figures),
  content.notes?.length ? make("ul", { class: "notes" }, ...content.notes.map((note) => make("li", {}, note))) : null,
  content.live ? liveSection(content.live) : null,
  ...tabbed(panels.map(([title, parts]) => [title, make("div", {}, ...parts)])),
  make("footer", {}, "Made by partwise."),
].filter((part) => part));
document.body.dataset.ready = "yes";
