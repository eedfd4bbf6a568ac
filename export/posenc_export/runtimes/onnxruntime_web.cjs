// Runs an ONNX file in the wasm backend of onnxruntime-web: what ort_runner is in C++ (see ../cpp/runner/README.md).
//
//   node onnxruntime_web.cjs PACKAGE MODEL
//
// PACKAGE is the folder of onnxruntime-web. Pairs of folders are read from standard input, a line each with a tab between
// them: IN/NAME.npy are the inputs, OUT/NAME.npy the outputs, and each line is answered by "ok" or "error: ...".
"use strict";
const fs = require("fs");
const path = require("path");
const readline = require("readline");

// NumPy's word for a dtype, ONNX's, and the array that holds it: of halves, their bits.
const DTYPES = [
  ["<f4", "float32", Float32Array],
  ["<f8", "float64", Float64Array],
  ["<f2", "float16", Uint16Array],
  ["<i8", "int64", BigInt64Array],
  ["<i4", "int32", Int32Array],
  ["|b1", "bool", Uint8Array],
];

function oneLine(error) {
  const text = String((error && error.message) || error);
  return text.replace(/^.*ERROR_MESSAGE: /s, "").replace(/\s+/g, " ").trim();
}

function readNpy(ort, folder, name) {
  const file = path.join(folder, `${name}.npy`);
  const bytes = fs.readFileSync(file);
  const wide = bytes[6] > 1; // from version 2 on the header's length has four bytes
  const begin = wide ? 12 : 10;
  const end = begin + (wide ? bytes.readUInt32LE(8) : bytes.readUInt16LE(8));
  const header = bytes.toString("latin1", begin, end);
  const [, descr] = /'descr': '([^']+)'/.exec(header);
  const shape = /'shape': \(([^)]*)\)/.exec(header)[1].split(",").filter((size) => size.trim()).map(Number);
  const known = DTYPES.find(([word]) => word === descr);
  if (!known || !header.includes("'fortran_order': False")) throw new Error(`${file} holds ${header.trim()}`);
  const [, type, Holder] = known;
  const data = new Holder(bytes.buffer.slice(bytes.byteOffset + end, bytes.byteOffset + bytes.length));
  return new ort.Tensor(type, data, shape);
}

function writeNpy(folder, name, tensor) {
  const known = DTYPES.find(([, type]) => type === tensor.type);
  if (!known) throw new Error(`output ${name} is ${tensor.type}, which is not read back`);
  const sizes = tensor.dims.length === 1 ? `${tensor.dims[0]},` : tensor.dims.join(", ");
  const header = `{'descr': '${known[0]}', 'fortran_order': False, 'shape': (${sizes}), }`;
  const padded = header.padEnd(Math.ceil((header.length + 11) / 64) * 64 - 11) + "\n";
  const start = Buffer.from("\x93NUMPY\x01\x00\x00\x00", "latin1");
  start.writeUInt16LE(padded.length, 8);
  const { buffer, byteOffset, byteLength } = tensor.data;
  const data = Buffer.from(buffer, byteOffset, byteLength);
  fs.writeFileSync(path.join(folder, `${name}.npy`), Buffer.concat([start, Buffer.from(padded, "latin1"), data]));
}

async function run(ort, session, from, to) {
  const feeds = {};
  for (const name of session.inputNames) feeds[name] = readNpy(ort, from, name);
  const outputs = await session.run(feeds);
  for (const name of session.outputNames) writeNpy(to, name, outputs[name]);
}

async function serve(ort, session) {
  console.log("ready");
  for await (const line of readline.createInterface({ input: process.stdin })) {
    try {
      await run(ort, session, ...line.split("\t"));
      console.log("ok");
    } catch (error) {
      console.log(`error: ${oneLine(error)}`);
    }
  }
}

async function main([folder, model]) {
  const ort = require(folder);
  ort.env.wasm.numThreads = 1; // the order of sums is then the same in every call
  const options = { executionProviders: ["wasm"], logSeverityLevel: 4 };
  await serve(ort, await ort.InferenceSession.create(model, options));
}

main(process.argv.slice(2)).catch((error) => {
  console.error(`error: ${oneLine(error)}`);
  process.exit(1);
});
