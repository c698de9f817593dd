// A sheet of arithmetic done again: everything that is worked out, from what is given, in float64. The table of
// operations is that of look/arithmetic_sheet.py. A quantity is {data, shape}; a single number has the shape [].

const FLOATS = { float32: Float32Array, float64: Float64Array };

function redoDecoded({ values, dtype, shape }) {
  const bytes = Uint8Array.from(atob(values), char => char.charCodeAt(0));
  return { data: Float64Array.from(new FLOATS[dtype](bytes.buffer)), shape };
}

const redoNumber = value => ({ data: Float64Array.of(value), shape: [] });
const redoVector = values => ({ data: Float64Array.from(values), shape: [values.length] });
const redoWidth = x => x.shape[x.shape.length - 1];
const redoRow = (x, at) => x.data.subarray(at * redoWidth(x), (at + 1) * redoWidth(x));
const redoSum = values => values.reduce((sum, value) => sum + value, 0);
const redoDot = (a, b) => a.reduce((sum, value, at) => sum + value * b[at], 0);
const redoRows = x => Array.from({ length: x.shape[0] }, (_, at) => redoRow(x, at));
const redoEach = (x, change) => ({ data: x.data.map(change), shape: x.shape });

/** Entry by entry; a single number goes with every entry of the other. */
function redoBoth(x, y, change) {
  const long = x.shape.length >= y.shape.length ? x : y;
  return { data: long.data.map((_, at) => change(x.data[x.shape.length ? at : 0], y.data[y.shape.length ? at : 0])), shape: long.shape };
}

/** Sums or products of the rows after one and up to another, channel by channel. */
function redoAlong(x, after, to, start, change) {
  const width = x.shape.length > 1 ? redoWidth(x) : 1;
  const found = new Float64Array(width).fill(start);
  for (let t = after + 1; t <= to; t++) for (let c = 0; c < width; c++) found[c] = change(found[c], x.data[t * width + c]);
  return x.shape.length > 1 ? redoVector(found) : redoNumber(found[0]);
}

export const redoOperations = {
  pick: (x, { index }) => x.shape.length > 1 ? redoVector(redoRow(x, index)) : redoNumber(x.data[index]),
  turned(weight, x) {                    // one vector by a matrix, or each of several
    const width = redoWidth(weight), one = x.shape.length < 2, rows = one ? [x.data] : redoRows(x);
    const data = Float64Array.from(rows.flatMap(row => {
      const out = new Array(width).fill(0);
      row.forEach((value, i) => { for (let j = 0; j < width; j++) out[j] += value * weight.data[i * width + j]; });
      return out;
    }));
    return { data, shape: one ? [width] : [rows.length, width] };
  },
  dot: (keys, query) => redoVector(redoRows(keys).map(row => redoDot(row, query.data))),
  times: (x, y) => redoBoth(x, y, (a, b) => a * b),
  plus: (x, y) => redoBoth(x, y, (a, b) => a + b),
  minus: (x, y) => redoBoth(x, y, (a, b) => a - b),
  over: (x, y) => redoBoth(x, y, (a, b) => a / b),
  scale: (x, { by }) => redoEach(x, value => value * by),
  tanh: x => redoEach(x, Math.tanh),
  exp: x => redoEach(x, Math.exp),
  softcap: (x, { at }) => redoEach(x, value => at * Math.tanh(value / at)),
  mask: (x, allowed) => redoBoth(x, allowed, (value, may) => may > 0 ? value : -Infinity),
  sum: x => redoNumber(redoSum(x.data)),
  mean: x => redoNumber(redoSum(x.data) / x.data.length),
  norm: x => redoNumber(Math.sqrt(redoDot(x.data, x.data))),
  weighted(alpha, values) {
    const out = new Float64Array(redoWidth(values));
    redoRows(values).forEach((row, s) => row.forEach((value, i) => { out[i] += alpha.data[s] * value; }));
    return redoVector(out);
  },
  largest(x) {
    const finite = x.data.filter(Number.isFinite);
    return redoNumber(finite.length ? finite.reduce((top, value) => Math.max(top, value)) : 0);
  },
  power: (x, top, { base }) => redoEach(x, value => base ? base ** (value - top.data[0]) : Math.exp(value - top.data[0])),
  share: (x, total) => redoEach(x, value => total.data[0] ? value / total.data[0] : 0),
  additive: (query, keys, v) =>
      redoVector(redoRows(keys).map(row => row.reduce((sum, value, i) => sum + Math.tanh(query.data[i] + value) * v.data[i], 0))),
  between: (x, { after, to }) => redoAlong(x, after, to, 0, (a, b) => a + b),
  product: (x, { after, to }) => redoAlong(x, after, to, 1, (a, b) => a * b),
  grown(a, x) {
    const width = redoWidth(a);
    return { data: a.data.map((rate, at) => Math.exp(rate * x.data[x.shape.length ? Math.floor(at / width) : 0])), shape: a.shape };
  },
  fading(delta, a, b, c, { row }) {      // backwards from the row: the time that has passed since each column
    const found = new Float64Array(delta.data.length);
    for (let s = row, passed = 0; s >= 0; passed += delta.data[s--]) {
      found[s] = delta.data[s] * redoRow(b, s).reduce((sum, value, n) => sum + c.data[n] * Math.exp(a.data[n] * passed) * value, 0);
    }
    return redoVector(found);
  },
  decaying(a, c, o, { row }) {
    const found = new Float64Array(a.data.length);
    for (let s = row, kept = 1; s >= 0; kept *= a.data[s--]) found[s] = o.data[0] * kept * c.data[s];
    return redoVector(found);
  },
  discounted: (count, discount, total) =>
      redoVector(Array.from(count.data, (a, k) => a > 0 && total.data[k] > 0 ? (a - discount.data[k]) / total.data[k] : 0)),
  "left-over"(weight) {
    const found = new Float64Array(weight.data.length);
    for (let k = found.length - 1, left = 1; k >= 0; left *= weight.data[k--]) found[k] = left;
    return redoVector(found);
  },
};

/** By how much two numbers differ; above 1, as a share of them, as float32 keeps digits and not places. */
const redoApart = (again, own) => Number.isFinite(own) || Number.isFinite(again) ? Math.abs(again - own) / Math.max(1, Math.abs(own))
    : again === own ? 0 : Infinity;

/** {found: {name: {...quantity, data, shape, difference}}, difference}: the largest of those that PyTorch has worked out. */
export function redo(sheet) {
  const found = {};
  let difference = 0;
  for (const quantity of sheet.quantities) {
    const own = redoDecoded(quantity);
    const constants = Object.keys(quantity.how).length ? [quantity.how] : quantity.op === "power" ? [{}] : [];
    const made = quantity.op ? redoOperations[quantity.op](...quantity.of.map(name => found[name]), ...constants) : own;
    const apart = quantity.checked ? made.data.reduce((most, value, at) => Math.max(most, redoApart(value, own.data[at])), 0) : 0;
    difference = Math.max(difference, made.data.length === own.data.length ? apart : Infinity);
    found[quantity.name] = { ...quantity, ...made, own: own.data, difference: apart };
  }
  return { found, difference };
}
