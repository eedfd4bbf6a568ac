// What transformers.js gives for one call of a task's class: run by task_loaders.py; POSENC_NPM is where it is installed.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const found = createRequire(path.join(process.env.POSENC_NPM, 'package.json')).resolve('@huggingface/transformers');
const js = await import(pathToFileURL(path.join(path.dirname(found), 'transformers.node.mjs')));
const [folder, name, inputs, count] = process.argv.slice(2);
js.env.allowRemoteModels = false;
js.env.localModelPath = path.dirname(folder);
const options = { dtype: 'fp32', device: 'cpu', subfolder: '', local_files_only: true };
const model = await js[name].from_pretrained(path.basename(folder), options);
const given = {};
for (const [key, { type, dims, data }] of Object.entries(JSON.parse(readFileSync(inputs, 'utf-8')))) {
  const values = type === 'int64' ? BigInt64Array.from(data, BigInt) : Float32Array.from(data);
  given[key] = new js.Tensor(type, values, dims);
}
const answer = {};
if (Number(count)) {
  const tokens = await model.generate({ ...given, max_new_tokens: Number(count), do_sample: false, eos_token_id: null });
  answer.tokens = tokens.tolist().map((row) => row.map(Number));
} else {
  const outputs = await model(given);
  for (const [key, value] of Object.entries(outputs)) {
    if (value instanceof js.Tensor && value.type === 'float32') answer[key] = value.tolist();
  }
}
console.log(JSON.stringify(answer));
