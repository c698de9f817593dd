// What is looked at, kept in the address: a copied address opens the same view.

const MANY = new Set(["models"]);
const NUMBERS = new Set(["row", "column", "channel", "step", "seed", "width", "new_tokens", "temperature", "top_k", "top_p",
    "length_penalty"]);

export function readAddress(hash = location.hash) {
  const state = {};
  for (const [name, value] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (MANY.has(name)) state[name] = value ? value.split(",") : [];
    else if (!NUMBERS.has(name)) state[name] = value;
    else if (Number.isFinite(+value) && value !== "") state[name] = +value;
  }
  return state;
}

const MOST_WRITES = 60, WHILE = 10000, PAUSE = 250;      // so many in so many milliseconds; beyond, browsers refuse
let addressTimer, addressWrites = [];

/** At once; but of many in a row, as when a key is held, only some. */
export function writeAddress(state) {
  clearTimeout(addressTimer);
  addressWrites = addressWrites.filter(time => time > performance.now() - WHILE);
  const rest = addressWrites.length < MOST_WRITES ? 0 : addressWrites.at(-1) + PAUSE - performance.now();
  if (rest > 0) addressTimer = setTimeout(() => putAddress(state), rest);
  else putAddress(state);
}

/** Writes it now, for whoever is about to read it. */
export function putAddress(state) {
  clearTimeout(addressTimer);
  addressWrites.push(performance.now());
  const kept = Object.entries(state).filter(([, value]) => value !== undefined && value !== null && value !== ""
      && !(Array.isArray(value) && !value.length));
  const hash = new URLSearchParams(kept.map(([name, value]) => [name, Array.isArray(value) ? value.join(",") : String(value)]));
  if (location.protocol !== "about:") history.replaceState(null, "", `#${hash}`);     // a notebook's frame may have none
}
