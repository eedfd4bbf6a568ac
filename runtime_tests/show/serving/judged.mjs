// Judges pairs of arrays in Node.js: `node judged.mjs WEB FOLDER`, WEB the folder of our modules.
//
// FOLDER/pairs.npz has N/actual and N/expected, FOLDER/tolerances.json a tolerance for each N. N/masked, where there is
// one, says which elements may be off by MORE in addition.
import fs from "node:fs";
import path from "node:path";

const MORE = 0.25;
const [web, folder] = process.argv.slice(2);
const load = (name) => import(path.join(web, name));
const judge = await load("judge.mjs");
const { openNpz } = await load("npz.mjs");
const { parseNpy } = await load("npy.mjs");
const { figure } = await load("rows.mjs");

const npz = openNpz(fs.readFileSync(path.join(folder, "pairs.npz")));
const tolerances = JSON.parse(fs.readFileSync(path.join(folder, "tolerances.json")));
const text = (number) => (Number.isFinite(number) ? number : String(number));
const results = [];
for (const [number, tolerance] of tolerances.entries()) {
  const array = async (word) => parseNpy(await npz.read(`${number}/${word}`, 2 ** 24));
  const [actual, expected] = await Promise.all(["actual", "expected"].map(array));
  const masked = npz.has(`${number}/masked`) ? await array("masked") : null;
  const difference = judge.measure(actual, expected);
  const measured = [judge.maxAbs, judge.maxUlp, judge.peakOf].map((measure) => measure(difference));
  const [maxAbs, maxUlp, peak] = measured;
  const judgement = judge.judge(difference, tolerance, masked, MORE);
  const comparison = { output: "y", maxAbs, maxUlp, peak, against: "eager", position: null, ...judgement };
  results.push({
    measured: measured.map(text),
    worst: judge.worst(difference),
    same: difference.sameBits,
    figure: figure(comparison),
    ...judgement,
  });
}
// FOLDER/scores.json, where there is one: calls with {call, ports} for N/q, N/k, N/q.model and N/k.model of scores.npz
const scores = path.join(folder, "scores.json");
if (fs.existsSync(scores)) {
  const { compareScores } = await load("scores.mjs");
  const heads = openNpz(fs.readFileSync(path.join(folder, "scores.npz")));
  const read = async (key) => parseNpy(await heads.read(key, 2 ** 24));
  for (const [number, { call, ports }] of JSON.parse(fs.readFileSync(scores)).entries()) {
    const [q, k, ofQ, ofK] = await Promise.all(["q", "k", "q.model", "k.model"].map((word) => read(`${number}/${word}`)));
    results.push(compareScores(call, ports, { q, k }, { q: ofQ, k: ofK }));
  }
}
console.log(JSON.stringify(results));
