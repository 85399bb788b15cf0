// The page: sections for whatever the data hold.

const page = document.getElementById("page");
const PAUSE = 350; // milliseconds without a key before what was typed is sent
const content = JSON.parse(document.getElementById("data").textContent);

function gapSection(runs) {
  const drawn = runs.filter((run) => run.points.length);
  if (!drawn.length) return null;
  const tols = [...new Set(drawn.map((run) => run.tol).filter((tol) => tol))];
  const level = tols.length === 1 ? { value: tols[0], text: `tol = ${shown(tols[0])}` } : null;
  const lines = (column) => drawn.map((run) => ({ name: run.name, points: run.points.map((point) => [point[column], point[2]]) }));
  const common = { logY: true, level, yLabel: "relative gap" };
  return section("Convergence",
    make("div", { class: "pair" },
      chart({ title: "Gap by pass", lines: lines(0), xLabel: "pass", ...common }),
      chart({ title: "Gap by second", lines: lines(1), xLabel: "second", ...common })),
    drawn.length === 1 ? boundsChart(drawn[0]) : null);
}

function boundsChart(run) {
  const lines = [["primal", 1], ["dual", 2]].map(([name, k]) => ({ name, points: run.bounds.map((each) => [each[0], each[k]]) }));
  return chart({ title: "Primal and dual", lines, xLabel: "pass", yLabel: "objective" });
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

function modelSections(model) {
  if (!model) return [];
  const gap = model.certificate["relative gap"];
  const proof = gap === null ? "No bound on how far it is from the optimum is known." :
    "No weights have an objective below the dual value: the model is within the gap of the optimum.";
  const pair = (...parts) => make("div", { class: "pair" }, ...parts.map((part) => make("div", {}, part)));
  return [
    section("Certificate", facts(model.certificate), make("p", { class: "note" }, proof)),
    section("Model", pair(facts(model.settings), facts({ ...model.sizes, ...model.training }))),
    model.features.length ? section("Largest feature weights", scrolling("feature weights", weights(["label", "feature", "weight"], model.features))) : null,
    model.transitions.length ? section("Largest transition weights", scrolling("transition weights", weights(["from", "to", "weight"], model.transitions))) : null,
  ];
}

function scoreSections(scores) {
  if (!scores) return [];
  const found = [section("Scores", make("p", { class: "note" }, `on ${scores.data}`), facts(Object.fromEntries(scores.scores)))];
  if (scores.labels.length) found.push(section("Scores of labels", labelScores(scores.labels)));
  if (scores.confusion) found.push(section("Confusion matrix", confusionMatrix(scores.confusion)));
  if (scores.reliability) {
    found.push(section("Reliability", make("p", { class: "note" }, "If probabilities are calibrated, the points lie on the line: of all parts with probability p, a share p is true. Large points stand for many parts."),
      make("div", { class: "pair" },
        reliabilityDiagram("Parts that were predicted", scores.reliability.predicted),
        reliabilityDiagram("All parts", scores.reliability.every))));
  }
  return found;
}

/** Examples to choose from, worst first. */
function examplesSection(given) {
  if (!given || !given.examples.length) return null;
  const room = make("div");
  let current = 0;
  const chooser = make("select", { id: "example", change: () => show(chooser.selectedIndex) }, ...given.examples.map((each) =>
    make("option", {}, `${each.number}: ${each.errors ? each.errors + " wrong" : "all right"} – ${shortened(each.tokens.slice(0, 12).join(" "), 60)}`)));
  const move = (step) => {
    show(Math.min(Math.max(current + step, 0), given.examples.length - 1));
    room.querySelector(".token")?.focus();
  };
  const show = (k) => {
    current = chooser.selectedIndex = k;
    room.replaceChildren(answerView(given.examples[k], move));
  };
  const step = (text, by) => make("button", { type: "button", click: () => show(Math.min(Math.max(current + by, 0), given.examples.length - 1)) }, text);
  show(0);
  const of = given.examples.length < given.total ? `The ${given.examples.length} with the most errors of ${given.total.toLocaleString("en")}` : `All ${given.total.toLocaleString("en")}`;
  return section("Examples",
    make("p", { class: "note" }, `${of}, worst first. The stronger the shade, the less probable the label. Choose a word to see the probabilities and feature contributions of its labels. Arrow keys left and right go from word to word, up and down from example to example.`),
    make("div", { class: "chooser" }, make("label", { for: "example" }, "Example"), chooser, step("Previous", -1), step("Next", 1)), room);
}

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

function leadOf(model) {
  if (!model) return null;
  const gap = model.certificate["relative gap"];
  const proof = gap === null ? "with no bound on how far it is from the optimum" : `proved to be within ${shown(100 * gap, 2)} % of the optimum`;
  return make("p", { class: "lead" }, `${model.kind}, ${model.settings.loss} loss, ${proof}`);
}

page.append(...[
  make("h1", { dir: "auto" }, document.title),
  leadOf(content.model),
  content.notes?.length ? make("ul", { class: "notes" }, ...content.notes.map((note) => make("li", {}, note))) : null,
  content.live ? liveSection(content.live) : null,
  content.runs ? gapSection(content.runs) : null,
  content.paths ? pathSection(content.paths) : null,
  ...scoreSections(content.scores),
  examplesSection(content.explorer),
  ...modelSections(content.model),
  make("footer", {}, "Made by partwise."),
].filter((part) => part));
document.body.dataset.ready = "yes";
