// One call of a loaded graph: compared with what was recorded, as proof/judging/call.py does, or to be refused, as
// proof/running/refusals.py has it.

import { longAxis, sample, tokenAxis } from "./golden.mjs";
import { compareNames, judge, maxAbs, maxUlp, measure, peakOf, plus, worst } from "./judge.mjs";
import { compareScores } from "./scores.mjs";
import { oneLine } from "./session.mjs";

const CRASHED = /abort|unreachable|out of bounds|out of memory|bad_alloc/i;

// Runs one case, and compares each output with eager's, the reference's and, where there is one, the model's.
export async function compareCase({ manifest, runtime, session, call, recorded, proof }) {
  const failed = (reason) => [{ ...EMPTY, case: call.name, reason }];
  let produced = {};
  try {
    produced = await session.run(recorded.feeds);
  } catch (error) {
    return failed(oneLine(error));
  }
  const names = compareNames(Object.keys(produced), Object.keys(recorded.eager));
  if (names) return failed(names);
  const tolerances = tolerancesOf(call, manifest, runtime, proof);
  const outputs = {};
  for (const port of manifest.outputs) {
    outputs[port.name] = sampled(port, produced[port.name], recorded.rows[port.name]);
  }
  const comparisons = manifest.outputs.flatMap((port) => {
    const against = Object.keys(tolerances).filter((name) => recorded[name][port.name]);
    const task = { call, port, recorded, actual: outputs[port.name], manifest };
    return against.map((name) => comparisonOf(task, name, tolerances[name]));
  });
  if (manifest.family !== "rotary" || !tolerances.model) return comparisons;
  return [...comparisons, ...compareScores(call, manifest.outputs, outputs, recorded.model)];
}

const EMPTY = { output: "", against: "eager", maxAbs: 0, maxUlp: 0, position: null, passed: false, reason: "", peak: 0 };

// Returns the tolerances against eager, the reference and the model, of a file on a provider.
function tolerancesOf(call, manifest, runtime, proof) {
  const artifact = manifest.artifacts.find(({ file }) => file === proof.files[0].file);
  const eager = plus(call.eager_tolerance, artifact.eager_tolerance);
  // the bits of eager are promised of what was captured from it, on a CPU
  const promised = (runtime.same_bits && !manifest.foreign) || !eager.bits;
  return {
    eager: promised ? eager : plus(call.tolerance, call.tolerance),
    reference: call.tolerance,
    ...(call.model_tolerance ? { model: call.model_tolerance } : {}),
  };
}

// Returns the rows of an output that were recorded, or all of an output too short for that, which then fails.
function sampled(port, array, rows) {
  if (!rows || array.dims.length !== port.axes.length) return array;
  const axis = longAxis(port, array.dims);
  return array.dims[axis] <= rows.at(-1) ? array : sample(array, rows, axis);
}

function comparisonOf({ call, port, recorded, actual, manifest }, against, tolerance) {
  const difference = measure(actual, recorded[against][port.name]);
  return {
    case: call.name,
    output: port.name,
    against,
    maxAbs: maxAbs(difference),
    maxUlp: maxUlp(difference),
    position: worstPosition({ call, port, recorded, manifest }, difference),
    peak: peakOf(difference),
    ...judge(difference, tolerance, recorded.masked[port.name], call.masked_atol),
  };
}

// Returns the position at which an output has its largest error; null without an error, or an axis of positions.
function worstPosition({ call, port, recorded, manifest }, difference) {
  const { error, dims } = difference;
  if (!error || dims.length < 2 || !(maxAbs(difference) > 0)) return null;
  const axis = tokenAxis(port, dims);
  const rows = recorded.rows[port.name] || Array.from({ length: dims[axis] }, (_, row) => row);
  if (dims[axis] !== rows.length) return null;
  const row = rows[worst(difference)[axis]];
  const along = dims.length === port.axes.length ? port.axes[axis].name : "";
  const { name } = manifest.inputs.find((input) => givesPositions(input, along)) || {};
  // the first sequence has no padding
  const positions = name && recorded.feeds[name];
  return positions && rows.at(-1) < positions.dims[1] ? Number(positions.data[row]) : call.first + row;
}

function givesPositions({ axes, carries }, along) {
  return carries.what === "positions" && axes.length === 2 && along !== "" && axes[1].name === along;
}

// Demands an error where a position is beyond what the graph holds, or an input is longer than another.
export async function refusalOf({ runtime, session, call, recorded, proof }) {
  try {
    await session.run(recorded.feeds);
  } catch (error) {
    const text = oneLine(error);
    const crashed = error.isLost || CRASHED.test(text);
    return { status: crashed ? "fail" : "pass", detail: `${call.name}: ${text}`, note: "" };
  }
  if (runtime.lenient) return { status: "skip", detail: runtime.lenient, note: "" };
  if (!proof.rules.known_refusals && call.unlike) return { status: "pass", detail: "", note: unlikeLengths(call) };
  // -at-1 in a name reads like position 1
  const at = call.first < 0 ? ` at position ${call.first}` : "";
  return { status: "fail", detail: `${call.name}: gave an answer, expected an error${at}`, note: "" };
}

// Says in words which lengths are unlike in a call that a graph answers although its own module refuses it.
function unlikeLengths({ unlike, sizes }) {
  const own = Object.entries(unlike).flatMap(([port, axes]) => Object.entries(axes).map((entry) => [port, ...entry]));
  const lengths = own.map(([port, axis, size]) => `${port} with ${size} of ${axis}`);
  return `${lengths.join(", ")} where the others have ${sizes[own[0][1]]}`;
}
