// Binary payloads: the length of a JSON header, the header, then arrays aligned to 8 bytes.

const TYPES = { uint8: Uint8Array, int8: Int8Array, float32: Float32Array, int32: Int32Array };
const aligned = at => at + 7 & ~7;

/** {header, arrays: {name: {data, shape, scale}}} */
export function unpack(buffer) {
  const size = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
  const arrays = {};
  let at = aligned(4 + size);
  for (const { name, dtype, shape, scale } of header.arrays) {
    const count = shape.reduce((product, side) => product * side, 1);
    arrays[name] = { data: new TYPES[dtype](buffer, at, count), shape, scale };
    at = aligned(at + arrays[name].data.byteLength);
  }
  return { header, arrays };
}

export function floats(base64) {
  return new Float32Array(Uint8Array.from(atob(base64), char => char.charCodeAt(0)).buffer);
}
