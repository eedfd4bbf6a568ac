// Proves a bundle beside the page, which stays responsive: a graph of a stranger's may compute for ever.

import { prove } from "./prove.mjs";
import { oneLine } from "./session.mjs";

// A message {proof, base} is answered by {progress} and {row}, then by {done}, or by {error} with one line.
onmessage = async ({ data }) => {
  try {
    for await (const message of prove(data.proof, data.base)) postMessage(message);
    postMessage({ done: true });
  } catch (error) {
    postMessage({ error: oneLine(error) });
  }
};
