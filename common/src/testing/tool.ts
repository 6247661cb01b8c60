import { join } from 'node:path';
import { root } from './checkout.ts';
import { run } from './command.ts';

/** A program cannot be built on this machine; the message states the reason and the remedy. */
export class ToolUnavailable extends Error {}

/** Paths of real programs for tests; builds missing programs, which takes minutes once a machine. */
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

/** For tests that can do without: the program, or the reason why it is missing. */
export async function findTool(name: string): Promise<{ program: string } | { missing: string }> {
  try {
    return { program: await tool(name) };
  } catch (error) {
    if (error instanceof ToolUnavailable) return { missing: error.message };
    throw error;
  }
}
