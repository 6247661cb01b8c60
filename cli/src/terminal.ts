import { basename } from 'node:path';
import { type Clock, systemClock } from '@hearth/common';

/** The command's environment: streams, variables, size. Tests replace it. */
export interface Terminal {
  /** Name as the user typed it: `hearth`, `kubectl hearth`. */
  program: string;
  environment: Record<string, string | undefined>;
  directory: string;
  stdout: NodeJS.WritableStream;
  stderr: NodeJS.WritableStream;
  /** Standard output is a terminal with cursor movement, so progress may redraw itself. */
  interactive: boolean;
  colour: boolean;
  /** The terminal can draw characters beyond ASCII. */
  unicode: boolean;
  /** Current width; may change. */
  columns: () => number;
  rows: () => number;
  /** Aborts on the first SIGINT or SIGTERM; the second ends the process at once. */
  interrupt: AbortSignal;
  clock: Clock;
}

/** Width of output that is not a terminal: nothing is cut. */
export const unlimitedColumns = Number.MAX_SAFE_INTEGER;

/** The real terminal. Installs the signal handlers. */
export function systemTerminal(): Terminal {
  const environment = process.env;
  const program = programName(environment.HEARTH_PROGRAM ?? process.argv[1] ?? '');
  // It is the launcher's word to us, not a setting for what we start.
  delete environment.HEARTH_PROGRAM;
  const interactive = process.stdout.isTTY === true && environment.TERM !== 'dumb';
  return {
    program,
    environment,
    directory: process.cwd(),
    stdout: process.stdout,
    stderr: process.stderr,
    interactive,
    colour: wantsColour(environment, interactive),
    unicode: /utf-?8/i.test(environment.LC_ALL || environment.LC_CTYPE || environment.LANG || ''),
    columns: () => (process.stdout.isTTY ? process.stdout.columns || 80 : unlimitedColumns),
    rows: () => (process.stdout.isTTY ? process.stdout.rows || 24 : unlimitedColumns),
    interrupt: interruptSignal(),
    clock: systemClock,
  };
}

/** https://no-color.org: any value that is not empty turns colour off. */
export function wantsColour(environment: Record<string, string | undefined>, interactive: boolean): boolean {
  return interactive && (environment.NO_COLOR ?? '') === '';
}

/** The name to show in help, from the path we were started by. kubectl plugins are files `kubectl-NAME`. */
export function programName(path: string): string {
  const name = basename(path).replace(/\.(ts|js|mjs|cjs)$/, '');
  if (name === '' || name === 'main') return 'hearth';
  return name.startsWith('kubectl-') ? `kubectl ${name.slice('kubectl-'.length)}` : name;
}

function interruptSignal(): AbortSignal {
  const controller = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.on(name, () => {
      if (controller.signal.aborted) process.exit(130);
      controller.abort();
    });
  }
  return controller.signal;
}
