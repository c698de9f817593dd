// What is looked at, kept in the address: a copied address opens the same view.

const MANY = new Set(["models"]);
const NUMBERS = new Set(["row", "column", "channel", "step", "seed", "width", "new_tokens", "temperature", "top_k", "top_p", "length_penalty"]);

export function readAddress(hash = location.hash) {
  const state = {};
  for (const [name, value] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (MANY.has(name)) state[name] = value ? value.split(",") : [];
    else if (!NUMBERS.has(name)) state[name] = value;
    else if (Number.isFinite(+value) && value !== "") state[name] = +value;
  }
  return state;
}

const PAUSE = 250;                       // milliseconds between writes: browsers refuse too many
let addressTimer, addressWritten = 0;

export function writeAddress(state) {
  clearTimeout(addressTimer);
  const rest = addressWritten + PAUSE - performance.now();
  if (rest > 0) addressTimer = setTimeout(() => putAddress(state), rest);
  else putAddress(state);
}

/** Writes it now, for whoever is about to read it. */
export function putAddress(state) {
  clearTimeout(addressTimer);
  addressWritten = performance.now();
  const kept = Object.entries(state).filter(([, value]) => value !== undefined && value !== null && value !== "" && !(Array.isArray(value) && !value.length));
  const hash = new URLSearchParams(kept.map(([name, value]) => [name, Array.isArray(value) ? value.join(",") : String(value)]));
  if (location.protocol !== "about:") history.replaceState(null, "", `#${hash}`);     // a notebook's frame may have none
}
