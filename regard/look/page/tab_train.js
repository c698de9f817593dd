// Train: the curves of runs, live, and what they wrote at each validation.
import { choice, clamp, drawn, element, label, num, visible } from "./dom.js";
import { colourOf, css, seriesColour } from "./colours.js";
import { trainDraw, trainSmooth } from "./train_chart.js";

const TRAIN_SERIES = 8, TRAIN_POINTS = 8000, TRAIN_FOLLOWED = 4;      // a browser opens six connections at most
const TRAIN_AXES = ["step", "seconds", "tokens"];
const TRAIN_HIGH = /bleu|rouge|exact|chrf|accuracy/;

const train = { runs: [], held: new Map() };

const trainList = (app, name) => (app.state[name] ? String(app.state[name]).split(",").filter(Boolean) : []);
const trainChosen = app => trainList(app, "runs").map(id => train.runs.find(run => run.id === id)).filter(Boolean);
const trainAxis = app => (TRAIN_AXES.includes(app.state.axis) ? app.state.axis : "step");

function trainMeasures(app) {
  const known = [...new Set(trainChosen(app).flatMap(run => Object.keys(train.held.get(run.id)?.series ?? {})))];
  const wanted = trainList(app, "measures").filter(name => known.includes(name));
  return { known, wanted: wanted.length ? wanted : known.filter(name => /^(train|valid)_loss$/.test(name)) };
}

// ---- what there is, and what comes

async function trainFind(app) {
  const { runs } = await app.api.get("/api/runs"), strange = trainList(app, "runs").filter(id => !runs.some(run => run.id === id));
  train.runs = runs.filter(run => run.state !== "damaged");
  app.note("runs", [...strange.length ? [`There is no run ${strange.join(", ")} here.`] : [],
    ...runs.filter(run => run.state === "damaged").map(run => `The run ${run.name} is damaged: ${run.how}.`)].join(" "));
  if (!trainChosen(app).length && train.runs.length) {
    const running = train.runs.filter(run => run.state === "running"), own = train.runs.filter(run =>
        app.chosen.some(model => model.id === run.id));
    app.state.runs = (running.length ? running : own.length ? own : train.runs).slice(0, 3).map(run => run.id).join(",");
  }
}

const trainPath = (id, what) => `/api/runs/${encodeURIComponent(id)}/${what}`;

async function trainFetch(app, run) {
  const found = await app.api.get(trainPath(run.id, `metrics?points=${TRAIN_POINTS}`));
  const held = train.held.get(run.id) ?? { samples: [] };
  train.held.set(run.id, Object.assign(held, { series: found.series, cursor: found.cursor, detail: null }));
  held.samples = (await app.api.get(trainPath(run.id, "samples"))).samples;
  return held;
}

async function trainHold(app) {
  const chosen = trainChosen(app);
  for (const [id, held] of train.held) if (!chosen.some(run => run.id === id)) { held.source?.close(); train.held.delete(id); }
  await Promise.all(chosen.filter(run => !train.held.has(run.id)).map(run => trainFetch(app, run)));
  if (!train.root) return;
  const live = chosen.filter(run => run.state !== "finished").slice(0, TRAIN_FOLLOWED);
  for (const run of live) if (!train.held.get(run.id).source) trainFollow(app, run);
}

function trainFollow(app, run) {
  const held = train.held.get(run.id), source = held.source = app.api.events(trainPath(run.id,
      `events?after=${encodeURIComponent(held.cursor)}`));
  const hear = (name, take) => source.addEventListener(name, event => {
    held.cursor = event.lastEventId;
    take(JSON.parse(event.data));
    train.waiting = (train.waiting ?? 0) + 1;
    trainSoon(app);
  });
  hear("metrics", row => {
    trainAdd(held, row);
    Object.assign(run, { step: row.step, state: "running" });
  });
  hear("sample", sample => held.samples.push(sample));
  hear("reset", () => trainFetch(app, run).then(() => trainSoon(app)).catch(app.fail));
}

/** One row more, in the columns of each series it has. */
function trainAdd(held, row) {
  for (const [name, value] of Object.entries(row)) {
    if (TRAIN_AXES.includes(name)) continue;
    for (const all of [held.series, held.detail?.series].filter(Boolean)) {
      const own = all[name] ??= { step: [], seconds: [], tokens: [], value: [], mean: [], weight: [], count: 0, infinite: 0 };
      for (const axis of TRAIN_AXES) own[axis].push(row[axis] ?? null);
      own.value.push(value);
      own.mean.push(value);
      own.weight.push(1);
      own.count++;
    }
  }
}

/** Up to eight lines: each run with each measure. Of a long run only some points came; a zoom brings more. */
function trainLines(app) {
  const axis = trainAxis(app), { wanted } = trainMeasures(app), decay = clamp(+app.state.smooth || 0, 0, 0.999), lines = [];
  const chosen = trainChosen(app);
  for (const run of chosen) for (const name of wanted) {
    const held = train.held.get(run.id), series = (train.zoom && held?.detail?.series[name]) || held?.series[name];
    if (!series || lines.length >= TRAIN_SERIES) continue;
    const live = { xs: series[axis], ys: series.value, mean: series.mean, weight: series.weight };
    const cut = train.paused
        ? Object.fromEntries(Object.entries(live).map(([key, all]) => [key, all.slice(0, train.paused.get(series) ?? all.length)])) : live;
    lines.push({ ...cut, run, axis: { step: "steps" }[axis] ?? axis, measure: name, name: chosen.length > 1 ? wanted.length > 1
        ? `${run.name} ${name}` : run.name
        : name, short: `${chosen.length > 1 && wanted.length < 2 ? "" : name.replace("_loss", "")}${chosen.length > 1 ? ` ${run.name}` : ""}`.trim(), index: lines.length, infinite: series.infinite,
      smooth: decay && name !== "rate" && cut.ys.length > 2 ? trainSmooth(cut.mean, cut.weight, decay) : null });
  }
  return lines;
}

async function trainZoom(app, zoom) {
  train.zoom = zoom;
  for (const held of train.held.values()) held.detail = null;
  trainSoon(app);
  if (!zoom) return;
  try {
    for (const run of trainChosen(app)) {
      const held = train.held.get(run.id), some = Object.values(held.series).find(each => each.count > each.value.length);
      if (!some) continue;
      const axis = some[trainAxis(app)], inside = some.step.filter((_, at) => axis[at] >= zoom[0] && axis[at] <= zoom[1]);
      if (!inside.length) continue;
      const before = some.step.findLast(step => step < inside[0]) ?? inside[0], after = some.step.find(step => step > inside.at(-1))
          ?? inside.at(-1);
      const found = await app.api.get(trainPath(run.id, `metrics?points=${TRAIN_POINTS}&first=${before}&last=${after}`));
      if (train.zoom === zoom) held.detail = found;
    }
    trainSoon(app);
  } catch (error) {
    app.fail(error);
  }
}

// ---- drawing

/** At the next frame, however much has come. */
function trainSoon(app) {
  if (!train.frame && train.root) train.frame = requestAnimationFrame(() => {
    train.frame = 0;
    if (train.root) trainRedraw(app);
  });
}

function trainRedraw(app) {
  const lines = trainLines(app);
  train.canvas.plot = train.plot = trainDraw(train.canvas, lines,
      { zoom: train.zoom, xlog: app.state.xlog === "1", ylog: app.state.ylog === "1" });
  train.canvas.setAttribute("aria-label", `Curves over ${trainAxis(app)}: ${lines.map(trainTells).join(" ") || "nothing chosen"}`);
  train.summary.replaceChildren(...lines.map(line => {
    const mark = element("i", { className: "train-mark" });
    mark.style.setProperty("background", seriesColour(line.index));
    return element("li", {}, mark, element("b", {}, line.name), ` ${trainTells(line).slice(line.name.length + 2)}`);
  }));
  train.pause.textContent = train.paused ? `Go on (${train.waiting ?? 0} new)` : "Pause";
  train.pause.setAttribute("aria-pressed", String(Boolean(train.paused)));
  train.reset.disabled = !train.zoom;
  const chosen = trainChosen(app), all = chosen.length * trainMeasures(app).wanted.length;
  train.note.textContent = all > TRAIN_SERIES ? `${TRAIN_SERIES} of ${all} curves are drawn: choose fewer runs or measures.` : "";
  if (train.list.children.length) trainAbout();
  if (!train.paused) trainSamples(app);
}

/** A curve in words: best, last, and how it goes. */
function trainTells(line) {
  const { xs, ys, name, measure } = line, high = TRAIN_HIGH.test(measure);
  if (!ys.length) return `${name}: no points.`;
  let best = 0;
  ys.forEach((y, at) => { if (high ? y > ys[best] : y < ys[best]) best = at; });
  const from = Math.max(0, Math.floor(ys.length * 0.8)), some = ys.length - from;
  let slope = "";
  if (some > 2) {
    const mean = all => all.reduce((sum, each) => sum + each,
        0) / all.length, x = xs.slice(from), y = line.mean.slice(from), mx = mean(x), my = mean(y);
    const over = x.reduce((sum, each) => sum + (each - mx) ** 2, 0);
    if (over > 0) slope = `; over the last fifth ${num(1000 * x.reduce((sum, each, at) => sum + (each - mx) * (y[at] - my), 0) / over)} per 1,000 ${line.axis}`;
  }
  const lost = line.infinite ? `; ${line.infinite} not finite` : "", of = measure === "rate" ? ""
      : `, ${high ? "highest" : "lowest"} ${num(ys[best])} at ${xs[best]?.toLocaleString("en")}`;
  return `${name}: last ${num(ys.at(-1))} at ${xs.at(-1)?.toLocaleString("en")}${of}${slope}${lost}.`;
}

function trainChooser(app) {
  const chosen = new Set(trainList(app, "runs"));
  const pick = run => {
    chosen.has(run.id) ? chosen.delete(run.id) : chosen.add(run.id);
    app.set({ runs: [...chosen].slice(-TRAIN_SERIES).join(",") });
  };
  for (const run of train.runs) Object.assign(run, { told: element("small"), badge: element("span") });
  trainAbout();
  return train.runs.map(run => element("label", { className: "train-run", title: run.how },
      element("input", { type: "checkbox", checked: chosen.has(run.id), onchange: () => pick(run) }),
    element("span", {}, run.name), run.badge, run.told));
}

function trainAbout() {
  for (const run of train.runs) {
    if (run.steps && run.step >= run.steps) run.state = "finished";
    run.badge.className = `badge train-${run.state}`;
    run.badge.textContent = run.state;
    run.told.textContent = `${run.family}, ${run.task}; step ${(run.step ?? 0).toLocaleString("en")}${run.steps ? ` of ${run.steps.toLocaleString("en")}` : ""}${run.best ? `; best ${run.best.name.replace("valid_", "")} ${num(run.best.value)}` : ""}`;
  }
}

function trainControls(app) {
  const { known, wanted } = trainMeasures(app);
  const toggle = (name, text) => element("button",
      { type: "button", "aria-pressed": String(app.state[name] === "1"), onclick: () =>
      app.set({ [name]: app.state[name] === "1" ? undefined : "1" }) }, text);
  const measure = name => element("button",
      { type: "button", "aria-pressed": String(wanted.includes(name)), onclick: () =>
      app.set({ measures: (wanted.includes(name) ? wanted.filter(each => each !== name) : [...wanted, name]).join(",") }) }, name);
  const smooth = element("input", { type: "range", min: 0, max: 0.99, step: 0.01, value: +app.state.smooth || 0, "aria-label": "Smoothing",
      oninput: event => { app.state.smooth = event.target.value; shown.textContent = event.target.value; trainSoon(app);
      }, onchange: event => app.set({ smooth: event.target.value }) });
  const shown = element("output", {}, String(+app.state.smooth || 0));
  train.controls.replaceChildren(element("span", { role: "group", "aria-label": "Measures", className: "train-measures" },
      known.map(measure)),
    choice("over", TRAIN_AXES, trainAxis(app), value => { train.zoom = null; app.set({ axis: value }); }), toggle("xlog",
        "log x"), toggle("ylog", "log y"),
    element("label", { className: "choice" }, element("span", {}, "smooth"), smooth, shown), train.pause, train.reset);
}

// ---- what was written

function trainSamples(app) {
  const runs = trainChosen(app).filter(run => train.held.get(run.id)?.samples.length);
  const run = runs.find(each => each.id === train.sampled) ?? runs[0];
  train.samples.hidden = !run;
  if (!run) return;
  const samples = train.held.get(run.id).samples, last = samples.length - 1;
  const followed = train.at === undefined || train.at >= train.most;
  if (train.sampled !== run.id || followed) train.at = last;
  train.at = Math.min(train.at, last);
  const key = `${run.id} ${train.at} ${last} ${samples[train.at].step} ${document.documentElement.dataset.theme} ${runs.length}`;
  if (key === train.drawn) return;
  Object.assign(train, { drawn: key, sampled: run.id, most: last });
  train.pick.replaceChildren(...runs.length > 1
      ? [choice("of", runs.map(each => [each.id, each.name]), run.id,
      id => { Object.assign(train, { sampled: id, at: undefined }); trainSamples(app); })] : []);
  Object.assign(train.scrub, { max: last, value: train.at, disabled: !last });
  const sample = samples[train.at];
  train.scrub.setAttribute("aria-valuetext", `step ${sample.step}`);
  train.when.textContent = `step ${sample.step.toLocaleString("en")} (${train.at + 1} of ${last + 1})`;
  train.sample.replaceChildren(element("div", { className: "train-words" },
    sample.picture ? element("img", { className: "train-picture", alt: "The held-out picture",
        src: `data:image/png;base64,${sample.picture}` }) : null,
    run.continues ? element("p", { dir: "auto" }, element("span", { className: "note" }, sample.prompt), element("b", {}, sample.text))
      : [sample.prompt ? element("p", { className: "note", dir: "auto" }, sample.prompt) : null,
          element("p", { dir: "auto" }, element("b", {}, sample.text || "(nothing)"))],
    element("p", { className: "note", dir: "auto" }, `held out: ${sample.reference}`)), sample.map ? trainMap(sample.map)
        : element("p", { className: "note" }, "This family has no map to draw from one pass."));
}

const trainShades = map => Uint8Array.from(atob(map.shades), char => char.charCodeAt(0));

/** The small map: rows are what is predicted from, columns what is read. Of a picture, one small picture a word. */
function trainMap(map) {
  const shades = trainShades(map), [rows, columns] = map.shape, cell = (at, props) =>
      drawn("rect", { ...props, fill: css(colourOf(shades[at] / 255)) });
  const told = `A map of ${rows} rows and ${columns} columns, ${map.kind === "kernel" ? "the size of the kernel beside its largest" : "weights"}, the mean over heads.`;
  if (map.grid) {
    const [high, wide] = map.grid;
    return element("figure", { className: "train-patches" }, map.rows.map((word, row) => {
      const picture = drawn("svg", { viewBox: `0 0 ${wide} ${high}`, width: 66, height: 66, role: "img",
          "aria-label": `Patches read for ${label(word)}` });
      for (let at = 0; at < columns; at++) picture.append(cell(row * columns + at,
          { x: at % wide, y: Math.floor(at / wide), width: 1.02, height: 1.02 }));
      return element("div", {}, picture, element("span", {}, label(word)));
    }));
  }
  const size = rows > 24 || columns > 24 ? 11 : 17, left = 96, top = 84, short = piece => { const text = label(piece);
      return text.length > 12 ? `${text.slice(0, 11)}…` : text; };
  const svg = drawn("svg", { width: left + columns * size + 60, height: top + rows * size + 4, role: "img", "aria-label": told,
      class: "train-map" });
  for (let at = 0; at < rows * columns; at++) svg.append(cell(at,
      { x: left + at % columns * size, y: top + Math.floor(at / columns) * size, width: size, height: size }));
  map.rows.forEach((piece, at) =>
      svg.append(drawn("text", { x: left - 5, y: top + (at + 0.75) * size, "text-anchor": "end" }, short(piece))));
  map.columns.forEach((piece, at) =>
      svg.append(drawn("text", { transform: `translate(${left + (at + 0.75) * size} ${top - 5}) rotate(-55)` }, short(piece))));
  return element("figure", {}, svg, element("figcaption", { className: "note" },
      `${map.kind === "kernel" ? "size of the last layer's kernel, mean over groups" : "weights of the last layer, mean over heads"}; what was held out is given`));
}

function trainScrub(app, by) {
  train.at = clamp((train.at ?? 0) + by, 0, train.most ?? 0);
  if (by < 0) train.at = Math.min(train.at, Math.max(0, train.most - 1));
  trainSamples(app);
}

// ---- pointer and table

function trainDrag(app) {
  const canvas = train.canvas, span = train.span;
  const value = event => {
    const { plot } = train, share = clamp((event.clientX - canvas.getBoundingClientRect().left - plot.left) / plot.width, 0, 1);
    return plot.xlog ? plot.x0 * (plot.x1 / plot.x0) ** share : plot.x0 + share * (plot.x1 - plot.x0);
  };
  let began = null;
  canvas.onpointerdown = event => {
    if (train.plot?.x0 === undefined || event.button) return;
    began = { x: event.offsetX, value: value(event) };
    canvas.setPointerCapture(event.pointerId);
  };
  canvas.onpointermove = event => {
    if (!began) return;
    span.hidden = false;
    span.style.setProperty("left", `${Math.min(began.x, event.offsetX)}px`);
    span.style.setProperty("width", `${Math.abs(event.offsetX - began.x)}px`);
  };
  canvas.onpointerup = event => {
    if (began && Math.abs(event.offsetX - began.x) > 5) trainZoom(app, [began.value, value(event)].sort((a, b) => a - b));
    began = null;
    span.hidden = true;
  };
  canvas.onpointercancel = () => { began = null; span.hidden = true; };
  canvas.ondblclick = () => trainZoom(app, null);
}

/** Zoom and move by keys: `by` is a share of what is seen, `times` how much of it is seen afterwards. */
function trainMove(app, by, times = 1) {
  const { plot } = train;
  if (plot?.x0 === undefined) return;
  const wide = plot.x1 - plot.x0, middle = plot.x0 + wide / 2 + by * wide;
  trainZoom(app, [middle - times * wide / 2, middle + times * wide / 2]);
}

function trainTable(app) {
  const axis = trainAxis(app), lines = trainLines(app).filter(line => line.measure.startsWith("valid_") || line.ys.length <= 40);
  const rows = lines.flatMap(line => line.ys.map((y, at) => [line.name, line.xs[at], y]).slice(-40));
  train.table.replaceChildren(element("table", {}, element("thead", {},
      element("tr", {}, ["curve", axis, "value"].map((name, at) => element("th", { scope: "col", className: at ? "number" : "" }, name)))),
    element("tbody", {}, rows.map(([name, x, y]) =>
        element("tr", {}, element("td", {}, name), element("td", { className: "number" }, x?.toLocaleString("en") ?? ""),
        element("td", { className: "number" }, num(y, 4)))))));
}

async function trainShow(app) {
  try {
    await trainHold(app);
    if (!train.root) return;
    train.list.replaceChildren(...trainChooser(app));
    trainControls(app);
    trainSoon(app);
    if (train.more.open) trainTable(app);
  } catch (error) {
    app.fail(error);
  }
}

async function trainBegin(app) {
  try {
    await trainFind(app);
    if (!train.runs.length) return train.root.replaceChildren(element("p", {},
        "No run was found here. Train one with `regard train`, or give a folder of runs with `regard serve --runs DIR`."));
    await trainShow(app);
  } catch (error) {
    app.fail(error);
  }
}

export const tab = {
  name: "train", title: "Train",
  open(root, app) {
    Object.assign(train, { root, zoom: null, paused: null, waiting: 0, drawn: "", at: undefined });
    const button = (text, act) => element("button", { type: "button", onclick: act }, text);
    train.list = element("div", { className: "train-list", role: "group", "aria-label": "Runs" });
    train.controls = element("div", { className: "bar" });
    train.canvas = element("canvas", { id: "train-canvas", className: "train-canvas", tabIndex: 0, role: "img" });
    train.span = element("div", { className: "train-span", hidden: true });
    train.summary = element("ul", { className: "train-summary", "aria-label": "The curves in words" });
    train.note = element("p", { className: "note" });
    train.pause = button("Pause", () => {
      train.waiting = 0;
      train.paused = train.paused ? null
          : new Map([...train.held.values()].flatMap(held => [held.series, held.detail?.series].filter(Boolean)).flatMap(all =>
          Object.values(all)).map(series => [series, series.value.length]));
      trainSoon(app);
    });
    train.reset = button("Whole", () => trainZoom(app, null));
    train.table = element("div", { className: "scroll" });
    train.more = element("details", { ontoggle: () => train.more.open && trainTable(app) }, element("summary", {}, "Table"), train.table);
    train.pick = element("span");
    train.scrub = element("input", { type: "range", min: 0, max: 0, step: 1, className: "train-scrub", id: "train-scrub",
        "aria-label": "Which sample", oninput: event => { train.at = +event.target.value; trainSamples(app); } });
    train.when = element("output", { id: "train-when" });
    train.sample = element("div", { className: "train-sample" });
    train.samples = element("section", { "aria-label": "What it writes", hidden: true }, element("h2", {}, "What it writes, as it learns"),
        element("div", { className: "bar" }, train.pick, train.scrub, train.when), train.sample);
    root.append(element("div", { className: "train-both" },
        element("section", { "aria-label": "Runs" }, element("h2", {}, "Runs"), train.list,
        button("Look for new ones", () => trainBegin(app))),
      element("section", { "aria-label": "Curves" }, train.controls,
          element("div", { className: "train-frame" }, train.canvas, train.span), train.summary, train.note, train.more)), train.samples);
    trainDrag(app);
    train.sized = new ResizeObserver(() => trainSoon(app));
    train.sized.observe(train.canvas);
    trainBegin(app);
  },
  update(app, changed) {
    if (changed.includes("theme")) return trainSoon(app);
    if (changed.some(name => ["runs", "measures", "axis", "xlog", "ylog", "smooth"].includes(name))) trainShow(app);
  },
  close() {
    for (const held of train.held.values()) held.source?.close();
    train.held.clear();
    train.sized?.disconnect();
    cancelAnimationFrame(train.frame);
    Object.assign(train, { root: null, frame: 0 });
  },
  keys: {
    "+": ["see less of the curves, larger", (event, app) => trainMove(app, 0, 0.5)],
    "-": ["see more of the curves", (event, app) => trainMove(app, 0, 2)],
    0: ["see all of the curves", (event, app) => trainZoom(app, null)],
    ArrowLeft: ["move to the left", (event, app) => trainMove(app, -0.2)],
    ArrowRight: ["move to the right", (event, app) => trainMove(app, 0.2)],
    "[": ["the sample before", (event, app) => trainScrub(app, -1)],
    "]": ["the next sample", (event, app) => trainScrub(app, 1)],
    p: ["pause, or go on", () => train.pause.click()],
  },
};
