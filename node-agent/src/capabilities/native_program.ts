import { spawn } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { HearthError } from '@hearth/common';

/** A program of the native build. */
export interface NativeProgram {
  /** `hearth-probe`. */
  name: string;
  /** Folder of the program in the native build: `probe`. */
  room: string;
  /** Environment variable that overrides the path. */
  variable: string;
}

export interface ProgramRun {
  words: string[];
  /** Working directory; default: this process's. */
  directory?: string;
  /** Time after which the program is killed, ms; default: none. */
  timeoutMilliseconds?: number;
  signal: AbortSignal;
  /** Called with each piece of standard output. */
  onOutput?: (text: string) => void;
}

export interface ProgramOutcome {
  /** Null when a signal ended the program. */
  code: number | null;
  /** "ended with status 3" or "was ended by SIGKILL". */
  how: string;
  output: string;
  errorOutput: string;
}

/** The program named by the environment, of this checkout, or on the PATH; else its path in the build. */
export function findProgram(
  program: NativeProgram,
  environment: Readonly<Record<string, string | undefined>>,
): { path: string; isThere: boolean } {
  const named = environment[program.variable];
  const built = fileURLToPath(new URL(`../../../build/release/${program.room}/${program.name}`, import.meta.url));
  const folders = (environment.PATH ?? '').split(delimiter);
  const candidates = named ? [named] : [built, ...folders.map((folder) => join(folder, program.name))];
  const path = candidates.find(isExecutable);
  return { path: path ?? named ?? built, isThere: path !== undefined };
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Runs the program to its end. */
export async function runProgram(path: string, run: ProgramRun): Promise<ProgramOutcome> {
  return await new Promise<ProgramOutcome>((resolve, reject) => {
    const child = spawn(path, run.words, {
      stdio: ['ignore', 'pipe', 'pipe'],
      killSignal: 'SIGKILL',
      signal: run.signal,
      ...(run.directory === undefined ? {} : { cwd: run.directory }),
      ...(run.timeoutMilliseconds === undefined ? {} : { timeout: run.timeoutMilliseconds }),
    });
    let output = '';
    let errorOutput = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      run.onOutput?.(text);
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      errorOutput += text;
    });
    child.once('error', (error) =>
      reject(
        run.signal.aborted
          ? new HearthError('Cancelled', 'interrupted')
          : new HearthError('IoError', `${path} cannot be run (${error.message}); build it again with \`make build\``),
      ),
    );
    child.once('close', (code, signal) => {
      const how = code === null ? `was ended by ${signal}` : `ended with status ${code}`;
      resolve({ code, how, output, errorOutput: errorOutput.trim() });
    });
  });
}
