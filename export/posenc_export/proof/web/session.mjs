// Loads an ONNX file in onnxruntime-web, in a browser: with WebAssembly, or on a GPU by WebGPU.
//
//   const session = await openSession("webgpu", "/ort", bytes);   // "/ort" is the folder dist/ of onnxruntime-web
//   const outputs = await session.run({ x: { type: "float32", dims: [1, 2], data: new Float32Array(2) } });
//
// Arrays are those of npy.mjs. `session.adapter` names the GPU, `session.nodes` says which provider runs which nodes,
// `session.hasHalf` whether it computes in float16.

// Which build of onnxruntime-web a runtime is, and the provider that it asks for.
export const BUILDS = {
  wasm: { file: "ort.wasm.min.mjs", provider: "wasm" },
  webgpu: { file: "ort.webgpu.min.mjs", provider: "webgpu" },
  jsep: { file: "ort.all.min.mjs", provider: "webgpu" }, // the older WebGPU provider, in JavaScript
};
const SILENT = 4; // a refusal is an exception: the log would repeat it
const VERBOSE = 0; // the log then says which provider runs each node
const libraries = new Map();
let lines = []; // what ONNX Runtime has logged

// Returns what an error says, in one line.
export function oneLine(error) {
  const text = String((error && error.message) || error);
  return text.replace(/^.*ERROR_MESSAGE: /s, "").replace(/\s+/g, " ").trim();
}

// Returns the library of a build, which lies in a folder; it is loaded once.
export function loadLibrary(name, folder) {
  const key = `${name} ${folder}`;
  if (!libraries.has(key)) libraries.set(key, imported(name, folder));
  return libraries.get(key);
}

async function imported(name, folder) {
  const build = BUILDS[name];
  if (!build) throw new Error(`there is no build ${name}: expected ${Object.keys(BUILDS).join(", ")}`);
  if (build.provider === "webgpu" && !(await adapterName())) throw new Error("this browser has no adapter for WebGPU");
  const place = new URL(`${folder}/`, globalThis.location && globalThis.location.href);
  const ort = await import(new URL(build.file, place).href);
  ort.env.wasm.numThreads = 1; // the order of sums is then the same in every call
  ort.env.wasm.wasmPaths = place.href;
  return ort;
}

// Returns the name of the GPU that WebGPU gives, or "" where it gives none.
export async function adapterName() {
  const adapter = globalThis.navigator.gpu && (await globalThis.navigator.gpu.requestAdapter());
  if (!adapter) return "";
  const { vendor, architecture, device, description } = adapter.info;
  return [vendor, architecture, device, description].filter(Boolean).join(" ") || "an adapter without a name";
}

// Loads a model of these bytes (Uint8Array); throws an Error where the library cannot load it.
export async function openSession(name, folder, bytes) {
  const ort = await loadLibrary(name, folder);
  const { provider } = BUILDS[name];
  const options = { executionProviders: [provider], logSeverityLevel: VERBOSE };
  const create = () => listening(() => ort.InferenceSession.create(bytes, options));
  let session = await create();
  let failed = false;
  const run = async (feeds) => {
    // on WebGPU, an exception of a kernel on the CPU leaves a session locked: its next call would never end
    if (failed) {
      const locked = session;
      session = await create();
      await locked.release(); // only now: without any session the GPU's device ends
    }
    failed = provider === "webgpu";
    const outputs = await ran(ort, session, feeds);
    failed = false;
    return outputs;
  };
  const device = provider === "webgpu" ? await ort.env.webgpu.device : null;
  return {
    inputNames: session.inputNames,
    outputNames: session.outputNames,
    adapter: device ? await adapterName() : "",
    hasHalf: !device || device.features.has("shader-f16"), // without it the older provider is wrong without an error
    version: ort.env.versions.web,
    nodes: placed(lines),
    run: (feeds) => (device ? Promise.race([run(feeds), lost(device)]) : run(feeds)),
    release: () => session.release(),
  };
}

// Runs `work` while the library's log goes to `lines`. The compiled code keeps the functions that it finds at its start.
async function listening(work) {
  const names = ["debug", "error", "info", "log", "warn"];
  const own = names.map((word) => console[word]);
  lines = [];
  for (const word of names) console[word] = (...words) => lines.push(words.join(" "));
  try {
    return await work();
  } finally {
    names.forEach((word, i) => (console[word] = own[i]));
  }
}

// Throws an Error, whose `isLost` is true, where a device is lost: a call on it may never end.
async function lost(device) {
  const { message } = await device.lost;
  throw Object.assign(new Error(`the GPU's device was lost: ${message}`), { isLost: true });
}

async function ran(ort, session, feeds) {
  const tensors = {};
  for (const name of session.inputNames) {
    const { type, dims, data } = feeds[name];
    tensors[name] = new ort.Tensor(type, data, dims);
  }
  lines = [];
  const results = await session.run(tensors, { logSeverityLevel: SILENT });
  const outputs = {};
  for (const name of session.outputNames) {
    const { type, dims } = results[name];
    const data = await results[name].getData();
    // halves are held by their bits: some browsers have an array of their own for them
    const bits = type === "float16" ? new Uint16Array(data.buffer, data.byteOffset, data.length) : data;
    outputs[name] = { type, dims: [...dims], data: bits };
  }
  return outputs;
}

// Returns which provider runs which nodes, [provider, node, operator] each, as a log of these lines says:
//
//   [V:onnxruntime:, session_state.cc:1383 VerifyEachNodeIsAssignedToAnEp]  Node(s) placed on [CPUExecutionProvider]. Number of nodes: 1
//   [V:onnxruntime:, session_state.cc:1385 VerifyEachNodeIsAssignedToAnEp]   Cast (node_Cast_8)
//
// Where one provider runs all nodes, the log has their number alone: node and operator are then "".
function placed(log) {
  const nodes = [];
  let provider = "";
  for (const line of log.filter((text) => text.includes("VerifyEachNodeIsAssignedToAnEp]"))) {
    const group = /\] +(All nodes|Node\(s\)) placed on \[(\w+)\]\. Number of nodes: (\d+)$/.exec(line);
    const node = /\] +(\w+) \((.*)\)$/.exec(line);
    if (group) provider = group[2];
    if (group && group[1] === "All nodes") nodes.push(...Array(Number(group[3])).fill([provider, "", ""]));
    if (!group && node && provider) nodes.push([provider, node[2], node[1]]);
  }
  return nodes;
}
