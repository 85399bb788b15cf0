// Charts: axes, curves, and the values under the pointer or at the arrow keys.

const CHART = { width: 520, height: 300, left: 62, right: 14, top: 24, bottom: 42 };
const DASHES = ["", "7 4", "2 3", "9 3 2 3", "4 2"];

/**
 * A chart of curves.
 * lines: [{name, points: [[x, y], …]}]; logX, logY: logarithmic axes, on which only numbers above 0 have a place;
 * a line may have color (the number of its colour), dash, bare: true (no marks) and onlyMarks: true;
 * level: {value, text}, a dashed line; diagonal: true draws y = x; range: [low, high] of both axes.
 */
function chart({ title, lines, xLabel, yLabel = "", logX = false, logY = false, level = null, diagonal = false, range = null }) {
  const kept = lines
    .map((line) => ({ ...line, points: line.points.filter(([x, y]) => placeable(x, logX) && placeable(y, logY)) }))
    .filter((line) => line.points.length);
  if (!kept.length) return make("p", { class: "note" }, `${title}: no points to draw.`);
  const all = kept.flatMap((line) => line.points);
  const ys = all.map((point) => point[1]).concat(level && placeable(level.value, logY) ? [level.value] : []);
  const x = axis(range || bounds(all.map((point) => point[0]), logX, !logX), logX, CHART.left, CHART.width - CHART.right);
  const y = axis(range || bounds(ys, logY, false), logY, CHART.height - CHART.bottom, CHART.top);
  const picture = draw("svg", {
    viewBox: `0 0 ${CHART.width} ${CHART.height}`, class: "chart", tabindex: 0, role: "img",
    "aria-label": `${title}. Arrow keys read its values.`,
  });
  picture.append(...frame(x, y, xLabel, yLabel));
  if (diagonal) picture.append(draw("path", { class: "level", d: `M${x.place(range[0])} ${y.place(range[0])}L${x.place(range[1])} ${y.place(range[1])}` }));
  if (level && placeable(level.value, logY)) {
    const height = y.place(level.value);
    picture.append(draw("path", { class: "level", d: `M${CHART.left} ${height}H${CHART.width - CHART.right}` }));
    picture.append(draw("text", { class: "tick", x: CHART.left + 5, y: height - CHART.top < 14 ? height + 14 : height - 5 }, level.text));
  }
  kept.forEach((line, k) => picture.append(...curve(line, k, x, y)));
  const readout = make("output", { class: "readout", "aria-live": "polite" }, "\u00a0");
  readValues(picture, readout, kept, x, xLabel);
  const legend = make("div", { class: "legend" }, ...kept.map(legendEntry));
  return make("figure", {}, make("figcaption", {}, title), kept.length > 1 ? legend : null, picture, readout);
}

function placeable(value, isLog) {
  return typeof value === "number" && Number.isFinite(value) && (!isLog || value > 0);
}

function bounds(values, isLog, fromZero) {
  let low = Math.min(...values), high = Math.max(...values);
  if (isLog) {
    low = 10 ** Math.floor(Math.log10(low) + 1e-9);
    high = 10 ** Math.ceil(Math.log10(high) - 1e-9);
    return low < high ? [low, high] : [low, low * 10];
  }
  if (fromZero) low = Math.min(low, 0);
  if (low === high) return [low - 0.5, high + 0.5];
  const room = fromZero ? 0 : 0.06 * (high - low);
  return [low - room, high + room];
}

function axis([low, high], isLog, start, end) {
  const scale = isLog ? Math.log10 : (value) => value;
  const share = (value) => (scale(value) - scale(low)) / (scale(high) - scale(low));
  return {
    place: (value) => Math.round(10 * (start + Math.min(Math.max(share(value), -1), 2) * (end - start))) / 10,
    ticks: isLog ? powers(low, high) : roundNumbers(low, high),
    isLog,
  };
}

function powers(low, high) {
  const first = Math.round(Math.log10(low)), last = Math.round(Math.log10(high));
  const step = Math.max(1, Math.ceil((last - first) / 6)), found = [];
  for (let power = first; power <= last; power += step) found.push(Number(`1e${power}`));
  return found;
}

function roundNumbers(low, high) {
  const raw = (high - low) / 5, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((each) => each >= 0.999 * raw);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k <= high / step + 1e-9; k += 1) found.push(Number((k * step).toPrecision(12)));
  return found;
}

function frame(x, y, xLabel, yLabel) {
  const bottom = CHART.height - CHART.bottom, right = CHART.width - CHART.right;
  const text = (value, isLog) => (isLog ? value.toExponential(0).replace("e+", "e") : String(value));
  return [
    ...y.ticks.flatMap((value) => [
      draw("path", { class: "grid", d: `M${CHART.left} ${y.place(value)}H${right}` }),
      draw("text", { class: "tick end", x: CHART.left - 6, y: y.place(value) + 4 }, text(value, y.isLog)),
    ]),
    ...x.ticks.map((value) => draw("text", { class: "tick middle", x: x.place(value), y: bottom + 17 }, text(value, x.isLog))),
    draw("path", { class: "axis", d: `M${CHART.left} ${CHART.top}V${bottom}H${right}` }),
    draw("text", { class: "tick middle", x: (CHART.left + right) / 2, y: CHART.height - 6 }, xLabel),
    draw("text", { class: "tick", x: CHART.left - 6, y: CHART.top - 10 }, yLabel),
  ];
}

function curve(line, k, x, y) {
  const places = line.points.map(([a, b]) => [x.place(a), y.place(b)]);
  const color = `series-${((line.color ?? k) % COLORS) + 1}`;
  const marks = places.length <= 60 && !line.bare ? places : [];
  return [
    line.onlyMarks ? null : draw("polyline", {
      class: `curve ${color}`, points: places.map((place) => place.join(",")).join(" "),
      "stroke-dasharray": line.dash || DASHES[Math.floor(k / COLORS) % DASHES.length] || null,
    }),
    ...marks.map(([a, b], i) => draw("circle", { class: `mark ${color}`, cx: a, cy: b, r: line.sizes ? line.sizes[i] : 3 })),
  ].filter((each) => each);
}

function legendEntry(line, k) {
  const color = `series-${((line.color ?? k) % COLORS) + 1}`;
  const sign = line.onlyMarks ? draw("circle", { class: `mark ${color}`, cx: 13, cy: 5, r: 4 }) :
    draw("path", { class: `curve ${color}`, d: "M0 5H26", "stroke-dasharray": line.dash || DASHES[Math.floor(k / COLORS) % DASHES.length] || null });
  return make("span", {}, draw("svg", { viewBox: "0 0 26 10", class: "swatch", "aria-hidden": "true" }, sign), shortened(line.name, 48));
}

/** Shows the values of all curves at the point nearest to the pointer, or at the next one by arrow key. */
function readValues(picture, readout, lines, x, xLabel) {
  const places = [...new Set(lines.flatMap((line) => line.points.map((point) => point[0])))].sort((a, b) => a - b);
  const rule = draw("path", { class: "rule" });
  picture.append(rule);
  let current = -1;
  const show = (k) => {
    current = Math.min(Math.max(k, 0), places.length - 1);
    const at = places[current];
    rule.setAttribute("d", `M${x.place(at)} ${CHART.top}V${CHART.height - CHART.bottom}`);
    const values = lines.map((line) => {
      const near = line.points.reduce((best, point) => (Math.abs(point[0] - at) < Math.abs(best[0] - at) ? point : best));
      const where = near[0] === at ? "" : ` (at ${shown(near[0])})`;
      return `${lines.length > 1 ? shortened(line.name, 32) + " " : ""}${shown(near[1])}${where}${line.told ? line.told(near) : ""}`;
    });
    readout.textContent = `${xLabel} ${shown(at)}: ${values.join(", ")}`;
  };
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const place = ((event.clientX - box.left) / box.width) * CHART.width;
    const distances = places.map((value) => Math.abs(x.place(value) - place));
    show(distances.indexOf(Math.min(...distances)));
  });
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: current - 1, ArrowRight: current + 1, Home: 0, End: places.length - 1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    show(step);
  });
}
