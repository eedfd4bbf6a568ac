// Tokens that transformers.js writes behind pictures: run by scene_loaders.py; POSENC_NPM is where it is installed.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const found = createRequire(path.join(process.env.POSENC_NPM, 'package.json')).resolve('@huggingface/transformers');
const js = await import(pathToFileURL(path.join(path.dirname(found), 'transformers.node.mjs')));
const [folder, file, lines] = process.argv.slice(2);
const { asked, count, pad } = JSON.parse(readFileSync(file, 'utf8'));
js.env.allowRemoteModels = false;
js.env.localModelPath = path.dirname(folder);
const options = { dtype: 'fp32', device: 'cpu', subfolder: '', local_files_only: true };
const model = await js.AutoModelForImageTextToText.from_pretrained(path.basename(folder), options);
const manifest = JSON.parse(readFileSync(path.join(folder, 'manifest.json'), 'utf8'));
if (lines) (await import(pathToFileURL(lines))).mend(model, js, manifest);
const arrays = { float32: Float32Array, int64: BigInt64Array };
const tensor = ({ dtype, dims, data }) =>
  new js.Tensor(dtype, arrays[dtype].from(dtype === 'int64' ? data.map(BigInt) : data), dims);
const tokens = [];
for (const { prompts, images } of asked) {
  const width = Math.max(...prompts.map((prompt) => prompt.length));
  const rows = (before, each) =>
    prompts.map((prompt) => [...Array(width - prompt.length).fill(before), ...prompt.map(each)]);
  const whole = (data) => tensor({ dtype: 'int64', dims: [prompts.length, width], data: data.flat() });
  const written = await model.generate({
    input_ids: whole(rows(pad, (id) => id)),
    attention_mask: whole(rows(0, () => 1)),
    ...Object.fromEntries(Object.entries(images).map(([name, one]) => [name, tensor(one)])),
    max_new_tokens: count,
    do_sample: false,
    eos_token_id: null,
  });
  tokens.push(written.tolist().map((ids) => ids.slice(width).map(Number)));
}
console.log(JSON.stringify({ tokens }));
