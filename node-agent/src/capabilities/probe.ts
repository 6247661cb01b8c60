import { spawn } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { HearthError } from '@hearth/common';
import type { Probe } from '@hearth/engine';

/** Where the native build of this checkout puts the program. */
const builtProgram = fileURLToPath(new URL('../../../build/release/probe/hearth-probe', import.meta.url));
/** Longer than the program's own deadline: it kills what hangs and then answers. */
const graceMilliseconds = 3000;

export interface ProbeRun {
  environment: Record<string, string | undefined>;
  directories: string[];
  deadlineSeconds: number;
  signal: AbortSignal;
}

/** The native probes of this machine; one row that says how to get them when their program is not there. */
export async function nativeProbes(run: ProbeRun): Promise<Probe[]> {
  const program = findProgram(run.environment);
  if (!isExecutable(program)) {
    return [
      {
        name: 'probes',
        status: 'missing',
        detail: `${program} is not there, so the machine was not looked at`,
        advice: 'Build it with `make build`, or name it by HEARTH_PROBE.',
      },
    ];
  }
  const output = await outputOf(program, run);
  return output
    .split('\n')
    .filter((line) => line !== '')
    .map(parseProbe);
}

/** That of the environment, of this checkout, or of the PATH. */
function findProgram({ HEARTH_PROBE, PATH = '' }: ProbeRun['environment']): string {
  if (HEARTH_PROBE) return HEARTH_PROBE;
  if (isExecutable(builtProgram)) return builtProgram;
  const installed = PATH.split(delimiter).map((folder) => join(folder, 'hearth-probe'));
  return installed.find(isExecutable) ?? builtProgram;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

async function outputOf(program: string, run: ProbeRun): Promise<string> {
  const words = ['--deadline', String(run.deadlineSeconds)];
  for (const directory of run.directories) words.push('--cache-directory', directory);
  return await new Promise<string>((resolve, reject) => {
    const child = spawn(program, words, {
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: run.deadlineSeconds * 1000 + graceMilliseconds,
      killSignal: 'SIGKILL',
      signal: run.signal,
    });
    let output = '';
    let errorOutput = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      errorOutput += text;
    });
    child.once('error', (error) =>
      reject(
        run.signal.aborted
          ? new HearthError('Cancelled', 'interrupted')
          : new HearthError(
              'IoError',
              `${program} cannot be run (${error.message}); build it again with \`make build\``,
            ),
      ),
    );
    child.once('close', (code, signal) => {
      if (code === 0) return resolve(output);
      const how = code === null ? `was ended by ${signal}` : `ended with status ${code}`;
      reject(new HearthError('Internal', `${program} ${how}: ${errorOutput.trim() || 'it said nothing'}`));
    });
  });
}

function parseProbe(line: string): Probe {
  const row: unknown = parseJson(line);
  if (!isProbe(row))
    throw new HearthError(
      'ProtocolError',
      'hearth-probe wrote something that is not a probe; build it again with `make build`',
    );
  return row;
}

function parseJson(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

function isProbe(value: unknown): value is Probe {
  if (typeof value !== 'object' || value === null) return false;
  const row = value as Record<string, unknown>;
  return (
    typeof row.name === 'string' &&
    typeof row.detail === 'string' &&
    typeof row.advice === 'string' &&
    (row.status === 'ok' || row.status === 'degraded' || row.status === 'missing')
  );
}
