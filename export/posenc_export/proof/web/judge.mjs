// How two outputs differ, which is measured, and whether that is allowed, which is judged afterwards: the rules and the
// words of proof/judging/compare.py, in a browser. A test holds the two against each other.

import { FLOATS, general, largest, ulp, wide } from "./numbers.mjs";

const MASK = 1e8; // the magnitude from which on an element is a mask (finfo.min, -1e9, infinity)
const MASK_OF_HALF = 3e4;

// Measures an output {type, dims, data} against an expected one of the same shape and dtype; float64 fits any output.
//
// Returns {type, dims, mismatch, error, magnitude, sameBits}: `mismatch` says why they cannot be compared at all.
export function measure(actual, expected) {
  const { type, dims } = actual;
  const mismatch = mismatchOf(actual, expected);
  if (mismatch) return { type, dims, mismatch, sameBits: false };
  const [own, other] = [wide(actual), wide(expected)];
  const error = new Float64Array(own.length);
  const magnitude = new Float64Array(own.length);
  const isFloat = type in FLOATS;
  for (let i = 0; i < own.length; i++) {
    magnitude[i] = Math.abs(other[i]);
    error[i] = isFloat ? errorOf(own[i], other[i], type) : errorOfIntegers(actual, expected, i);
  }
  const alike = type === expected.type && sameBits(actual.data, expected.data);
  return { type, dims, mismatch: "", error, magnitude, sameBits: isFloat ? alike : error.every((e) => e === 0) };
}

function mismatchOf(actual, expected) {
  const [shape, other] = [actual.dims, expected.dims].map(tuple);
  if (shape !== other) return `shape ${shape}, expected ${other}`;
  if (![actual.type, "float64"].includes(expected.type)) return `dtype ${actual.type}, expected ${expected.type}`;
  return "";
}

function errorOf(actual, expected, type) {
  return areMasks(actual, expected, type) ? 0 : Math.abs(actual - expected);
}

// float64 does not tell integers above 2^53 apart
function errorOfIntegers(actual, expected, i) {
  const exactly = actual.type === expected.type;
  const equal = exactly ? actual.data[i] === expected.data[i] : Number(actual.data[i]) === expected.data[i];
  return equal ? 0 : Math.max(Math.abs(Number(actual.data[i]) - Number(expected.data[i])), 1);
}

// Returns whether both are masks: the same infinity, or of one sign and beyond half of the dtype's largest number.
function areMasks(actual, expected, type) {
  const huge = 2 ** (FLOATS[type].largest - 1);
  const finite = Math.abs(actual) > huge && Math.abs(expected) > huge && Math.sign(actual) === Math.sign(expected);
  return finite || (Math.abs(actual) === Infinity && actual === expected);
}

// NaN and -0.0 compare by their bits alone
function sameBits(a, b) {
  const [left, right] = [a, b].map((data) => new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  return left.length === right.length && left.every((byte, i) => byte === right[i]);
}

// The largest error, NaN where any element is.
export function maxAbs({ error }) {
  return error && error.length ? largest(error) : 0;
}

// The largest error in ulps of the expected value, in the dtype of the output.
export function maxUlp({ error, magnitude, type }) {
  if (!error || !error.length || !(type in FLOATS)) return 0;
  return largest(error.map((off, i) => off / ulp(magnitude[i], type)));
}

// The largest expected magnitude; masks count only where all elements are masks.
export function peakOf({ magnitude, type }) {
  if (!magnitude) return 0;
  const huge = type === "float16" ? MASK_OF_HALF : MASK;
  const ordinary = magnitude.filter((size) => size < huge);
  return largest(ordinary.length ? ordinary : magnitude.filter((size) => Number.isFinite(size)), 0);
}

// The index of the largest error, or of a NaN: one number an axis.
export function worst({ error, dims }) {
  return error && error.length ? indexOf(largestAt(error), dims) : [];
}

function largestAt(sizes) {
  let at = 0;
  const size = (i) => (Number.isNaN(sizes[i]) ? Infinity : sizes[i]);
  for (let i = 1; i < sizes.length; i++) if (size(i) > size(at)) at = i;
  return at;
}

function indexOf(at, dims) {
  const index = [];
  for (const n of [...dims].reverse()) {
    index.unshift(at % n);
    at = Math.floor(at / n);
  }
  return index;
}

// Returns {passed, reason}: a difference is allowed if no element is above the tolerance {atol, rtol, ulps, vector,
// bits}; NaN and unequal integers never pass. Elements where `masked` is not 0 may be off by `more` in addition.
export function judge(difference, tolerance, masked = null, more = 0) {
  const { type, mismatch, error } = difference;
  if (mismatch) return { passed: false, reason: mismatch };
  if (error.some(Number.isNaN)) return { passed: false, reason: `NaN at ${list(worst(difference))}` };
  if (error.some((off) => off === Infinity)) return { passed: false, reason: off(difference, "the same infinity") };
  if (tolerance.bits || !(type in FLOATS)) {
    const { sameBits: passed } = difference;
    return { passed, reason: passed ? "" : off(difference, "the same bits") };
  }
  const allowed = allowance(difference, tolerance);
  if (masked) masked.data.forEach((flag, i) => (allowed[i] += flag ? more : 0));
  // a NaN in `allowed` fails, too
  if (error.every((size, i) => size <= allowed[i])) return { passed: true, reason: "" };
  // the element that is furthest beyond what is allowed there, which need not be the one with the largest error
  const at = largestAt(error.map((size, i) => size - allowed[i]));
  const reason = words(error[at], indexOf(at, difference.dims), `at most ${general(allowed[at], 2)}`);
  return { passed: false, reason };
}

// Returns how far each element of an output may be off.
export function allowance({ type, dims, magnitude }, { atol, rtol, ulps, vector }) {
  const allowed = magnitude.map((size) => atol + rtol * size);
  // a rotation mixes the features of a head, the last axis: its error is relative to the largest of them
  const features = vector && dims.length ? dims.at(-1) : 0;
  for (let begin = 0; features && begin < magnitude.length; begin += features) {
    const peak = largest(magnitude.subarray(begin, begin + features), 0);
    for (let i = begin; i < begin + features; i++) allowed[i] += vector * peak;
  }
  return allowed.map((size, i) => size + ulps * ulp(magnitude[i], type));
}

function off(difference, expected) {
  return words(maxAbs(difference), worst(difference), expected);
}

function words(error, at, expected) {
  return `off by ${general(error, 3)} at ${list(at)}, expected ${expected}`;
}

// Says which outputs are missing or extra, or nothing.
export function compareNames(actual, expected) {
  const without = (names, others) => names.filter((name) => !others.includes(name)).sort();
  const wrong = { missing: without(expected, actual), extra: without(actual, expected) };
  const parts = Object.entries(wrong).filter(([, names]) => names.length);
  return parts.map(([word, names]) => `${word} output ${names.join(", ")}`).join("; ");
}

const list = (numbers) => `[${numbers.join(", ")}]`;
const tuple = (numbers) => (numbers.length === 1 ? `(${numbers[0]},)` : `(${numbers.join(", ")})`);

// Returns the sum of two tolerances; null is zero, and "the same bits" + t is t.
export function plus(tolerance, term) {
  if (!term || tolerance.bits) return term || tolerance;
  const sums = ["atol", "rtol", "ulps", "vector"].map((name) => [name, tolerance[name] + term[name]]);
  return { ...Object.fromEntries(sums), bits: false };
}
