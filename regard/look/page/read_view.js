// What is in view: a track of a look, a layer and a head of it, by pieces or by words, with or without specials.
// Rows and columns of a view know their tokens; `row` and `column` of the address always count tokens.
import { label, upTo } from "./dom.js";

export const LABELLED = 40;               // rows and columns up to which cells have numbers
export const DETAILED = 300;              // up to which all of them are drawn; beyond, a window of so many at most
const AT_ONCE = 90_000;                // up to which all exact numbers come at once; beyond, row by row
const POOLS = [["mean", "mean"], ["max", "max"]];

export const trackIn = (look, state) => look.tracks.find(each => each.name === state.track) ?? look.tracks[0];
/** What to say of a map that the address names and this look has not. */
export const strangeTrack = (look, { track }) => !track || look.tracks.some(each => each.name === track) ? ""
    : `This look has no map ${track}: this is ${trackIn(look, {}).name}.`;

/** Layers to choose from, as [value, text]. Rollout multiplies the layers of a side that reads itself. */
export function layerPicks(track) {
  const own = upTo(track.layers).map(n => [String(n + 1), (track.layer_names?.[n] || String(n + 1)).replace(/^layer /, "")]);
  const rolls = track.kind === "weights" && track.rows === track.columns;
  return track.layers > 1 ? [...own, ...POOLS, ...(rolls ? [["rollout", "rollout"]] : [])] : own;
}

export function headPicks(track) {
  const own = upTo(track.heads).map(h => [String(h + 1), (track.head_names?.[h] || String(h + 1)).replace(/^head /, "")]);
  return track.heads > 1 ? [...own, ...POOLS] : own;
}

const picked = (picks, value) => picks.some(([each]) => each === String(value)) ? String(value) : picks.length > 1 ? "mean" : "1";

/** The view that the address asks for, without its numbers. */
export function viewOf(look, state) {
  const track = trackIn(look, state), words = state.words === "1" && canWords(look, track), hide = state.specials === "0";
  const all = { rows: linesOf(look, track, "rows", words), columns: linesOf(look, track, "columns", words) };
  const shown = side => upTo(side.length).filter(at => !(hide && side[at].special));
  return {
    look, track, words, hide, all, auto: state.scale === "auto",
    layer: picked(layerPicks(track), state.layer), head: picked(headPicks(track), state.head),
    rows: shown(all.rows), columns: shown(all.columns),          // places among all
    wide: all.columns.length, picture: look.sides[track.columns].patches,
  };
}

const canWords = (look, track) => ["rows", "columns"].some(side => {
  const tokens = look.sides[track[side]].tokens;
  return tokens.some(([, , , , , word], at) => word >= 0 && at && tokens[at - 1][5] === word);
});
export const wordsWork = (look, state) => canWords(look, trackIn(look, state));

/** One for each row or column: its label, its tokens, whether all of them are special. */
function linesOf(look, track, axis, words) {
  const side = look.sides[track[axis]], tokens = side.tokens;
  if (side.patches) return upTo(tokens.length).map(at => ({ label: patchName(at, side.patches), tokens: [at], special: false }));
  const writes = axis === "rows" && track.row_label === "writes" && track.rows === look.written;
  const named = at => writes ? look.said[at].piece : tokens[at][1];
  const special = at => writes ? isSpecialSaid(look, at) : tokens[at][4];
  const groups = words ? grouped(tokens.map((_, at) => tokens[writes ? at + leadOf(look) : at]?.[5] ?? -1))
      : upTo(tokens.length).map(at => [at]);
  return groups.map(group => ({ tokens: group, label: label(group.map(named).join("")), special: group.every(special) }));
}

/** How far ahead of a row the token is that it predicts: a masked model predicts what stands in its own place. */
export const leadOf = look => look.in_place ? 0 : 1;
export const patchName = (at, [, across]) => `${Math.floor(at / across) + 1},${at % across + 1}`;
const isSpecialSaid = (look, at) => /^<[^<>\s]*>$/.test(look.said[at].piece);

/** Neighbours of one word together; what belongs to no word stands alone. */
export function grouped(words) {
  const groups = [];
  words.forEach((word, at) => word >= 0 && at && words[at - 1] === word ? groups.at(-1).push(at) : groups.push([at]));
  return groups;
}

/** The line (a place among all) that holds a token. */
export function lineAt(lines, token) {
  const place = token === undefined ? -1 : lines.findIndex(line => line.tokens.includes(token));
  return place < 0 ? undefined : place;
}

// ---- numbers

export const viewQuery = view => `layer=${view.layer}&head=${view.head}&words=${view.words ? 1 : 0}`;

/** Shades of the view, and all its numbers where there are not too many. */
export async function fillView(app, view, signal) {
  const path = encodeURIComponent(view.track.name);
  view.rowCache = new Map();
  if (view.track.row_by_row) return view;                        // too long to work out but for a row at a time
  const few = view.all.rows.length * view.wide <= AT_ONCE || view.words || view.layer === "rollout";
  const ask = what => app.numbers(view.look, `${path}/${what}?${viewQuery(view)}`, signal);
  const [{ arrays, header }, exact] = await Promise.all([ask("map"), few ? ask("cells") : undefined]);
  const [map] = Object.values(arrays);
  view.bytes = new Uint8Array(map.data.buffer, map.data.byteOffset, map.data.length);
  view.top = map.scale ?? header.top ?? view.track.top ?? 1;
  view.strongest = map.data.reduce((most, byte) => Math.max(most, Math.abs(byte)), 0);
  if (exact) view.cells = Object.values(exact.arrays)[0].data;
  return view;
}

/** The exact numbers of a row, if they are here. */
export function exactRow(view, row) {
  return view.cells ? view.cells.subarray(row * view.wide, (row + 1) * view.wide) : view.rowCache?.get(row);
}

export async function askRow(app, view, row, signal) {
  const here = exactRow(view, row);
  if (here) return here;
  const { arrays } = await app.numbers(view.look, `${encodeURIComponent(view.track.name)}/row?row=${row}`, signal);
  const [{ data, shape: [layers, heads, size] }] = Object.values(arrays);
  const values = pooledHeads(data, layers, heads, size, view.layer, view.head);
  if (view.rowCache.size > 200) view.rowCache.delete(view.rowCache.keys().next().value);
  view.rowCache.set(row, values);
  view.top ??= view.track.top ?? Math.max(...values.map(Math.abs), 1e-12);
  return values;
}

/** (size,) of (layers, heads, size): heads first, then layers; the largest of signed amounts keeps its sign. */
export function pooledHeads(data, layers, heads, size, layer, head) {
  const each = upTo(layers).filter(n => layer === "mean" || layer === "max" || n === layer - 1)
    .map(n => pooledOf(upTo(heads).map(h => data.subarray((n * heads + h) * size, (n * heads + h + 1) * size)), head, size));
  return each.length === 1 ? each[0] : pooledOf(each, layer, size);
}

function pooledOf(all, pick, size) {
  if (pick !== "mean" && pick !== "max") return all[pick - 1];
  if (all.length === 1) return all[0];
  const found = new Float32Array(size);
  for (let at = 0; at < size; at++) {
    let sum = 0, most = 0;
    for (const one of all) {
      sum += one[at];
      if (Math.abs(one[at]) > Math.abs(most)) most = one[at];
    }
    found[at] = pick === "mean" ? sum / all.length : most;
  }
  return found;
}

/** What is said of a row: its order, entropy in bits (of shares), and the sum of what is in view. */
export function rowFacts(view, values) {
  const order = [...view.columns].sort((a, b) => Math.abs(values[b]) - Math.abs(values[a]));
  const total = values.reduce((sum, value) => sum + Math.abs(value), 0);
  const shown = view.columns.reduce((sum, column) => sum + values[column], 0);
  let entropy = 0;
  for (const value of values) if (value && total) entropy -= Math.abs(value) / total * Math.log2(Math.abs(value) / total);
  return { order, entropy, total, shown, shares: view.track.kind === "weights" };
}

/** The fewest columns that hold this share of a row. */
export function heaviest(view, values, share) {
  const order = [...view.columns].sort((a, b) => Math.abs(values[b]) - Math.abs(values[a]));
  const total = view.columns.reduce((sum, column) => sum + Math.abs(values[column]), 0);
  const held = [];
  for (let sum = 0; held.length < order.length && total && sum < share * total - 1e-9;) {
    const column = order[held.length];
    if (!values[column]) break;
    held.push(column);
    sum += Math.abs(values[column]);
  }
  return held;
}

/** The strongest amount that is drawn in full colour, and its shade beside it. */
export const drawnTop = view => !view.auto || !view.strongest ? view.top
    : view.top * (view.strongest / (view.track.signed ? 127 : 255)) ** 2;
