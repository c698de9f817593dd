// Making elements, and writing numbers. Text is only ever added as text.

export const $ = id => document.getElementById(id);
export const upTo = count => [...Array(count).keys()];
export const clamp = (value, low, high) => Math.max(low, Math.min(high, value));

/** element("button", {type: "button", onclick, class: "wide", "aria-label": "..."}, "text", child, ...) */
export function element(name, props = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) made[key] = event => void value.call(made, event);       // an event is never cancelled by what is returned
    else if (key in made && !key.includes("-") && key !== "list") made[key] = value;
    else made.setAttribute(key === "className" ? "class" : key, value === true ? "" : value);
  }
  made.append(...children.flat().filter(child => child !== null && child !== undefined && child !== false));
  return made;
}

export function drawn(name, props = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(props)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** A labelled choice: picks are values, [value, text], or a group of options. */
export function choice(label, picks, value, onpick) {
  const select = element("select", { "aria-label": label, onchange: event => onpick(event.target.value) },
    picks.map(pick => pick instanceof Element ? pick : Array.isArray(pick) ? new Option(pick[1], pick[0]) : new Option(pick, pick)));
  select.value = value;
  return element("label", { className: "choice" }, element("span", {}, label), select);
}

/** A number for a person: never 0 for something that is not, never more digits than are there. */
export function num(value, digits = 3) {
  if (value === null || value === undefined) return "";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : value < 0 ? "−∞" : "none";
  const size = Math.abs(value);
  if (size === 0) return "0";
  const text = size >= 1e5 || size < 10 ** -digits ? value.toExponential(Math.max(0, digits - 1))
    : size >= 100 ? value.toFixed(Math.max(0, digits - 2)) : value.toFixed(digits);
  return text.replaceAll("-", "−");
}

/** An amount with three digits that mean something: 0.623, 0.00162, 4.10e−7. */
export const amount = value => Math.abs(value) < .1 && Math.abs(value) >= 1e-4 ? value.toPrecision(3).replace("-", "−") : num(value);

export const percent = value => value > 0 && value < 0.001 ? `${num(100 * value, 2)}%` : `${(100 * value).toFixed(1)}%`;

const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Noncharacter_Code_Point}]/gu;
    // controls, what turns a line around, halves of characters
const JOINERS = "\u200c\u200d";            // invisible, but words and emoji are spelled with them

/** What a piece of text looks like as a label: spaces and ends of lines can be seen. */
export function visible(piece) {
  if (piece === "") return "∅";
  return piece.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/\r/g, "␍").replace(/ /g, "␣").replace(UNSEEN, char =>
      JOINERS.includes(char) ? char
    : `\\u${char.codePointAt(0).toString(16).padStart(4, "0")}`);
}

/** A space in front of a word is how pieces are written, and needs no mark in a long row of labels. */
export const label = piece => /^ \S/.test(piece) ? visible(piece.slice(1)) : visible(piece);

/** Text isolated from what stands around it, whichever way it is written. */
export const quoted = piece => `“\u2068${label(piece)}\u2069”`;

/** Calls once things have been quiet for so many milliseconds. */
export function quietly(wait, call) {
  let timer;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...args), wait);
  };
}
