// Comparisons as a row of the report: figures, counts and reasons, in the words of proof/report/rows.py and run.py.

import { general } from "./numbers.mjs";

// Returns the comparison with the largest error against eager, the reference or the model; a NaN is the largest. A call
// without an answer has no error: it is returned where no call has one.
export function worstOf(comparisons, against) {
  const size = ({ output, maxAbs }) => (!output ? -1 : Number.isNaN(maxAbs) ? Infinity : maxAbs);
  const candidates = comparisons.filter((comparison) => comparison.against === against);
  return candidates.reduce((most, other) => (most && size(most) >= size(other) ? most : other), null);
}

// Returns an error in words: its size and its position.
export function figure(comparison) {
  if (!comparison) return "";
  if (!comparison.output) return "no answer";
  const { maxAbs, maxUlp, against, passed, position, peak } = comparison;
  if (maxAbs === 0 && passed) return against === "eager" ? "same bits" : "0";
  const where = position !== null && against !== "eager" ? ` at position ${position.toLocaleString("en")}` : "";
  // near zero an ulp is tiny, and an error has thousands of them: there the absolute error says more
  const ulps = against === "eager" && maxUlp < 100 ? `, ${general(maxUlp, 3)} ulp` : "";
  if (maxAbs > 1 && peak > maxAbs) return `${general((100 * maxAbs) / peak, 2)}% of ${general(peak, 2)}${where}`;
  return `${general(maxAbs, 2)}${ulps}${where}`;
}

// Folds the comparisons of a runtime into one verdict: {status, detail}.
export function agreement(comparisons, cases) {
  if (!comparisons.length) return { status: "fail", detail: "no case was run" };
  const wrong = comparisons.filter((comparison) => !comparison.passed);
  if (!wrong.length) return { status: "pass", detail: `${cases} cases` };
  const [first] = wrong;
  const more = wrong.length > 1 ? ` (and ${wrong.length - 1} more)` : "";
  const where = first.output ? `${first.output} against ${first.against} in ${first.case}` : first.case;
  return { status: "fail", detail: `${where}: ${first.reason}${more}` };
}

// Folds the refusals of a runtime, {status, detail, note}, into one: the first that failed, else the first not run.
export function foldedRefusals(verdicts) {
  const answered = verdicts.filter(({ note }) => note);
  const others = verdicts.filter(({ note }) => !note);
  const calls = answered.map(({ note }) => note).join("; ");
  const before = "answers where the module refuses inputs of unlike lengths";
  const note = calls ? `${before}: ${calls}: compare lengths before the call` : "";
  if (!others.length) return answered.length ? [{ status: "skip", detail: note, note: "" }] : [];
  const of = (status) => others.filter((verdict) => verdict.status === status);
  const all = { status: "pass", detail: others.map(({ detail }) => detail).join("; ") };
  return [{ ...[...of("fail"), ...of("skip"), all][0], note }];
}
