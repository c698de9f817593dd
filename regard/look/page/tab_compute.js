// Compute: the arithmetic of the selected cell, step by step, with the model's own numbers; done again here.
import { choice, clamp, element, label, quietly, quoted, upTo } from "./dom.js";
import { Refused } from "./api.js";
import { strangeTrack, trackIn } from "./read_view.js";
import { redo } from "./compute_redo.js";
import { computeFigure, computeLine, computeRows, computeScalar, computeStrip, computeTable, computeTiny } from "./compute_show.js";
import { computeBars, computeScores } from "./compute_edit.js";
import { workedHeading, workedLines } from "./compute_worked.js";

const COMPUTE_OWN = "";                  // no preset: the model's own numbers
const COMPUTE_LONG = 400;                // of more rows or columns, a number is typed

let computing;                           // what is open: elements, the cell, the sheet and what was found; or a worked example

function openCompute(root, app) {
  const parts = { controls: element("div", { className: "bar" }), heading: element("div", { className: "compute-heading" }),
      steps: element("nav", { className: "compute-steps", "aria-label": "Steps" }), step: element("section",
      { className: "compute-step" }), edit: element("section", { className: "compute-edit",
      "aria-label": "Edited scores" }), empty: element("p", { className: "note" }, "Working it out…") };
  root.append(parts.controls, parts.heading, parts.empty, parts.steps, parts.step, parts.edit);
  computing = { app, root, ...parts };
  computeLoad();
}

function closeCompute() {
  computing.asked?.abort();
  computing = undefined;
}

function updateCompute(app, changed) {
  if (!computing) return;
  if (changed.every(name => name === "step" || name === "theme") && (computing.sheet || computing.told)) return computeDraw();
  computeLoad();
}

// ---- loading

async function computeLoad() {
  const own = computing, { app } = own;
  own.asked?.abort();
  own.asked = new AbortController();
  const { signal } = own.asked, stale = () => own !== computing || signal.aborted;
  own.root.classList.add("busy");
  try {
    if (!own.presets) Object.assign(own, await app.api.get("/api/presets"));
    const made = app.state.preset ? await computePreset(own, signal) : await computeOwn(own, signal);
    if (stale()) return;
    const { sheet, told, about, look } = made;
    Object.assign(own, made, { sheet, told, about, look, scores: undefined, next: sheet?.next }, sheet && redo(sheet));
    own.empty.hidden = true;
    computeDraw();
    own.root.dataset.ready = computeKey(own);
  } catch (error) {
    if (stale()) return;
    for (const part of [own.heading, own.steps, own.step, own.edit]) part.replaceChildren();
    own.sheet = own.told = undefined;
    own.empty.textContent = error.message;
    own.empty.hidden = false;
    app.fail(error);
  } finally {
    if (own === computing && !signal.aborted) own.root.classList.remove("busy");
  }
}

const computeKey = ({ app, cell }) => app.state.preset ?? `${cell.track} ${cell.layer} ${cell.head} ${cell.row} ${cell.column}`;

async function computePreset({ app, presets, worked }, signal) {
  const { preset } = app.state;
  if (worked.some(each => each.name === preset)) return { told: await app.api.get(`/api/presets/${preset}/lines`, signal), cell: {} };
  const about = presets.find(each => each.name === preset);
  if (!about) throw new Refused(404, { message: `there is no example ${preset}: the Lab tab lists them` });
  const column = clamp(app.state.column ?? 0, 0, about.columns.length - 1), base = about.bases.length ? app.state.base ?? about.base
      : undefined;
  const sheet = await app.api.get(`/api/presets/${about.name}?column=${column}${base ? `&base=${base}` : ""}`, signal);
  return { sheet, about, base, cell: { column } };
}

async function computeOwn({ app }, signal) {
  const look = await app.look();
  if (!look.tracks.length) throw new Error("there is nothing to work out for this model: it reads by no map");
  app.note("track", strangeTrack(look, app.state));
  const cell = await computeCellOf(app, look, signal);
  const sheet = await computeAsk(app, look, cell, signal);
  sheet.names.columns = computeNames(look, look.tracks.find(each => each.name === cell.track).columns, sheet.names.columns);
  return { sheet, look, cell };
}

/** Names of patches are words of ours, in which a space needs no mark. */
const computeNames = (look, side, names = look.sides[side].tokens.map(each => each[1])) => look.sides[side].patches
    ? names.map(name => name.replaceAll(" ", "\u00a0")) : names;

/** The selected cell; where nothing is selected, the last row and what it reads most. */
async function computeCellOf(app, look, signal) {
  const { state } = app, track = trackIn(look, state), [layers, heads, rows, columns] = track.shape;
  const whole = (value, most) => clamp(Number.isInteger(+value) && +value > 0 ? +value : 1, 1, most);
  const cell = { track: track.name, layer: whole(state.layer, layers), head: whole(state.head, heads),
      row: clamp(state.row ?? rows - 1, 0, rows - 1) };
  cell.column = state.column === undefined ? await computeMost(app, look, track, cell, signal) : clamp(state.column, 0, columns - 1);
  return state.channel === undefined || track.kind !== "kernel" ? cell : { ...cell, channel: state.channel };
}

async function computeMost(app, look, track, { layer, head, row }, signal) {
  if (track.lazy) return Math.min(row, track.shape[3] - 1);
  const [{ data, shape }] = Object.values((await app.numbers(look, `${track.name}/row?row=${row}`, signal)).arrays);
  const own = data.subarray(((layer - 1) * shape[1] + head - 1) * shape[2]).subarray(0, shape[2]);
  return own.reduce((best, value, at) => Math.abs(value) > Math.abs(own[best]) ? at : best, 0);
}

/** Asks for a cell; a look that the server no longer holds is asked for first. */
async function computeAsk(app, look, cell, signal, scores) {
  const body = { look: look.id, ...cell, ...(scores ? { scores } : {}) };
  try {
    return await app.api.post("/api/compute", body, signal);
  } catch (error) {
    if (error.code === "look_gone") {
      await app.api.post("/api/look", look.request ?? app.request(), signal);
      return app.api.post("/api/compute", body, signal);
    }
    if (cell.channel === undefined || error.status !== 400) throw error;
    return computeAsk(app, look, { ...cell, channel: undefined }, signal, scores);     // of another group
  }
}

// ---- drawing

function computeDraw() {
  const own = computing;
  const focused = own.root.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
  own.controls.replaceChildren(...computeControls(own));
  own.heading.replaceChildren(...computeHeading(own));
  own.steps.replaceChildren(...own.sheet ? computeSteps(own) : []);
  own.step.replaceChildren(...own.sheet ? computeStep(own) : workedLines(own.told));
  computeDrawEdit(own);
  if (focused) [...own.root.querySelectorAll("[aria-label]")].find(each => each.getAttribute("aria-label") === focused)?.focus();
}

const computeAt = ({ app, sheet }) => clamp(app.state.step ?? 0, 0, sheet.steps.length - 1);

function computeSteps(own) {
  const { sheet, app } = own, at = computeAt(own);
  return [
    element("button", { type: "button", "aria-label": "Previous step", disabled: at === 0, onclick: () => computeGo(-1) }, "‹"),
    element("ol", {}, sheet.steps.map((step, index) => element("li", {},
        element("button", { type: "button", "aria-label": `Step ${index + 1}: ${step.title}`, "aria-current": index === at ? "step"
        : undefined, onclick: () => app.set({ step: index }) }, element("b", {}, String(index + 1)), step.title)))),
    element("button", { type: "button", "aria-label": "Next step", disabled: at === sheet.steps.length - 1, onclick: () => computeGo(1) },
        "›"),
  ];
}

function computeGo(by) {
  const { app, sheet } = computing;
  if (!sheet) return;
  const at = clamp((app.state.step ?? 0) + by, 0, sheet.steps.length - 1);
  app.set({ step: at });
  app.say(`Step ${at + 1} of ${sheet.steps.length}: ${sheet.steps[at].title}`);
}

const computeOpen = (app, preset) => app.set({ preset, step: undefined, base: undefined, row: undefined, column: undefined });

function computeControls({ app, presets, worked, about, told, base, look, cell, sheet }) {
  const pick = change => app.set(change), group = (label, all) =>
      element("optgroup", { label }, all.map(each => new Option(each.title, each.name)));
  const numbers = [[COMPUTE_OWN, "this model"], group("Rows of attention", presets), group("Worked examples, line by line", worked)];
  const first = choice("Numbers of", numbers, (about ?? told)?.name ?? COMPUTE_OWN, name => computeOpen(app, name || undefined));
  if (told) return [first];
  const column = (names, most) => computePlace("Column", names, cell.column, most, value => pick({ column: value }));
  if (about) {
    const bases = about.bases.length && choice("Base of the powers", about.bases, base, value => pick({ base: value }));
    return [first, column(about.columns, about.columns.length), bases].filter(Boolean);
  }
  const track = look.tracks.find(each => each.name === cell.track), [layers, heads, rows, columns] = track.shape;
  const named = (names, count, word) => upTo(count).map(at => [at + 1, names?.[at] || `${word} ${at + 1}`]);
  const row = track.row_label === "writes" ? look.said.map(each => each.piece) : computeNames(look, track.rows);
  return [first, choice("Map", look.tracks.map(each => [each.name, each.name]), track.name, value =>
      pick({ track: value, layer: undefined, head: undefined, row: undefined, column: undefined, step: undefined, channel: undefined })),
    layers > 1 && choice("Layer", named(track.layer_names, layers, "layer"), cell.layer, value => pick({ layer: value })),
    heads > 1 && choice(track.kind === "kernel" ? "Group" : "Head", named(track.head_names, heads, "head"), cell.head, value =>
        pick({ head: value, channel: undefined })),
    sheet.channels && choice("Channel", upTo(sheet.channels[1] - sheet.channels[0] + 1).map(at => sheet.channels[0] + at), sheet.channel,
        value => pick({ channel: +value })),
    computePlace("Row", row, cell.row, rows, value => pick({ row: value })), column(computeNames(look, track.columns),
        columns)].filter(Boolean);
}

function computePlace(word, names, value, count, pick) {
  if (count <= COMPUTE_LONG) return choice(word, upTo(count).map(at => [at, `${at} ${label(names[at] ?? "")}`]), value, text =>
      pick(+text));
  const input = element("input", { type: "number", min: 0, max: count - 1, value, "aria-label": word, onchange: event =>
      pick(clamp(Math.round(+event.target.value), 0, count - 1)) });
  return element("label", { className: "choice" }, element("span", {}, word), input, element("bdi", {}, label(names[value] ?? "")));
}

const computeOthers = (app, how, all) => element("div", { className: "bar compute-more" },
    all.map(({ name, title }) => element("button", { type: "button", onclick: () => computeOpen(app, name) }, `${how}: ${title}`)));

function computeHeading(own) {
  const { app, about, told, worked, presets, look, cell, sheet, difference } = own;
  if (told) return workedHeading(told, computeOthers(app, "Step by step", presets.filter(each => told.presets.includes(each.name))));
  const said = element("p", { className: "compute-difference", role: "note" },
      `largest difference from ${about ? "the exact numbers" : sheet.kind === "back-off" ? "the model" : "PyTorch"}: `, element("output",
      { id: "compute-difference" }, computeTiny(difference)));
  if (about) return [element("h2", {}, about.title), element("p", { className: "note" }, about.about), said,
      computeOthers(app, "All lines", worked.filter(each => each.presets.includes(about.name)))];
  const track = look.tracks.find(each =>
      each.name === cell.track), column = `column ${cell.column} ${quoted(sheet.names.columns[cell.column])}`;
  const row = track.row_label === "writes" ? `writes ${quoted(look.said[cell.row].piece)}: `
      : `${quoted(computeNames(look, track.rows)[cell.row])} reads `;
  const where = [track.shape[0] > 1 && track.layer_names[cell.layer - 1], track.shape[1] > 1
      && track.head_names[cell.head - 1]].filter(Boolean).join(", ");
  return [element("h2", {}, `Row ${cell.row} ${row}${column}`, where && element("small", {}, ` ${where}`)),
    element("span", { className: "badge" }, `${track.badge}${sheet.kind === "attention" ? ` · ${sheet.about}` : ""}`), said];
}

const computeIsTable = quantity => ["columns", "orders"].includes(quantity.over) && quantity.shape.length === 1;

function computeStep(own) {
  const { app, sheet, found, cell, look } = own, number = computeAt(own), step = sheet.steps[number];
  const shown = step.shows.map(name => found[name]), parts = [];
  const pick = column => app.set({ column });
  for (const quantity of shown) {
    if (computeIsTable(quantity)) continue;
    if (!quantity.shape.length) parts.push(computeScalar(quantity, computeLine(quantity, found, 0)));
    else if (quantity.shape.length === 1) parts.push(computeStrip(quantity, sheet.names[quantity.over]));
    else if (quantity.over === "columns") parts.push(computeRows(quantity, sheet.names.columns, cell.column, look || app.state.preset
        ? pick : undefined));
  }
  for (const over of ["columns", "orders"]) {
    const columns = shown.filter(quantity => computeIsTable(quantity) && quantity.over === over);
    if (!columns.length) continue;
    const selected = over === "columns" ? cell.column : -1, line = over === "columns" && computeSelected(columns, found, cell.column);
    parts.push(computeTable(columns, sheet.names[over], selected, over === "columns" ? pick : undefined, over === "columns" ? "column"
        : "order and context"));
    if (line) parts.push(line);
  }
  return [element("h3", {}, `${number + 1}. ${step.title}`), element("p", { className: "formula" }, step.formula),
      element("p", {}, step.about), ...parts];
}

/** The arithmetic of the selected column, written out. */
function computeSelected(quantities, found, at) {
  const lines = quantities.map(quantity => [quantity, computeLine(quantity, found, at)]).filter(([quantity, line]) => line
      && found[quantity.of[0]].over === "columns");
  return lines.length && element("div", { className: "vector" },
      element("p", { className: "quantity" }, element("b", {}, `Column ${at}`), "with its numbers"),
    element("ul", { className: "lines" }, lines.map(([quantity, line]) =>
        element("li", {}, `${line} = `, element("output", {}, computeFigure(quantity.data[at])),
        element("small", {}, ` ${quantity.symbol}`)))));
}

// ---- edited scores

function computeDrawEdit(own) {
  if (!own.next) return own.edit.replaceChildren();
  const reset = element("button", { type: "button", disabled: !own.scores, onclick: () => computeEdit(undefined) }, "Reset");
  own.bars = element("div", { "aria-live": "polite" }, computeBars(own.next));
  own.edit.replaceChildren(element("div", { className: "bar" }, element("h3", {}, "What if it read otherwise?"), reset),
    element("div", { className: "compute-halves" }, computeScores(own.found, own.sheet.names.columns, own.cell.column, own.scores,
        computeEdit), own.bars));
}

function computeEdit(scores) {
  const own = computing;
  own.scores = scores;
  const focused = document.activeElement?.getAttribute("aria-label"), place = own.edit.querySelector(".table")?.scrollTop;
  if (!scores) own.next = own.sheet.next;
  if (document.activeElement?.type === "range" && scores) computeShares(own, scores);
  else {
    computeDrawEdit(own);
    own.edit.querySelector(".table").scrollTop = place;
    [...own.edit.querySelectorAll("[aria-label]")].find(each => each.getAttribute("aria-label") === focused)?.focus();
  }
  computeRerun(own);
}

/** While a slider is held it must stay where it is: only the numbers beside it change. */
function computeShares(own, scores) {
  const fresh = computeScores(own.found, own.sheet.names.columns, own.cell.column, scores, computeEdit).querySelectorAll("tbody tr");
  own.edit.querySelectorAll(".compute-halves > .table tbody tr").forEach((row, at) => {
    row.className = fresh[at].className;
    row.lastElementChild.textContent = fresh[at].lastElementChild.textContent;
    const typed = row.querySelector("[type=number]");
    if (typed) typed.value = fresh[at].querySelector("[type=number]").value;
  });
  own.edit.querySelector(".bar button").disabled = false;
}

const computeRerun = quietly(200, async own => {
  if (own !== computing || !own.scores) return;
  const { scores, app } = own;
  try {
    const { next } = await computeAsk(app, own.look, own.cell, own.asked.signal, scores);
    if (own !== computing || own.scores !== scores) return;
    own.next = next;
    own.bars.replaceChildren(computeBars(next));
    own.edit.dataset.moved = String(next.moved);
  } catch (error) {
    if (own === computing) app.fail(error);
  }
});

// ---- keys

/** Moves at once, so that keys may come quicker than answers. */
function computeTo(change) {
  Object.assign(computing.cell, change);
  computing.app.set(change);
}

function computeMove(by) {
  const { cell, sheet } = computing;
  if (sheet) computeTo({ column: clamp(cell.column + by, 0, sheet.names.columns.length - 1) });
}

/** To another layer, head or row. */
function computeTurn(name, by) {
  const { cell, look } = computing, track = look?.tracks.find(each => each.name === cell.track), first = name === "row" ? 0 : 1;
  if (track) computeTo({ [name]: clamp(cell[name] + by, first, track.shape[["layer", "head", "row"].indexOf(name)] - 1 + first),
      channel: undefined });
}

const computeUpDown = by => event => event.shiftKey ? computeTurn("row", by) : computeMove(by);

export const tab = {
  name: "compute", title: "Compute",
  open: openCompute, update: updateCompute, close: closeCompute,
  keys: {
    ArrowRight: ["next step", () => computeGo(1)], ArrowLeft: ["previous step", () => computeGo(-1)],
    ArrowDown: ["next column; with Shift, next row", computeUpDown(1)], ArrowUp: ["previous column; with Shift, previous row",
        computeUpDown(-1)],
    "]": ["next layer", () => computeTurn("layer", 1)], "[": ["previous layer", () => computeTurn("layer", -1)],
    ".": ["next head", () => computeTurn("head", 1)], ",": ["previous head", () => computeTurn("head", -1)],
  },
};
