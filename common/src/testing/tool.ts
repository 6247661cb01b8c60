import { join } from 'node:path';
import { root } from './checkout.ts';
import { run } from './command.ts';

/** A program cannot be built on this machine; the message says why and what to do. */
export class ToolUnavailable extends Error {}

/** Paths of real programs that tests talk to, built when this machine has not built them before (minutes, once). */
export async function tools<Name extends string>(names: readonly Name[]): Promise<Record<Name, string>> {
  const { code, stdout, stderr } = await run(process.execPath, [join(root, 'scripts/tools/get.ts'), ...names], {
    timeoutMs: 30 * 60_000,
  });
  if (code === 3) throw new ToolUnavailable(stderr.trim());
  if (code !== 0) throw new Error(`the programs ${names.join(', ')} cannot be built: ${stderr.trim()}`);
  const paths = stdout.trim().split('\n');
  return Object.fromEntries(names.map((name, index) => [name, paths[index] ?? ''])) as Record<Name, string>;
}

export async function tool(name: string): Promise<string> {
  return (await tools([name]))[name] ?? '';
}

/** For tests that go on without it: the program, or why there is none. */
export async function findTool(name: string): Promise<{ program: string } | { missing: string }> {
  try {
    return { program: await tool(name) };
  } catch (error) {
    if (error instanceof ToolUnavailable) return { missing: error.message };
    throw error;
  }
}
