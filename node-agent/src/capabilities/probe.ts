import { HearthError } from '@hearth/common';
import type { Probe } from '@hearth/engine';
import { findProgram, type NativeProgram, runProgram } from './native_program.ts';

const hearthProbe: NativeProgram = { name: 'hearth-probe', room: 'probe', variable: 'HEARTH_PROBE' };
/** Exceeds the program's own deadline, at which it kills hanging probes and then answers. */
const graceMilliseconds = 3000;

export interface ProbeRun {
  environment: Record<string, string | undefined>;
  directories: string[];
  /** Addresses of other machines' RDMA ports to look up routes to. */
  rdmaPeers?: string[];
  deadlineSeconds: number;
  signal: AbortSignal;
}

/** The native probes of this machine; a single row with instructions when the program is missing. */
export async function nativeProbes(run: ProbeRun): Promise<Probe[]> {
  const { path, isThere } = findProgram(hearthProbe, run.environment);
  if (!isThere) {
    return [
      {
        name: 'probes',
        status: 'missing',
        detail: `${path} does not exist, so the machine was not probed`,
        advice: 'Build it with `make build`, or name it by HEARTH_PROBE.',
      },
    ];
  }
  const words = ['--deadline', String(run.deadlineSeconds)];
  for (const directory of run.directories) words.push('--cache-directory', directory);
  for (const peer of run.rdmaPeers ?? []) words.push('--rdma-peer', peer);
  const { code, how, output, errorOutput } = await runProgram(path, {
    words,
    timeoutMilliseconds: run.deadlineSeconds * 1000 + graceMilliseconds,
    signal: run.signal,
  });
  if (code !== 0) throw new HearthError('Internal', `${path} ${how}: ${errorOutput || 'it said nothing'}`);
  return output
    .split('\n')
    .filter((line) => line !== '')
    .map(parseProbe);
}

function parseProbe(line: string): Probe {
  const row: unknown = parseJson(line);
  if (!isProbe(row))
    throw new HearthError('ProtocolError', 'hearth-probe wrote an invalid report; build it again with `make build`');
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
