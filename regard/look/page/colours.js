// Colours. Amounts: nothing is the colour of the page, all of it the far end of cividis. Signed: blue below zero,
// orange above. Lightness alone tells amounts apart, so that they survive colour blindness. The same as look/render/colours.py.

const AMOUNTS = { light: ["#ffffff", "#b9c4d6", "#6d7f9f", "#33486f", "#00224e"],
    dark: ["#14181d", "#3f4249", "#7d7a6d", "#bfae5b", "#fee838"] };
const ABOVE = { light: ["#ffffff", "#f6c9a8", "#e8954f", "#c1600a", "#7f3b00"],
    dark: ["#14181d", "#4a3423", "#8a5a2b", "#cf8a3c", "#ffc27a"] };
const BELOW = { light: ["#ffffff", "#b4d3ee", "#6aa7db", "#2670b3", "#053f75"],
    dark: ["#14181d", "#1f3850", "#2f6493", "#559bd6", "#a6d4ff"] };

// Okabe and Ito's colours, told apart by dashes and direct labels too.
export const SERIES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#f0e442"];
export const SERIES_DARK = ["#56b4e9", "#e69f00", "#2ec79a", "#e39cc4", "#8ac7ee", "#ffc27a", "#ffffff", "#f0e442"];
export const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3], [5, 5], [1, 4], [12, 4], [3, 1]];

const rgb = colour => [1, 3, 5].map(at => parseInt(colour.slice(at, at + 2), 16));

function along(stops, share) {
  const place = Math.max(0, Math.min(1, share)) * (stops.length - 1);
  const index = Math.min(Math.floor(place), stops.length - 2);
  const low = rgb(stops[index]), high = rgb(stops[index + 1]);
  return low.map((part, at) => Math.round(part + (high[at] - part) * (place - index)));
}

export const themeNow = () => document.documentElement.dataset.theme ?? "light";
export const seriesColour = index => (themeNow() === "dark" ? SERIES_DARK : SERIES)[index % SERIES.length];

/** [r, g, b] of a shade from -1 to 1, which is the square root of the share. */
export function colourOf(shade, signed = false, theme = themeNow()) {
  return along((shade < 0 ? BELOW : signed ? ABOVE : AMOUNTS)[theme], Math.abs(shade));
}

export const css = parts => `rgb(${parts.join(" ")})`;

/** 256 colours as 32-bit pixels: entry = the byte of a uint8 payload, or of an int8 payload taken as uint8. */
const tables = {};
export function lookup(signed, theme = themeNow()) {
  const key = `${signed} ${theme}`;
  return tables[key] ??= Uint32Array.from({ length: 256 }, (_, byte) => {
    const shade = signed ? (byte < 128 ? byte : byte - 256) / 127 : byte / 255;
    const [red, green, blue] = colourOf(shade, signed, theme);
    return (255 << 24 | blue << 16 | green << 8 | red) >>> 0;
  });
}

/** Black or white, whichever can be read on it. */
export function inkOn(parts) {
  const [red, green, blue] = parts.map(part => part / 255).map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 ? "#000000" : "#ffffff";
}

/** The shade of an amount: its square root beside the strongest, with its sign. */
export const shadeOf = (value, top) => Math.sign(value) * Math.sqrt(Math.min(1, Math.abs(value) / top));
