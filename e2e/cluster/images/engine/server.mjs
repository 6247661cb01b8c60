// The part of llama.cpp's server that the first page needs, over llama.cpp in Node: /health and /v1/chat/completions, with the
// same options. It is an image of its own, so it is JavaScript.
import { createServer } from 'node:http';
import { parseArgs } from 'node:util';
import { getLlama, LlamaChatSession } from 'node-llama-cpp';

const text = { type: 'string' };
const { values } = parseArgs({ options: { model: text, host: text, port: text, 'ctx-size': text } });

/** One thread: several wait for each other by spinning, for ever where other programs have the cores. */
async function load() {
  const llama = await getLlama({ gpu: false, build: 'never', progressLogs: false });
  const model = await llama.loadModel({ modelPath: values.model });
  const context = await model.createContext({ contextSize: Number(values['ctx-size']), threads: 1 });
  return new LlamaChatSession({ contextSequence: context.getSequence() });
}

let session;
/** Requests are answered one after the other. */
let queue = load().then((loaded) => {
  session = loaded;
  console.log(`${values.model} is loaded`);
});
queue.catch((error) => {
  console.error(error);
  process.exit(1);
});

async function complete(request) {
  const { messages, temperature = 0.8, max_tokens: maxTokens = 64 } = JSON.parse(Buffer.concat(await request.toArray()));
  session.resetChatHistory();
  const content = await session.prompt(messages.at(-1).content, { temperature, maxTokens });
  return { object: 'chat.completion', choices: [{ index: 0, message: { role: 'assistant', content } }] };
}

createServer((request, response) => {
  const answer = (status, value) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(`${JSON.stringify(value)}\n`);
  if (request.url === '/health') return answer(session === undefined ? 503 : 200, { loaded: session !== undefined });
  if (request.url !== '/v1/chat/completions') return answer(404, {});
  queue = queue
    .then(() => complete(request))
    .then((value) => answer(200, value))
    .catch((error) => answer(500, { error: String(error) }));
}).listen(Number(values.port), values.host);
process.on('SIGTERM', () => process.exit(0));
