import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cacheFolder, ToolUnavailable } from './cache.ts';
import { goVersionOf, type Module, moduleFolder, modules, versionOf } from './catalogue.ts';
import { crateNames, crateProgram } from './crates.ts';
import { environmentNames, environmentPython } from './environments.ts';
import { goFolder } from './go.ts';
import { lock } from './lock.ts';

const execute = promisify(execFile);

export const toolNames: string[] = [
  ...modules.flatMap((module) => Object.keys(module.programs)),
  ...crateNames,
  ...environmentNames,
];

/** Without programs that benchmarks or releases alone start, and without those that need Rust or Python packages. */
export const testToolNames: string[] = modules.flatMap(({ notForTests, programs }) =>
  notForTests ? [] : Object.keys(programs),
);

/**
 * The path of a tool, built from its Go module, crate or Python package when this machine has not built it before (seconds to minutes, once).
 * Processes that want the same module at the same time build it once.
 */
export async function tool(name: string): Promise<string> {
  return (await tools([name]))[name] as string;
}

/** Several tools at once; those of one module are compiled by one command. */
export async function tools(names: string[]): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const name of names) {
    if (toolNames.includes(name)) continue;
    throw new ToolUnavailable(`There is no tool ${name}; there are ${toolNames.join(', ')}.`);
  }
  for (const module of modules) {
    const wanted = Object.keys(module.programs).filter((program) => names.includes(program));
    if (wanted.length > 0) await build(module, wanted);
    for (const program of wanted) found[program] = join(outputFolder(module), program);
  }
  for (const name of crateNames) if (names.includes(name)) found[name] = await crateProgram(name);
  for (const name of environmentNames) if (names.includes(name)) found[name] = await environmentPython(name);
  return found;
}

/** Same version, other flags or dependencies: another program, so another folder. */
function outputFolder(module: Module): string {
  const hash = createHash('sha256').update(JSON.stringify([buildArguments(module), environment(module)]));
  for (const file of ['go.mod', 'go.sum']) hash.update(readFileSync(join(moduleFolder(module), file)));
  return join(cacheFolder, `${module.folder}-${versionOf(module)}-${hash.digest('hex').slice(0, 12)}`);
}

const environment = (module: Module) => ({ CGO_ENABLED: module.cgo ? '1' : '0', GOFLAGS: '-mod=readonly' });

function buildArguments(module: Module): string[] {
  const variables = Object.entries(module.variables?.(versionOf(module)) ?? {});
  const linker = ['-s', '-w', ...variables.map(([name, value]) => `-X ${name}=${value}`)].join(' ');
  return ['-buildvcs=false', '-trimpath', `-ldflags=${linker}`, ...(module.tags ? ['-tags', module.tags] : [])];
}

async function build(module: Module, programs: string[]): Promise<void> {
  const folder = outputFolder(module);
  const missing = () => programs.filter((program) => !existsSync(join(folder, program)));
  if (missing().length === 0) return;
  mkdirSync(folder, { recursive: true });
  await using _ = await lock(join(folder, '.lock'));
  const names = missing();
  if (names.length === 0) return;
  const packages = names.map((name) => module.programs[name] as string);
  const go = await goFolder(goVersionOf(module));
  console.error(`building ${names.join(', ')} ${versionOf(module)} (once)`);
  const partial = join(folder, '.partial');
  rmSync(partial, { recursive: true, force: true });
  mkdirSync(partial);
  // Of several packages each program is named after its own; of one, as the catalogue says.
  const output = names.length === 1 ? join(partial, names[0] as string) : `${partial}/`;
  try {
    await execute(join(go, 'go'), ['build', ...buildArguments(module), '-o', output, ...packages], {
      cwd: moduleFolder(module),
      env: { ...process.env, ...environment(module), GOTOOLCHAIN: 'local' },
      maxBuffer: 64 << 20,
    });
  } catch (error) {
    throw new ToolUnavailable(explain(module, error));
  }
  for (const name of names) renameSync(join(partial, name), join(folder, name));
  rmSync(partial, { recursive: true });
}

function explain(module: Module, error: unknown): string {
  const { stderr } = error as { stderr?: string };
  const what = `${Object.keys(module.programs).join(', ')} ${versionOf(module)} cannot be built`;
  return `${what}: go build failed. Is the Go module proxy reachable? Its messages:\n${stderr || String(error)}`;
}
