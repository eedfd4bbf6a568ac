// What a page does for posenc_export.proof.runtimes.browser.host: it loads graphs, and runs them on the arrays of the host.
//
// Graphs are at model/NUMBER, arrays at arrays/NAME.npy, from where this page was loaded; the library is in ort/. Every
// function answers an object: {error} with one line where it fails, and isLost where no graph of this page runs any more.
import { npyBytes, parseNpy } from "./npy.mjs";
import { oneLine, openSession } from "./session.mjs";

const sessions = new Map(); // by the number of the graph
const LEAST = 3; // calls that are timed

async function fetched(place, options) {
  const answer = await fetch(place, options);
  if (!answer.ok) throw new Error(`${place}: status ${answer.status}`);
  return answer.arrayBuffer();
}

async function answered(work) {
  try {
    return await work();
  } catch (error) {
    return { error: oneLine(error), isLost: Boolean(error && error.isLost) };
  }
}

const sessionOf = (number) => {
  if (!sessions.has(number)) throw new Error(`no graph ${number} is loaded`);
  return sessions.get(number);
};

async function feedsOf(session) {
  const feeds = {};
  for (const name of session.inputNames) feeds[name] = parseNpy(await fetched(`arrays/${name}.npy`), name);
  return feeds;
}

globalThis.posenc = {
  open: (build, number) =>
    answered(async () => {
      const session = await openSession(build, "ort", new Uint8Array(await fetched(`model/${number}`)));
      sessions.set(number, session);
      const { adapter, hasHalf, version, nodes } = session;
      return { adapter, hasHalf, version, nodes };
    }),
  run: (number) =>
    answered(async () => {
      const session = sessionOf(number);
      const outputs = await session.run(await feedsOf(session));
      for (const [name, array] of Object.entries(outputs)) {
        await fetched(`arrays/${name}.npy`, { method: "PUT", body: npyBytes(array, `output ${name}`) });
      }
      return {};
    }),
  // Calls until so many milliseconds have passed; answers how long each call took, its inputs and outputs in this page.
  time: (number, milliseconds) =>
    answered(async () => {
      const session = sessionOf(number);
      const feeds = await feedsOf(session);
      const times = [];
      for (const end = performance.now() + milliseconds; times.length < LEAST || performance.now() < end; ) {
        const start = performance.now();
        await session.run(feeds);
        times.push(performance.now() - start);
      }
      return { times };
    }),
  close: (number) =>
    answered(async () => {
      const session = sessions.get(number);
      sessions.delete(number);
      if (session) await session.release();
      return {};
    }),
};
