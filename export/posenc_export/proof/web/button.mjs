// The section of a page that proves its bundle in the visitor's browser: a button, what is being done, and the table.
//
// Whatever a bundle says is put into the page as text, never as markup.

const element = (id) => document.getElementById(`proof-${id}`);
let worker = null;
let timer = 0;
// How each call came out on all providers so far, by its name.
let outcomes = new Map();

// Makes the button work. `proof` is what posenc says of the bundle, see prove.mjs.
export function offer(proof) {
  element("begin").addEventListener("click", () => begin(proof));
  element("stop").addEventListener("click", () => end("stopped"));
  element("begin").disabled = false;
}

function begin(proof) {
  for (const name of ["rows", "lines"]) element(name).replaceChildren();
  outcomes = new Map();
  element("table").hidden = true;
  running(true);
  worker = new Worker(new URL("worker.mjs", import.meta.url), { type: "module" });
  worker.onmessage = ({ data }) => heard(data, proof);
  worker.onerror = (event) => end(`failed: ${event.message || "the worker cannot be loaded"}`);
  worker.postMessage({ proof, base: document.baseURI });
  wait(proof);
}

// A graph that answers nothing for as long as a call may take is stopped.
function wait(proof) {
  clearTimeout(timer);
  if (!proof.timeout) return;
  const doing = element("status").textContent;
  timer = setTimeout(() => end(`failed: ${doing}: no answer in ${proof.timeout} seconds`), 1000 * proof.timeout);
}

function heard(message, proof) {
  if (message.progress) say(message.progress);
  if (message.row) show(message.row, proof);
  if (message.done) {
    const text = summary();
    conclude(text.slice("done: ".length), proof);
    return end(text);
  }
  if (message.error) return end(`failed: ${message.error}`);
  wait(proof);
}

function end(text) {
  clearTimeout(timer);
  if (worker) worker.terminate();
  worker = null;
  running(false);
  say(text);
}

function running(yes) {
  element("stop").hidden = !yes;
  element("begin").disabled = yes;
}

function say(text) {
  element("status").textContent = text;
}

const statusesOfRows = () => [...element("rows").children].map((row) => row.className);

// Says how it came out: what agreed and what did not, never that something passed that did not run.
function summary() {
  const statuses = statusesOfRows();
  const count = (status) => statuses.filter((one) => one === status).length;
  const parts = [
    [count("fail"), "failed"],
    [count("pass"), "agreed"],
    [count("skip"), "not run"],
  ];
  const words = parts.filter(([number]) => number).map(([number, word]) => `${number} ${word}`);
  return `done: ${words.join(", ") || "nothing was run"}`;
}

// Puts the verdict of this browser where the page says that nothing was tried.
function conclude(text, proof) {
  const place = document.getElementById("outcome");
  const badge = place?.querySelector(".badge");
  if (!badge || !(badge.classList.contains("skip") || place.dataset.here)) return; // a verdict of posenc validate stays
  const statuses = statusesOfRows();
  const status = statuses.includes("fail") ? "fail" : statuses.includes("pass") ? "pass" : "skip";
  place.dataset.here = status;
  badge.className = `badge ${status}`;
  badge.textContent = proof.outcomes[status];
  place.querySelector("span").textContent = `In this browser: ${text}.`;
}

// Colours the calls of the page as they came out: the worst of all providers that ran them.
function colour(calls, proof) {
  const RANK = ["skip", "refused", "pass", "fail"];
  const worse = (one, other) => (RANK.indexOf(one) >= RANK.indexOf(other) ? one : other);
  for (const [name, outcome] of Object.entries(calls)) outcomes.set(name, worse(outcome, outcomes.get(name) ?? "skip"));
  for (const node of document.querySelectorAll("[data-calls]")) {
    const own = node.dataset.calls.split(" ").map((name) => outcomes.get(name) ?? "skip");
    const outcome = own.includes("skip") && !own.includes("fail") ? "skip" : own.reduce(worse);
    node.classList.remove(...RANK);
    node.classList.add(outcome);
    if (node.classList.contains("mark")) node.textContent = proof.calls[outcome];
  }
  const title = document.getElementById("tried-title");
  if (title && [...outcomes.values()].some((outcome) => outcome !== "skip")) title.textContent = proof.tried;
  const legend = document.getElementById("tried-legend");
  const seen = new Set([...document.querySelectorAll("svg [data-calls]")].map((node) => RANK.find((one) => node.classList.contains(one))));
  legend?.replaceChildren(...[...seen].map((outcome) => entryOf(outcome, proof.calls[outcome])));
}

function entryOf(outcome, text) {
  const entry = made("li", "");
  entry.append(made("span", "", { class: `swatch call ${outcome}`, "aria-hidden": "true" }), text);
  return entry;
}

function show(row, proof) {
  element("table").hidden = false;
  const passed = row.verdicts.filter(({ check, status }) => check !== "agrees" && status === "pass");
  const figures = row.figures.slice(0, proof.columns.length - 4);
  const cells = [row.subject, proof.marks[row.status], ...figures, row.cases || "", passed.map(nameOf).join(", ")];
  const line = document.createElement("tr");
  line.className = row.status;
  line.append(...cells.map((text, i) => cellOf(text, i, row.status)));
  element("rows").append(line);
  colour(row.calls, proof);
  element("lines").append(...linesOf(row, proof).map((text) => made("li", text)));
}

const nameOf = ({ check }) => check;

function cellOf(text, column, status) {
  if (column === 0) return made("th", text, { scope: "row" });
  if (column > 1) return made("td", text);
  const cell = document.createElement("td");
  cell.append(made("span", text, { class: `mark ${status}` }));
  return cell;
}

function made(tag, text, attributes = {}) {
  const node = document.createElement(tag);
  node.textContent = text;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

// Returns a line for each failure, each check that did not run, each note, and what else is known.
function linesOf({ subject, verdicts, notTried, adapter }, { codes }) {
  const of = (wanted) => verdicts.filter(({ status }) => status === wanted);
  const named = (check) => (check === "agrees" ? subject : `${subject} ${check}`);
  return [
    ...of("fail").map(({ check, detail }) => `${codes[check]} ${subject} ${check}: ${detail}`),
    ...of("skip").map(({ check, detail }) => `not run: ${named(check)}: ${detail}`),
    ...verdicts.filter(({ note }) => note).map(({ check, note }) => `${subject} ${check}: ${note}`),
    ...notTried.map((call) => `${subject}: not tried: ${call}`),
    ...(adapter ? [`${subject}: on ${adapter}`] : []),
  ];
}
