// Numbers of a saved file: all weights stand in it, and views are worked out here as the server would.
import { upTo } from "./dom.js";
import { shadeOf } from "./colours.js";
import { floats } from "./payload.js";
import { grouped, leadOf, pooledHeads } from "./read_view.js";

/** answers = {models, looks: {model: look}, numbers: {model: {track: base64 of float32 (N, H, R, C)}}, pictures: {model: data URL}} */
export function localLooks(answers) {
  const kept = new Map();
  const tensor = (look, track) => {
    const key = `${look.id}/${track.name}`;
    if (!kept.has(key)) kept.set(key, floats(answers.numbers[look.id][track.name]));
    return kept.get(key);
  };
  return {
    look: request => answers.looks[request.model],
    picture: look => answers.pictures?.[look.id],
    numbers(path) {
      const [, , , id, name, rest] = path.split("/"), [what, query] = rest.split("?"), asked = new URLSearchParams(query);
      const look = Object.values(answers.looks).find(each => each.id === id), track = look.tracks.find(each =>
          each.name === decodeURIComponent(name));
      return LOCAL[what](look, track, tensor(look, track), asked);
    },
  };
}

const sizesOf = (look, track) => [look.sides[track.rows].tokens.length, look.sides[track.columns].tokens.length];
const packed = (data, shape, scale = null) => ({ header: {}, arrays: { values: { data, shape, scale } } });

/** The amount drawn strongest: 1 for weights, so that maps compare, else the largest of those shown. */
function localTop(track, values) {
  if (track.kind === "weights" || track.kind === "back-off") return 1;
  return values.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;
}

const LOCAL = {
  map(look, track, data, asked) {
    const [values, shape] = localView(look, track, data, asked), top = localTop(track, values);
    return packed(localShades(values, track, top), shape, top);
  },
  cells(look, track, data, asked) {
    return packed(...localView(look, track, data, asked));
  },
  row(look, track, data, asked) {
    const [rows, columns] = sizesOf(look,
        track), count = track.layers * track.heads, found = new Float32Array(count * columns), row = +asked.get("row");
    for (const head of upTo(count)) found.set(data.subarray((head * rows + row) * columns, (head * rows + row + 1) * columns),
        head * columns);
    return packed(found, [track.layers, track.heads, columns]);
  },
  atlas(look, track, data, asked) {
    const [rows, columns] = sizesOf(look, track), down = binsOf(rows, +asked.get("size")), across = binsOf(columns,
        +asked.get("size")), sum = asked.get("pool") === "sum";
    const tall = rows ? down[rows - 1] + 1 : 0, wide = columns ? across[columns - 1] + 1
        : 0, found = new Float32Array(track.layers * track.heads * tall * wide);
    for (const head of upTo(track.layers * track.heads)) {
      for (const row of upTo(rows)) for (const column of upTo(columns)) {
        const at = (head * tall + down[row]) * wide + across[column], value = data[(head * rows + row) * columns + column];
        if (sum) found[at] += value;
        else if (Math.abs(value) > Math.abs(found[at])) found[at] = value;
      }
    }
    const top = sum ? found.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1 : localTop(track, found);
    return packed(localShades(found, track, top), [track.layers * track.heads, tall, wide], top);
  },
};

/** The bin of each of so many places; bins begin at floor(bin * side / count). */
function binsOf(side, size) {
  const count = Math.min(side, size), found = new Int32Array(side);
  for (const bin of upTo(count)) found.fill(bin, Math.floor(bin * side / count));
  return found;
}

function localShades(values, track, top) {
  const most = track.signed ? 127 : 255, found = new (track.signed ? Int8Array : Uint8Array)(values.length);
  for (let at = 0; at < values.length; at++) found[at] = Math.round(most * shadeOf(values[at], top));
  return found;
}

function localView(look, track, data, asked) {
  const [rows, columns] = sizesOf(look, track), layer = asked.get("layer"), head = asked.get("head");
  const whole = layer === "rollout" ? rolledOut(data, track, rows, head)
      : pooledHeads(data, track.layers, track.heads, rows * columns, layer, head);
  return asked.get("words") === "1" ? localWords(look, track, whole, rows, columns) : [whole, [rows, columns]];
}

/** A_N ... A_1 with A = (W + I) / 2, rows summing to 1. */
function rolledOut(data, track, size, head) {
  let found;
  for (const layer of upTo(track.layers)) {
    const own = pooledHeads(data, track.layers, track.heads, size * size, layer + 1, head), mixed = new Float64Array(size * size);
    for (const row of upTo(size)) {
      const total = 1 + own.subarray(row * size, (row + 1) * size).reduce((sum, value) => sum + value, 0);
      for (const column of upTo(size)) mixed[row * size + column] = (own[row * size + column] + (row === column ? 1 : 0)) / total;
    }
    found = found ? productOf(mixed, found, size) : mixed;
  }
  return Float32Array.from(found);
}

function productOf(a, b, size) {
  const found = new Float64Array(size * size);
  for (let row = 0; row < size; row++) for (let middle = 0; middle < size; middle++) {
    const share = a[row * size + middle];
    if (share) for (let column = 0; column < size; column++) found[row * size + column] += share * b[middle * size + column];
  }
  return found;
}

/** Pieces of a word were read as much as all of them together, and read what they read on average. */
function localWords(look, track, values, rows, columns) {
  const wordsIn = (side, ahead) => grouped(side.tokens.map((_, at) => side.tokens[at + ahead]?.[5] ?? -1));
  const down = wordsIn(look.sides[track.rows], track.row_label === "writes" && track.rows === look.written ? leadOf(look)
      : 0), across = wordsIn(look.sides[track.columns], 0);
  const found = new Float32Array(down.length * across.length);
  down.forEach((some, row) => across.forEach((read, column) => {
    let sum = 0;
    for (const r of some) for (const c of read) sum += values[r * columns + c];
    found[row * across.length + column] = sum / some.length;
  }));
  return [found, [down.length, across.length]];
}
