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

function oneLine(error) {
  const text = String((error && error.message) || error);
  return text.replace(/^.*ERROR_MESSAGE: /s, "").replace(/\s+/g, " ").trim();
}

function readTensor(ort, npy, file) {
  const { type, dims, data } = npy.parseNpy(fs.readFileSync(file), file);
  return new ort.Tensor(type, data, dims);
}

async function run(ort, npy, session, from, to) {
  const feeds = {};
  for (const name of session.inputNames) feeds[name] = readTensor(ort, npy, path.join(from, `${name}.npy`));
  const outputs = await session.run(feeds);
  for (const name of session.outputNames) {
    fs.writeFileSync(path.join(to, `${name}.npy`), npy.npyBytes(outputs[name], `output ${name}`));
  }
}

async function serve(ort, npy, session) {
  console.log("ready");
  for await (const line of readline.createInterface({ input: process.stdin })) {
    try {
      await run(ort, npy, session, ...line.split("\t"));
      console.log("ok");
    } catch (error) {
      console.log(`error: ${oneLine(error)}`);
    }
  }
}

async function main([folder, model]) {
  const ort = require(folder);
  const npy = await import("../web/npy.mjs");
  ort.env.wasm.numThreads = 1; // the order of sums is then the same in every call
  const options = { executionProviders: ["wasm"], logSeverityLevel: 4 };
  await serve(ort, npy, await ort.InferenceSession.create(model, options));
}

main(process.argv.slice(2)).catch((error) => {
  console.error(`error: ${oneLine(error)}`);
  process.exit(1);
});
