// Reads and writes .npy files, in a browser and under Node.js.
//
// An array is {type, dims, data}: ONNX's word for its dtype, its sizes, and a typed array in C order. Halves are held by
// their 16 bits.

// NumPy's word for a dtype, ONNX's, and the array that holds it.
const DTYPES = [
  ["<f4", "float32", Float32Array],
  ["<f8", "float64", Float64Array],
  ["<f2", "float16", Uint16Array],
  ["<i8", "int64", BigInt64Array],
  ["<i4", "int32", Int32Array],
  ["|b1", "bool", Uint8Array],
];
const MAGIC = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59]; // \x93NUMPY

// Returns the array of a file's bytes (an ArrayBuffer or a Uint8Array); throws an Error, with the name, for other bytes.
export function parseNpy(source, name = "the file") {
  const bytes = source instanceof Uint8Array ? source : new Uint8Array(source);
  if (bytes.length < 12 || MAGIC.some((byte, i) => bytes[i] !== byte)) throw new Error(`${name} is no .npy file`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const wide = bytes[6] > 1; // from version 2 on the header's length has four bytes
  const begin = wide ? 12 : 10;
  const end = begin + (wide ? view.getUint32(8, true) : view.getUint16(8, true));
  const header = new TextDecoder("latin1").decode(bytes.subarray(begin, end));
  const descr = /'descr': '([^']+)'/.exec(header);
  const shape = /'shape': \(([^)]*)\)/.exec(header);
  const known = descr && DTYPES.find(([word]) => word === descr[1]);
  const order = /'fortran_order': (True|False)/.exec(header);
  if (!known || !shape || !order) throw new Error(`${name} holds ${header.trim()}`);
  const [, type, Holder] = known;
  const dims = shape[1].split(",").filter((size) => size.trim()).map(Number);
  // a copy: a typed array begins at a multiple of its element's size
  const data = new Holder(bytes.buffer.slice(bytes.byteOffset + end, bytes.byteOffset + bytes.byteLength));
  if (data.length !== dims.reduce((product, size) => product * size, 1)) throw new Error(`${name} is cut short`);
  return { type, dims, data: order[1] === "True" ? byRows(data, dims) : data };
}

// Returns numbers in C order of an array whose first axis runs fastest: NumPy writes what was transposed so.
function byRows(data, dims) {
  const made = new data.constructor(data.length);
  const strides = dims.map((_, axis) => dims.slice(0, axis).reduce((product, size) => product * size, 1));
  const index = dims.map(() => 0);
  for (let at = 0, from = 0; at < data.length; at++) {
    made[at] = data[from];
    for (let axis = dims.length - 1; axis >= 0; axis--) {
      from += strides[axis];
      if (++index[axis] < dims[axis]) break;
      from -= dims[axis] * strides[axis];
      index[axis] = 0;
    }
  }
  return made;
}

// Returns an array as the bytes of a .npy file; throws an Error, with the name, where its dtype is not known here.
export function npyBytes({ type, dims, data }, name = "the array") {
  const known = DTYPES.find(([, word]) => word === type);
  if (!known) throw new Error(`${name} is ${type}, which is not read back`);
  const sizes = dims.length === 1 ? `${dims[0]},` : dims.join(", ");
  const header = `{'descr': '${known[0]}', 'fortran_order': False, 'shape': (${sizes}), }`;
  const padded = header.padEnd(Math.ceil((header.length + 11) / 64) * 64 - 11) + "\n";
  const bytes = new Uint8Array(10 + padded.length + data.byteLength);
  bytes.set([...MAGIC, 1, 0, padded.length & 0xff, padded.length >> 8]);
  bytes.set(new TextEncoder().encode(padded), 10);
  bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), 10 + padded.length);
  return bytes;
}
