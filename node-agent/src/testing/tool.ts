import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

const script = join(import.meta.dirname, '../../../scripts/tools/get.ts');

/** A real program that tests talk to, built when this machine has not built it before (minutes), or why there is none. */
export async function findTool(name: 'etcd' | 'versitygw'): Promise<{ program: string } | { missing: string }> {
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [script, name]);
    return { program: stdout.trim() };
  } catch (thrown) {
    const { code, stderr = '' } = thrown as { code?: number; stderr?: string };
    if (code !== 3) throw thrown;
    return { missing: stderr.trim() };
  }
}
