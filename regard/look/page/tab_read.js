// Read: the reading map. Row = position being computed, column = position read, colour = amount.
import { $, element, clamp, quietly } from "./dom.js";
import { DETAILED, askRow, exactRow, fillView, headPicks, layerPicks, lineAt, strangeTrack, viewOf } from "./read_view.js";
import { blobOf, download, fileName, saveCSV, saveHTML, savePNG, saveSVG } from "./read_share.js";
import { atlasControls, badgeLine, inputControls, ribbonControls, viewControls } from "./read_controls.js";
import { cellSentence, rowTable } from "./read_row.js";
import { fittedFrame, makeMatrix, wholeFrame } from "./read_matrix.js";
import { makeAtlas } from "./read_atlas.js";
import { makeMinimap } from "./read_minimap.js";
import { makePicture } from "./read_picture.js";
import { makeRibbons } from "./read_ribbons.js";
import { makeRunningText } from "./read_text.js";

const PACE = 700;                         // milliseconds a row is shown while playing
const ONLY_MARKS = new Set(["row", "column"]);

let reading;                              // what is open: elements, the view, what is pointed at

function openRead(root, app) {
  const told = {
    point: (row, column) => pointAt(typeof row === "object" ? placesOf(row) : { row, column }),
    leave: () => pointAt(undefined),
    pick: (row, column) => pickAt(typeof row === "object" ? placesOf(row) : { row, column }),
    zoom: frame => reframe(fittedFrame(reading.view, frame)),
    reset: () => reframe(undefined),
    open: (layer, head) => app.set({ layer: String(layer), head: String(head) }),
    layer: () => reading.view?.layer, head: () => reading.view?.head,
  };
  const bar = (...more) => element("div", { className: "bar", ...Object.assign({}, ...more) });
  const parts = {
    controls: bar(), inputs: bar(), badge: element("div"), line: element("p",
        { className: "read-line" }), atlasBar: bar(), ribbonBar: bar(),
    table: element("div",
        { className: "read-table" }), texts: element("div"), matrix: makeMatrix(told), minimap: makeMinimap(told), atlas: makeAtlas(told), ribbons: makeRibbons(told), picture: makePicture(told),
  };
  parts.atlasBox = element("details", { className: "read-atlas-box", open: true }, element("summary", {}, "Atlas"), parts.atlasBar,
      parts.atlas.node);
  parts.gridBox = element("div", { className: "read-scroll" }, parts.matrix.node);
  parts.map = element("section", { className: "read-map", "aria-label": "Map" }, parts.line, parts.gridBox, parts.ribbonBar,
      parts.ribbons.node);
  parts.body = element("div", { className: "read-body" }, element("div", { className: "read-main" }, parts.atlasBox, parts.picture.node,
      parts.map, element("aside", { className: "read-aside", "aria-label": "The row" }, parts.minimap.node, parts.table)), parts.texts);
  parts.empty = element("p", { className: "note read-empty" }, "Reading…");
  root.append(parts.controls, parts.inputs, parts.badge, parts.empty, parts.body);
  parts.body.hidden = true;
  reading = { app, root, told, ...parts,
      resize: new ResizeObserver(quietly(80, () => reading?.view && room() !== reading.roomNow && drawAll())) };
  reading.resize.observe(root);
  loadView();
}

function closeRead() {
  clearInterval(reading.playing);
  reading.asked?.abort();
  reading.resize.disconnect();
  reading = undefined;
}

function updateRead(app, changed) {
  if (!reading) return;
  if (changed.every(name => ONLY_MARKS.has(name))) return reading.view && markAll();
  if (changed.includes("theme") && changed.length === 1) return reading.view && drawAll();
  if (changed.every(name => name === "mass" || name === "heat") && reading.view) return drawAll();
  if (changed.every(name => name === "sort" || name === "pool") && reading.view) {
    refreshControls(reading.view);
    return askAtlas(reading.view).then(drawAtlas).catch(app.fail);
  }
  loadView();
}

// ---- loading

async function loadView() {
  const own = reading, { app } = own;
  own.asked?.abort();
  const { signal } = own.asked = new AbortController(), stale = () => own !== reading || signal.aborted;
  own.root.classList.add("busy");
  try {
    const look = await app.look();
    if (stale()) return;
    if (!look.tracks.length) throw new Error("there is nothing to show of this model: it reads by no map");
    const view = viewOf(look, app.state);
    app.note("track", strangeTrack(look, app.state));
    if (view.track.lazy) own.empty.textContent = own.line.textContent = "Working it out…";
    refreshControls(view);
    const atlas = askAtlas(view);                                // meanwhile
    atlas.catch(() => undefined);                                // if the rest fails first, nobody waits for it
    await fillView(app, view, signal);
    if (view.picture) await own.picture.load(view, app.api.picture(look));
    if (stale()) return;
    const fresh = own.view?.look !== look || own.view.track !== view.track;
    Object.assign(own, { view, hover: undefined });
    if (fresh) startText(view);
    own.empty.hidden = true;
    own.body.hidden = false;
    layOut(view);
    own.frame = frameFrom(view, app.state.frame);
    refreshControls(view);
    drawAll();
    own.root.dataset.map = look.id;                        // from here on it can be used; the atlas may take longer
    await drawAtlas(await atlas);
    own.root.dataset.ready = `${look.id} ${view.track.name} ${view.layer} ${view.head}`;
  } catch (error) {
    if (stale() || error.name === "AbortError") return;
    own.empty.textContent = error.message;
    own.empty.hidden = false;
    own.body.hidden = true;
    own.view = undefined;
    app.fail(error);
  } finally {
    if (own === reading && !signal.aborted) own.root.classList.remove("busy");
  }
}

function refreshControls(view) {
  const { app } = reading, key = reading.root.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  const fill = (node, children) => node.replaceChildren(...children.filter(Boolean));
  fill(reading.controls, viewControls(app, view));
  fill(reading.inputs, inputControls(app, view));
  fill(reading.badge, badgeLine(view));
  fill(reading.atlasBar, atlasControls(app, view.track));
  fill(reading.ribbonBar, ribbonControls(app, view));
  if (key) reading.root.querySelector(`[data-key="${key}"]`)?.focus();
}

function startText(view) {
  reading.atlasOf = undefined;
  reading.text = makeRunningText(view.look, view.track, reading.told);
  reading.texts.replaceChildren(reading.text.node);
}

function frameFrom(view, text) {
  const [top, left, tall, wide] = (text ?? "").split(",").map(Number);
  if (wide > 0 && tall > 0) return fittedFrame(view, { top, left, tall, wide });
  const whole = wholeFrame(view, room()), { row, column = view.track.rows === view.track.columns ? row : undefined } = reading.app.state;
      // around what is selected
  const centred = (lines, shown, token, size) => token === undefined ? 0 : shown.indexOf(lineAt(lines, token)) - size / 2;
  return fittedFrame(view, { ...whole, top: centred(view.all.rows, view.rows, row, whole.tall),
      left: centred(view.all.columns, view.columns, column, whole.wide) });
}

// ---- drawing

function room() {
  const { gridBox, root } = reading;
  return Math.max(280, Math.floor((gridBox.clientWidth || root.clientWidth) - 4));
}

const isLong = view => Math.max(view.rows.length, view.columns.length) > DETAILED;

/** Which parts there are: how much room the map has depends on it. */
function layOut(view) {
  reading.map.hidden = !view.bytes || !view.rows.length || !view.columns.length;
  reading.minimap.node.hidden = !isLong(view) || !view.bytes;
  reading.picture.node.hidden = !view.picture;
  reading.atlasBox.hidden = view.track.layers * view.track.heads < 2;
}

function drawAll() {
  const own = reading, { view, frame } = own;
  layOut(view);
  own.roomNow = room();
  if (!own.map.hidden) {
    own.matrix.draw(view, frame, own.roomNow);
    if (isLong(view)) own.minimap.draw(view, frame);
  }
  if (!own.atlasBox.hidden && own.atlasOf) own.atlas.paint();
  own.drawnRow = undefined;
  markAll();
}

/** The thumbnails of a view's track, unless they are drawn already or there is but one; a lazy track is worked out first. */
async function askAtlas(view) {
  const { app, asked } = reading, pool = app.state.pool === "sum" ? "sum" : "max", key = `${view.look.id} ${view.track.name} ${pool}`;
  if (view.track.layers * view.track.heads < 2 || view.track.row_by_row) return undefined;
  if (reading.thumbs?.key === key) return reading.thumbs;
  const { arrays } = await app.numbers(view.look, `${encodeURIComponent(view.track.name)}/atlas?size=64&pool=${pool}`, asked.signal);
  const [{ data, shape }] = Object.values(arrays);
  return { key, data, shape: shape.slice(-2) };
}

function drawAtlas(thumbs) {
  const own = reading, { app, view } = own ?? {}, key = `${thumbs?.key} ${app?.state.sort}`;
  if (!thumbs || !view || !thumbs.key.startsWith(`${view.look.id} ${view.track.name} `)) return;
  own.thumbs = thumbs;
  if (own.atlasOf !== key) own.atlas.draw(view.track, app.state.sort, thumbs.data, thumbs.shape);
  else own.atlas.paint();
  own.root.dataset.atlas = own.atlasOf = key;
}

const placesOf = ({ row, column }) => ({ row: lineAt(reading.view.all.rows, row), column: lineAt(reading.view.all.columns, column) });
const pinnedNow = () => placesOf(reading.app.state);

/** The row that everything tells of: pointed at, else pinned, else the last. */
function rowNow() {
  const { view, hover } = reading, pinned = pinnedNow();
  return hover?.row ?? (view.rows.includes(pinned.row) ? pinned.row : view.rows.at(-1));
}

function pointAt(place) {
  const own = reading;
  if (!own?.view || own.hover?.row === place?.row && own.hover?.column === place?.column && own.hover) return;
  own.hover = place;
  own.waiting ??= requestAnimationFrame(() => {
    own.waiting = undefined;
    if (own === reading && own.view) markAll();
  });
}

function pickAt({ row, column }) {
  const { app, view } = reading, pinned = pinnedNow();
  const same = pinned.row === row && pinned.column === column && row !== undefined;
  const token = (lines, place, now) => same ? undefined : place === undefined ? now : lines[place].tokens[0];
  app.set({ row: token(view.all.rows, row, app.state.row), column: token(view.all.columns, column, app.state.column) });
}

/** Marks, the sentence, the table, tints: whatever follows what is pointed at. */
function markAll() {
  const own = reading, { view, hover, app } = own, pinned = pinnedNow(), row = rowNow(), column = hover ? hover.column : pinned.column;
  if (row === undefined) return;
  const values = exactRow(view, row);
  if (!values) askLater(row);
  if (!own.map.hidden) own.matrix.mark(hover, pinned);
  own.line.textContent = cellSentence(view, row, column, values);
  if (own.speaks) app.say(own.line.textContent);
  own.speaks = own.speaks && !values;
  if (view.picture) own.picture.paint(row, values, app.state.heat === "1", column);
  const key = `${row} ${Boolean(hover || pinned.row !== undefined)}`;
  if (own.drawnRow === key && own.drawnValues === values) return;
  [own.drawnRow, own.drawnValues] = [key, values];
  own.table.replaceChildren(...rowTable(view, row, values, own.told.pick));
  own.ribbons.draw(view, (app.state.mass ?? 90) / 100, row, own.roomNow, hover || pinned.row !== undefined);
  own.text.tint(view, values, view.all.rows[row]);
}

const askLater = quietly(40, row => {
  const own = reading;
  if (!own?.view || rowNow() !== row) return;
  askRow(own.app, own.view, row, own.asked.signal).then(() => own === reading && own.view && rowNow() === row
      && markAll()).catch(own.app.fail);
});

// ---- moving

function reframe(frame) {
  const { app, view } = reading;
  reading.frame = frame ?? wholeFrame(view, room());
  app.state.frame = frame ? [frame.top, frame.left, frame.tall, frame.wide].join(",") : undefined;
  app.set({});
  drawAll();
}

function moveBy(down, across, event) {
  const { view, app } = reading;
  if (!view) return;
  const by = event?.shiftKey ? 10 : 1, pinned = pinnedNow();
  const next = (shown, place, step, first) => shown[place === undefined || !shown.includes(place) ? first
      : clamp(shown.indexOf(place) + by * step, 0, shown.length - 1)];
  const row = next(view.rows, pinned.row, down, view.rows.length - 1), column = next(view.columns, pinned.column, across, 0);
  reading.speaks = true;
  reading.hover = undefined;
  keepInFrame(row, column);
  app.set({ row: view.all.rows[row].tokens[0], column: view.all.columns[column].tokens[0] });
}

function keepInFrame(row, column) {
  const { view, frame } = reading, down = view.rows.indexOf(row), across = view.columns.indexOf(column);
  const moved = (at, start, size) => at < start ? at : at >= start + size ? at - size + 1 : start;
  const top = moved(down, frame.top, frame.tall), left = moved(across, frame.left, frame.wide);
  if (top !== frame.top || left !== frame.left) reframe({ ...frame, top, left });
}

function stepPick(name, picks, by) {
  const { app, view } = reading;
  if (!view) return;
  const values = picks(view.track).map(([value]) => value), at = values.indexOf(view[name]);
  app.set({ [name]: values[(at + by + values.length) % values.length] });
  app.say(`${name} ${values[(at + by + values.length) % values.length]}`);
}

/** One head, the mean or the largest of the heads of a layer, of all layers, rollout. */
function nextAggregate() {
  const { app, view } = reading;
  if (!view) return;
  const can = layerPicks(view.track).map(([value]) => value), own = Number(view.layer) ? view.layer : "1";
  const several = view.track.heads > 1, all = [[own, several ? String(Number(view.head) || 1) : "1"],
      ...(several ? [[own, "mean"], [own, "max"]] : []),
    ...["mean", "max", "rollout"].filter(each => can.includes(each)).map(each => [each, several ? each === "max" ? "max" : "mean" : "1"])];
  const at = all.findIndex(([layer, head]) => layer === view.layer && head === view.head);
  const [layer, head] = all[(at + 1) % all.length];
  app.set({ layer, head });
  app.say(`layer ${layer}, head ${head}`);
}

function play() {
  const own = reading;
  if (!own.view) return;
  if (own.playing) {
    clearInterval(own.playing);
    own.playing = undefined;
    return own.app.say("Stopped.");
  }
  own.app.set({ row: own.view.all.rows[own.view.rows[0]].tokens[0] });
  own.playing = setInterval(() => {
    const at = own.view.rows.indexOf(pinnedNow().row);
    if (at === own.view.rows.length - 1) return play();
    moveBy(1, 0);
  }, PACE);
}

function shareRead(app) {
  const { view, frame } = reading ?? {};
  if (!view) return [];
  const drawnMap = view.bytes ? [["PNG, twice the size", () => savePNG(view, frame)], ["SVG", () => saveSVG(app, view, frame)],
      ["CSV of all numbers", () => saveCSV(app, view)]] : [];
  if (view.picture) drawnMap.unshift(["PNG of the painted picture", async () =>
      download(fileName(view, "picture.png"), await blobOf(reading.picture.canvas))]);
  return app.api.live ? [...drawnMap, ["One HTML file that opens anywhere", () => saveHTML(app, view)]] : drawnMap;
}

const arrow = (down, across) => event => moveBy(down, across, event);

export const tab = {
  name: "read", title: "Read", works: model => Boolean(model),
  open: openRead, update: updateRead, close: closeRead, share: shareRead,
  keys: {
    ArrowUp: ["the row before (Shift: ten)", arrow(-1, 0)], ArrowDown: ["the next row", arrow(1, 0)],
    ArrowLeft: ["the column before", arrow(0, -1)], ArrowRight: ["the next column", arrow(0, 1)],
    "[": ["the layer below", () => stepPick("layer", layerPicks, -1)], "]": ["the layer above", () => stepPick("layer", layerPicks, 1)],
    ",": ["the head before", () => stepPick("head", headPicks, -1)], ".": ["the next head", () => stepPick("head", headPicks, 1)],
    g: ["one head, mean, max, rollout", nextAggregate], Enter: ["the arithmetic of this cell", (_, app) => app.set({ tab: "compute" })],
    " ": ["play: step through the rows", play], e: ["export", () => $("share").click()],
  },
};
