// Scores of rotated queries and keys against those of a model, for which the order of features does not matter: the
// rules of proof/judging/scores.py, in a browser.

import { allowance, maxAbs, measure, peakOf, plus, worst } from "./judge.mjs";
import { general, wide } from "./numbers.mjs";

const TOKENS = 512; // of a call, at most: of more tokens some, in even steps

// Returns how the scores of rotated queries and keys differ from the model's, as a share of both heads' lengths: a
// comparison, or none where the outputs are not two of the model's shape.
export function compareScores(call, ports, produced, model) {
  const both = ports.filter(({ name }) => name in model).map(({ name }) => [produced[name].dims, model[name].dims]);
  const alike = both.every(([ours, theirs]) => String(ours) === String(theirs) && !ours.includes(0));
  if (both.length !== 2 || ports.length !== 2 || !alike) return [];
  const [q, k] = ports.map((port) => headsOf(call, port, produced[port.name], model[port.name]));
  return [{ case: call.name, output: "scores", against: "model", position: null, ...judged(q, k) }];
}

// |dq . k| + |q . dk| + |dq . dk| are at most the products of lengths (Cauchy and Schwarz).
function judged(q, k) {
  const lengths = productsOf(column(q, q.lengths), column(k, k.lengths));
  const share = (products) => ({ ...products, data: products.data.map((product, i) => product / lengths.data[i]) });
  const [ours, model] = ["ours", "model"].map((whose) => share(productsOf(q[whose], k[whose])));
  const [offQ, offK] = [q, k].map((heads) => column(heads, heads.allowed.map((off, i) => 1 + off / heads.lengths[i])));
  const allowed = productsOf(offQ, offK).data.map((product) => product - 1);
  const difference = measure(ours, model);
  const passed = difference.error.every((error, i) => error <= allowed[i]);
  const at = worst(difference);
  const bound = allowed[flat(at, difference.dims)];
  const words = `q k^T is off by ${general(maxAbs(difference), 3)} of |q| |k| at [${at.join(", ")}]`;
  const reason = passed ? "" : `${words}, expected at most ${general(bound, 2)}`;
  return { maxAbs: maxAbs(difference), maxUlp: 0, peak: peakOf(difference), passed, reason };
}

const flat = (index, dims) => index.reduce((at, place, axis) => at * dims[axis] + place, 0);

// Returns a number for each head and token as an array whose only feature it is.
const column = ({ ours }, data) => ({ type: "float64", dims: [...ours.dims.slice(0, 3), 1], data });

// Returns {ours, model, allowed, lengths} of an output: heads as (batch, heads, tokens, features), and for each how
// long the difference of the two may be, and how long the model's is.
function headsOf(call, port, produced, expected) {
  const [angle, others] = shares(call);
  const [narrow, model] = [produced, expected].map((array) => laidOut(port, array));
  const ours = { ...narrow, type: "float64", data: Float64Array.from(wide(narrow)) };
  const lengths = norms(model.data, model.dims[3]);
  // roundings are those of the dtype that was produced
  const roundings = norms(allowance(measure(narrow, model), others), model.dims[3]);
  const allowed = roundings.map((rounding, i) => angle * lengths[i] + rounding);
  return { ours, model, allowed, lengths: lengths.map((length) => (length > 0 ? length : 1)) };
}

// Returns the angle in radians by which a model's pairs may be off, and how far each feature may be off beside it.
function shares({ tolerance, model_tolerance: ofModel }) {
  const angle = Math.max(0, ofModel.vector - plus(tolerance, tolerance).vector) / 2;
  return [angle, { ...ofModel, vector: ofModel.vector - 2 * angle }];
}

function norms(data, features) {
  return Float64Array.from({ length: data.length / features }, (_, head) => {
    let sum = 0;
    for (let i = head * features; i < (head + 1) * features; i++) sum += data[i] * data[i];
    return Math.sqrt(sum);
  });
}

// Returns heads as (batch, heads, tokens, features), at most TOKENS of the tokens.
function laidOut(port, { type, dims, data }) {
  const kinds = port.axes.map(({ kind }) => kind);
  const lengths = kinds.flatMap((kind, i) => (kind === "length" || kind === "grid" ? [i] : []));
  const strides = dims.map((_, axis) => dims.slice(axis + 1).reduce((all, size) => all * size, 1));
  const tokens = lengths.reduce((offsets, axis) => spreadOver(offsets, dims[axis], strides[axis]), [0]);
  const kept = steps(tokens.length).map((token) => tokens[token]);
  const [batch, heads, last] = [kinds.indexOf("batch"), kinds.indexOf("heads"), dims.length - 1];
  const rows = [[dims[batch], strides[batch]], [dims[heads], strides[heads]]].reduce(
    (offsets, [size, stride]) => spreadOver(offsets, size, stride),
    [0],
  );
  const features = dims[last];
  const made = new data.constructor(rows.length * kept.length * features);
  let at = 0;
  for (const row of rows) {
    for (const token of kept) {
      for (let i = 0; i < features; i++) made[at++] = data[row + token + i];
    }
  }
  return { type, dims: [dims[batch], dims[heads], kept.length, features], data: made };
}

const spreadOver = (offsets, size, stride) =>
  offsets.flatMap((offset) => Array.from({ length: size }, (_, i) => offset + i * stride));

// Returns indices of at most TOKENS of so many, from the first to the last.
function steps(count) {
  if (count <= TOKENS) return Array.from({ length: count }, (_, i) => i);
  const places = Array.from({ length: TOKENS }, (_, i) => Math.floor((i * (count - 1)) / (TOKENS - 1)));
  return [...new Set(places)];
}

// Returns q k^T, where a head of keys serves a group of queries: (batch, heads, tokens of q, tokens of k).
function productsOf(q, k) {
  const [batch, all, tokens, features] = q.dims;
  const [, keyHeads, keys] = k.dims;
  const groups = Math.max(1, Math.floor(all / keyHeads));
  const heads = Math.min(all, keyHeads * groups);
  const data = new Float64Array(batch * heads * tokens * keys);
  let at = 0;
  for (let b = 0; b < batch; b++) {
    for (let head = 0; head < heads; head++) {
      const [left, right] = [(b * all + head) * tokens, (b * keyHeads + Math.floor(head / groups)) * keys];
      for (let row = left; row < left + tokens; row++) {
        for (let key = right; key < right + keys; key++) {
          let sum = 0;
          for (let i = 0; i < features; i++) sum += q.data[row * features + i] * k.data[key * features + i];
          data[at++] = sum;
        }
      }
    }
  }
  return { type: "float64", dims: [batch, heads, tokens, keys], data };
}
