// Numbers of tensors, as NumPy takes them: elements in float64, the spacing of a dtype, and text of three digits.

// Bits behind the point, the smallest exponent, and the exponent above the largest number, of each dtype of floats.
export const FLOATS = {
  float16: { fraction: 10, smallest: -14, largest: 16 },
  float32: { fraction: 23, smallest: -126, largest: 128 },
  float64: { fraction: 52, smallest: -1022, largest: 1024 },
};
const POWERS = Float64Array.from({ length: 2200 }, (_, i) => 2 ** (i - 1100)); // looked up twice as fast as computed
const bits = new DataView(new ArrayBuffer(8));

// Returns the elements of an array {type, data} as numbers of float64; those of int64 are rounded to it.
export function wide({ type, data }) {
  if (type === "int64") return Float64Array.from(data, Number);
  if (type !== "float16" || !(data instanceof Uint16Array)) return data;
  return Float64Array.from(data, ofHalf);
}

function ofHalf(half) {
  const exponent = (half >> 10) & 0x1f;
  const fraction = half & 0x3ff;
  const sign = half & 0x8000 ? -1 : 1;
  if (exponent === 0x1f) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 25) * (fraction + 1024) : 2 ** -24 * fraction);
}

// Returns the distance between neighbouring numbers of a dtype at a magnitude.
export function ulp(magnitude, type) {
  const { fraction, smallest } = FLOATS[type];
  return POWERS[Math.max(exponentOf(magnitude), smallest) - fraction + 1100];
}

// Returns the exponent of the leading bit; -1 of zero, as frexp has it, and of what is not finite.
function exponentOf(magnitude) {
  if (magnitude === 0 || !Number.isFinite(magnitude)) return -1;
  bits.setFloat64(0, magnitude);
  return ((bits.getUint16(0) >> 4) & 0x7ff) - 1023;
}

// Returns the largest number; NaN where there is one, as NumPy has it.
export function largest(numbers, initial = -Infinity) {
  let most = initial;
  for (const number of numbers) {
    if (Number.isNaN(number)) return NaN;
    if (number > most) most = number;
  }
  return most;
}

// Returns a number as Python's format with "g" writes it: 3 digits of 1234.5 are 1.23e+03.
export function general(number, digits) {
  if (!Number.isFinite(number)) return Number.isNaN(number) ? "nan" : number > 0 ? "inf" : "-inf";
  if (number === 0) return Object.is(number, -0) ? "-0" : "0";
  const [mantissa, exponent] = rounded(number, digits);
  const bare = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  if (exponent < -4 || exponent >= digits) {
    const size = String(Math.abs(exponent)).padStart(2, "0");
    return `${bare(mantissa)}e${exponent < 0 ? "-" : "+"}${size}`;
  }
  const places = digits - 1 - exponent;
  return bare(Number(`${mantissa}e${exponent}`).toFixed(places));
}

// Returns mantissa and exponent in decimal, of 2 digits or more. Python rounds a half to the even digit, JavaScript away from zero.
function rounded(number, digits) {
  const exact = number.toExponential(60); // no number that lies between two of three digits has more
  const [mantissa, exponent] = exact.split("e");
  const kept = mantissa.indexOf(".") + digits;
  const isHalf = /^50*$/.test(mantissa.slice(kept));
  const isEven = Number(mantissa[kept - 1]) % 2 === 0;
  if (isHalf && isEven) return [mantissa.slice(0, kept), Number(exponent)];
  const [up, power] = number.toExponential(digits - 1).split("e");
  return [up, Number(power)];
}
