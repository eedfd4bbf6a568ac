// The proof of a bundle in this browser: its golden cases on each provider, judged as `posenc validate` judges them.
//
// `proof` is proof.json, which posenc makes of a bundle: where its files are, which rules and words hold for it.

import { TooLarge, readCase } from "./golden.mjs";
import { compareCase, refusalOf } from "./calls.mjs";
import { openNpz } from "./npz.mjs";
import { agreement, figure, foldedRefusals, worstOf } from "./rows.mjs";
import { adapterName, oneLine, openSession } from "./session.mjs";

// What the WebGPU build says of a node of float64, which it has no kernel for on the CPU either.
const NO_KERNEL = /Provider type for \w+ node .* is not set/;

// Yields {progress} while it works, then a {row} for each provider, as they end.
//
// A row is {subject, status, figures, cases, verdicts, calls, notTried, adapter}; a verdict {check, status, detail, note};
// calls says how each call came out, by its name: pass, fail, refused, or skip.
export async function* prove(proof, base) {
  const folder = new URL(proof.bundle, base);
  const manifest = JSON.parse(new TextDecoder().decode(await fetched(folder, { file: "manifest.json" })));
  const files = [];
  for (const file of proof.files) {
    yield { progress: `fetching ${file.file}` };
    files.push(await fetched(folder, file));
  }
  const [model, golden] = files;
  const npz = openNpz(golden, "golden.npz");
  for (const runtime of proof.runtimes) yield* onRuntime({ proof, manifest, npz, model, runtime, base });
}

// Returns the bytes of a file; throws an Error where they are not those that the manifest lists.
async function fetched(folder, { file, bytes, sha256 }) {
  const response = await fetch(new URL(file, folder), { cache: "no-store" });
  if (!response.ok) throw new Error(`${file} cannot be fetched: status ${response.status}`);
  const data = new Uint8Array(await response.arrayBuffer());
  const listed = "it is not as the manifest lists it: the bundle was changed or is damaged";
  if (bytes !== undefined && data.length !== bytes) throw new Error(`${file} has ${data.length} bytes: ${listed}`);
  // pages without https have no digests, but on this machine
  if (sha256 && globalThis.crypto?.subtle && (await digest(data)) !== sha256) throw new Error(`${file}: ${listed}`);
  return data;
}

async function digest(data) {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
  return [...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function* onRuntime(task) {
  const { proof, model, runtime, base } = task;
  yield { progress: `loading ${proof.files[0].file} on ${runtime.name}` };
  if (runtime.unable) return yield { row: notRun(runtime, runtime.unable) };
  const missing = runtime.build === "wasm" ? "" : await lackOf(task.manifest);
  if (missing) return yield { row: notRun(runtime, missing) };
  let session = null;
  try {
    session = await openSession(runtime.build, new URL(proof.library.folder, base).href.replace(/\/$/, ""), model);
  } catch (error) {
    const text = oneLine(error);
    if (runtime.build !== "wasm" && NO_KERNEL.test(text)) return yield { row: notRun(runtime, proof.no_double) };
    return yield { row: rowOf(runtime, [{ check: "agrees", status: "fail", detail: text, note: "" }], []) };
  }
  try {
    yield* tried(task, session);
  } finally {
    await session.release();
  }
}

// Returns what this browser lacks for a bundle on WebGPU, or "".
async function lackOf({ inputs, outputs }) {
  if (!(await adapterName())) return "this browser has no adapter for WebGPU";
  const { features } = await navigator.gpu.requestAdapter();
  const halves = [...inputs, ...outputs].some(({ dtype }) => dtype === "float16");
  return halves && !features.has("shader-f16") ? "this browser's adapter for WebGPU has no float16 (shader-f16)" : "";
}

async function* tried({ proof, manifest, npz, runtime }, session) {
  const [comparisons, refusals, notTried, calls] = [[], [], [], {}];
  for (const call of manifest.cases) {
    yield { progress: `${runtime.name}: ${call.name}` };
    try {
      const recorded = await readCase(npz, manifest, call);
      const context = { proof, manifest, runtime, session, call, recorded };
      if (call.refused) {
        const refusal = await refusalOf(context);
        refusals.push(refusal);
        calls[call.name] = refusal.status === "pass" && !refusal.note ? "refused" : refusal.status;
      } else {
        const compared = await compareCase(context);
        comparisons.push(...compared);
        calls[call.name] = compared.every(({ passed }) => passed) ? "pass" : "fail";
      }
    } catch (error) {
      if (!(error instanceof TooLarge)) throw error;
      notTried.push(`${call.name}: ${error.message}`);
    }
  }
  const cases = manifest.cases.filter(({ refused }) => !refused).length - notTried.length;
  const ofModel = comparisons.filter(({ against }) => against === "model");
  const others = comparisons.filter(({ against }) => against !== "model");
  const verdicts = [{ check: "agrees", note: "", ...agreement(others, cases) }];
  if (ofModel.length) verdicts.push({ check: "model", note: "", ...agreement(ofModel, cases) });
  verdicts.push(...foldedRefusals(refusals).map((verdict) => ({ check: "refusal", note: "", ...verdict })));
  yield { row: { ...rowOf(runtime, verdicts, comparisons), calls, notTried, adapter: session.adapter } };
}

const notRun = (runtime, detail) => rowOf(runtime, [{ check: "agrees", status: "skip", detail, note: "" }], []);

function rowOf(runtime, verdicts, comparisons) {
  const statuses = verdicts.map(({ status }) => status);
  const agrees = statuses[0];
  return {
    subject: runtime.name,
    status: statuses.includes("fail") ? "fail" : agrees,
    figures: ["eager", "reference", "model"].map((against) => figure(worstOf(comparisons, against))),
    cases: new Set(comparisons.map((comparison) => comparison.case)).size,
    verdicts,
    calls: {},
    notTried: [],
    adapter: "",
  };
}
