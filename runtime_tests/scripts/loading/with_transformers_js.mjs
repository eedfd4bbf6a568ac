// Tokens that transformers.js writes: run by loaders.py; POSENC_NPM is the folder in which it is installed.
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const found = createRequire(path.join(process.env.POSENC_NPM, 'package.json')).resolve('@huggingface/transformers');
const js = await import(pathToFileURL(path.join(path.dirname(found), 'transformers.node.mjs')));
const [folder, text] = process.argv.slice(2);
const asked = JSON.parse(text);
js.env.allowRemoteModels = false;
js.env.localModelPath = path.dirname(folder);
const name = path.basename(folder);
const options = { dtype: 'fp32', device: 'cpu', subfolder: '', local_files_only: true };
const model = await js.AutoModelForCausalLM.from_pretrained(name, options);
const tokenizer = await js.AutoTokenizer.from_pretrained(name, { local_files_only: true });
const tokens = [];
for (const [i, prompts] of asked.prompts.entries()) {
  const width = Math.max(...prompts.map((prompt) => prompt.length));
  const row = (prompt, before, each) => [...Array(width - prompt.length).fill(before), ...prompt.map(each)];
  const tensor = (rows) => new js.Tensor('int64', rows.flat().map(BigInt), [prompts.length, width]);
  const written = await model.generate({
    input_ids: tensor(prompts.map((prompt) => row(prompt, 0, (id) => id))),
    attention_mask: tensor(prompts.map((prompt) => row(prompt, 0, () => 1))),
    max_new_tokens: asked.counts[i],
    do_sample: false,
    eos_token_id: null,
  });
  tokens.push(written.tolist().map((ids) => ids.slice(width).map(Number)));
}
const ids = (await tokenizer(asked.text)).input_ids.tolist()[0].map(Number);
console.log(JSON.stringify({ tokens, ids }));
