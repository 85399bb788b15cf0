// Tables: facts, weights, scores of labels, the confusion matrix, reliability.

function table(titles, rows, kinds = []) {
  const cell = (tag, value, k) => make(tag, { class: kinds[k] || null, dir: kinds[k] && kinds[k] !== "short" ? null : "auto" },
    ...(value instanceof Node ? [value] : breakable(shown(value))));
  return make("table", {},
    titles.length ? make("thead", {}, make("tr", {}, ...titles.map((title, k) => cell("th", title, k)))) : null,
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((value, k) => cell("td", value, k))))));
}

function facts(values) {
  return make("table", { class: "facts" }, make("tbody", {}, ...Object.entries(values)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", { dir: "auto" }, shown(value, 6))))));
}

/** Rows whose last entry is a number, which is also drawn as a bar from a centre line. */
function weights(titles, rows) {
  const largest = Math.max(...rows.map((row) => Math.abs(row[row.length - 1])), 1e-300);
  const drawn = rows.map((row) => {
    const weight = row[row.length - 1];
    const sign = weight < 0 ? "" : "+";
    return [...row.slice(0, -1), sign + weight.toFixed(3), leaning(weight / largest)];
  });
  const kinds = [...titles.slice(0, -1).map((title) => (title === "label" ? "short" : "")), "number", "bars"];
  return table([...titles, ""], drawn, kinds);
}

/** Scores of labels or of types; a title sorts by its column. */
function labelScores(rows, kind = "label") {
  const titles = [kind, "precision", "recall", "F1", "true"];
  const room = make("div", { class: "label-scores" });
  let by = 4, down = true;
  const show = () => {
    const ordered = [...rows].sort((a, b) => (a[by] < b[by] ? -1 : a[by] > b[by] ? 1 : 0) * (down ? -1 : 1));
    const buttons = titles.map((title, k) => make("button", {
      type: "button", class: "sort", "aria-pressed": k === by,
      click: () => { down = k === by ? !down : k > 0; by = k; show(); room.querySelectorAll(".sort")[k].focus(); },
    }, title + (k === by ? (down ? " ↓" : " ↑") : "")));
    const shownRows = ordered.map((row) => [row[0], ...row.slice(1, 4).map(percent), row[4], bar(row[3], "plus")]);
    room.replaceChildren(table([...buttons, ""], shownRows, ["", "number", "number", "number", "number", "bars"]));
  };
  show();
  return scrolling(`scores by ${kind}`, room);
}

/** Rows are true labels, columns predicted ones; a row's errors are shaded by their share. open(true, predicted) shows examples. */
function confusionMatrix({ labels, matrix, note }, open = null) {
  const heads = labels.map((label) => make("th", { scope: "col", title: label }, make("span", { dir: "auto" }, shortened(label, 14))));
  const rows = matrix.map((row, i) => {
    const total = row.reduce((sum, count) => sum + count, 0) || 1;
    return make("tr", {}, make("th", { scope: "row", title: labels[i], dir: "auto" }, shortened(labels[i], 18)),
      ...row.map((count, j) => {
        const cell = make("td", { class: i === j ? "right" : "wrong", title: `${labels[i]} predicted as ${labels[j]}: ${count}` },
          count && open && i !== j ? make("button", { type: "button", class: "cell", "aria-label": `${shown(count)}: show examples of ${labels[i]} predicted as ${labels[j]}`, click: () => open(labels[i], labels[j]) }, shown(count)) : count ? shown(count) : "");
        if (count) cell.style.setProperty("--share", `${Math.round(100 * Math.sqrt(count / total) * 0.7)}%`);
        return cell;
      }));
  });
  const corner = make("th", {}, "true / predicted");
  return make("div", {}, note ? make("p", { class: "note" }, note) : null,
    scrolling("confusion matrix", make("table", { class: "confusion" },
      make("thead", {}, make("tr", {}, corner, ...heads)), make("tbody", {}, ...rows))));
}

function reliabilityDiagram(title, found) {
  const most = Math.max(...found.bins.map((each) => each.count), 1);
  const line = {
    name: "share in the truth",
    points: found.bins.map((each) => [each.probability, each.frequency]),
    sizes: found.bins.map((each) => 2.5 + 7 * Math.sqrt(each.count / most)),
    told: (point) => {
      const own = found.bins.find((each) => each.probability === point[0]);
      return own ? ` of ${own.count.toLocaleString("en")} parts` : "";
    },
  };
  const rows = found.bins.map((each) => [`${shown(each.lower, 3)} to ${shown(each.upper, 3)}`, each.count, percent(each.probability), percent(each.frequency)]);
  const errors = `expected calibration error ${percent(found.expected_error)}, largest ${percent(found.largest_error)}, Brier score ${shown(found.brier, 3)}, ${found.n_parts.toLocaleString("en")} parts`;
  return make("div", {},
    chart({ title, lines: [line], xLabel: "probability", yLabel: "share in the truth", range: [0, 1], diagonal: true }),
    make("p", { class: "note" }, errors),
    make("details", {}, make("summary", {}, "bins"),
      table(["probability", "parts", "mean probability", "share in the truth"], rows, ["", "number", "number", "number"])));
}
