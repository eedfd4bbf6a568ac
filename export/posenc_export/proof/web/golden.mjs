// The recorded calls of golden.npz, as bundle/golden.py reads them: inputs, eager outputs and the float64 reference.
//
// An array that is not as the manifest says of ports and cases is refused before it is unpacked.

import { parseNpy } from "./npy.mjs";

const HEADER_BYTES = 10_000; // of a .npy file, at most
const MAX_BYTES = 2 ** 30; // of one array: a page has no more memory at once
const BYTES = { float32: 4, float64: 8, float16: 2, int64: 8, int32: 4, bool: 1 };
const HOLDERS = {
  float32: Float32Array,
  float64: Float64Array,
  float16: Uint16Array,
  int64: BigInt64Array,
  int32: Int32Array,
  bool: Uint8Array,
};

// A call that needs more memory than a page has; it is not tried.
export class TooLarge extends Error {}

// Returns the size of an axis in a call; null where the call does not say it.
export function sizeIn(axis, sizes) {
  if (axis.size !== null) return axis.size;
  // "5+height*width": numbers, names of axes, and products of names
  const factor = (word) => (/^-?\d+$/.test(word) ? Number(word) : (sizes[word] ?? null));
  const products = axis.name.split("+").map((term) => product(term.split("*").map(factor)));
  return products.includes(null) ? null : products.reduce((sum, part) => sum + part, 0);
}

const product = (sizes) => (sizes.includes(null) ? null : sizes.reduce((all, size) => all * size, 1));
const isLength = (axis) => axis.kind === "length" || axis.kind === "grid";

// Returns the axis of a port whose rows are kept: its longest dynamic length, or else its longest axis.
export function longAxis(port, dims) {
  const all = port.axes.map((_, i) => i);
  const lengths = all.filter((i) => isLength(port.axes[i]) && port.axes[i].size === null);
  const among = lengths.length ? lengths : all;
  return among.reduce((best, i) => (dims[i] > dims[best] ? i : best), among[0] ?? 0);
}

// Returns the axis along which the worst error of an output is looked for: without a dynamic length, the last but one.
export function tokenAxis(port, dims) {
  return port.axes.some((axis) => isLength(axis) && axis.size === null) ? longAxis(port, dims) : dims.length - 2;
}

// Returns a recorded case: {feeds, eager, reference, model, rows, masked}, each by the names of ports.
export async function readCase(npz, manifest, call) {
  const feeds = {};
  for (const port of manifest.inputs) feeds[port.name] = await feedOf(npz, call, port);
  const recorded = { feeds, eager: {}, reference: {}, model: {}, rows: {}, masked: {} };
  for (const port of call.refused ? [] : manifest.outputs) await addOutput(npz, call, port, recorded);
  return recorded;
}

async function addOutput(npz, call, port, recorded) {
  const key = `${call.name}/${port.name}`;
  const [dims, at] = await storedDims(npz, key, port, port.axes.map((axis) => sizeIn(axis, call.sizes)));
  const eager = await read(npz, key, dims, port.dtype);
  recorded.eager[port.name] = eager;
  if (at) recorded.rows[port.name] = at;
  const others = { reference: npz.has(`${key}.reference`), model: Boolean(call.model_tolerance) };
  for (const name of Object.keys(others).filter((word) => others[word])) {
    recorded[name][port.name] = await read(npz, `${key}.${name}`, eager.dims, "float64");
  }
  if (npz.has(`${key}.masked`)) recorded.masked[port.name] = await read(npz, `${key}.masked`, eager.dims, "bool");
}

// Absent floats are zeros, and so are the rows that a sample leaves out.
async function feedOf(npz, call, port) {
  const key = `${call.name}/${port.name}`;
  const sizes = { ...call.sizes, ...(call.unlike || {})[port.name] };
  const dims = port.axes.map((axis) => sizeIn(axis, sizes));
  const empty = zeros(key, dims, port.dtype);
  if (!npz.has(key) && port.dtype.includes("float")) return empty();
  const [stored, at] = await storedDims(npz, key, port, dims);
  const array = await read(npz, key, stored, port.dtype);
  return at ? spread(array, at, empty(), longAxis(port, dims)) : array;
}

// Returns a function that makes an array of zeros; throws at once where no page has the memory for it.
function zeros(key, dims, type) {
  const bytes = product(dims) * BYTES[type];
  if (bytes > MAX_BYTES) throw new TooLarge(`${key} takes ${bytes.toLocaleString("en")} bytes`);
  return () => ({ type, dims, data: new HOLDERS[type](product(dims)) });
}

// Returns the stored sizes of an array, and the indices of its rows where it is a sample; null is any size.
async function storedDims(npz, key, port, dims) {
  if (!npz.has(`${key}.rows`)) return [dims, null];
  const stored = await read(npz, `${key}.rows`, [null], "int64");
  const at = Array.from(stored.data, Number);
  const rising = at.length && at[0] >= 0 && at.every((row, i) => i === 0 || row > at[i - 1]);
  if (!rising) throw new Error(`${key}.rows must be rising indices`);
  if (dims.includes(null)) return [dims.map(() => null), at]; // then the longest axis is unknown, too
  const axis = longAxis(port, dims);
  if (at.at(-1) >= dims[axis]) throw new Error(`${key}.rows must be below ${dims[axis]}, got ${at.at(-1)}`);
  return [dims.map((size, i) => (i === axis ? at.length : size)), at];
}

async function read(npz, key, dims, type) {
  const numbers = product(dims);
  const most = numbers === null ? MAX_BYTES : numbers * BYTES[type];
  if (most > MAX_BYTES) throw new TooLarge(`${key} takes ${most.toLocaleString("en")} bytes`);
  const array = parseNpy(await npz.read(key, most + HEADER_BYTES), key);
  const fits = array.dims.length === dims.length && dims.every((size, i) => size === null || size === array.dims[i]);
  if (fits && array.type === type) return array;
  const expected = dims.map((size) => size ?? "?").join(", ");
  throw new Error(`${key} is ${array.type}[${array.dims.join(", ")}], expected ${type}[${expected}]`);
}

// Puts kept rows at their places in an array of zeros.
function spread(rows, at, whole, axis) {
  copyRows(rows, whole, axis, at.map((row, i) => [i, row]));
  return whole;
}

// Returns the rows of an array at indices along an axis.
export function sample(array, at, axis) {
  const dims = array.dims.map((size, i) => (i === axis ? at.length : size));
  const rows = { type: array.type, dims, data: new array.data.constructor(product(dims)) };
  copyRows(array, rows, axis, at.map((row, i) => [row, i]));
  return rows;
}

// Copies rows of one array to places in another, along an axis: pairs of indices.
function copyRows(from, to, axis, places) {
  const inner = product(to.dims.slice(axis + 1));
  const outer = product(to.dims.slice(0, axis));
  for (let block = 0; block < outer; block++) {
    for (const [source, target] of places) {
      const begin = (block * from.dims[axis] + source) * inner;
      const row = from.data.subarray(begin, begin + inner);
      to.data.set(row, (block * to.dims[axis] + target) * inner);
    }
  }
}
