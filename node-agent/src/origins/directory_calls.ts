import { type ChildProcess, fork } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Clock, type ErrorCode, HearthError, systemClock } from '@hearth/common';
import type { Location, ManifestRow } from '@hearth/engine';
import { DirectoryPlaces, type PlaceLimits } from './directory_places.ts';
import type { FilePlace, ListedTree, Tree } from './directory_tree.ts';
import type { OriginBase } from './origin.ts';

export type DirectoryRequest =
  | { kind: 'list'; tree: Tree; unusableNames: string }
  | { kind: 'base'; tree: Tree }
  | { kind: 'places'; tree: Tree; paths: string[] }
  | { kind: 'readByte'; root: string; location: Location };

type PathBase = OriginBase & { path: string; below: string };
type Request<Kind> = Extract<DirectoryRequest, { kind: Kind }>;

/** `more`: the agent consumed a page of a listing. */
export type DirectoryMessage = DirectoryRequest | { kind: 'more' };

/** `moved`: progress without a page. */
export type DirectoryAnswer =
  | { kind: 'moved' }
  | { kind: 'page'; rows: ManifestRow[] }
  | { kind: 'listed'; tree: ListedTree }
  | { kind: 'base'; base: PathBase }
  | { kind: 'places'; places: (FilePlace | undefined)[] }
  | { kind: 'read' }
  | { kind: 'failed'; code: ErrorCode; message: string };

export interface DirectoryCallsOptions extends Partial<PlaceLimits> {
  clock?: Clock;
  /** Starts a process of `directory_child.ts`. */
  start?: () => ChildProcess;
}

/** Equal to the engine's limits for reads (native/origin/directory_calls.h). */
const usual: PlaceLimits = { ofTree: 2, inAll: 8, whenHanging: 32, stallMs: 30_000 };
/** Time that an idle process waits for the next request, ms. */
const idleMs = 10_000;
const never = new AbortController().signal;

/**
 * Runs requests about origin directories in other processes, because such a directory may lie on a network file system,
 * where calls hang in the kernel while the server is gone. A process that is silent for `stallMs`, or whose caller
 * leaves, is killed without waiting for its end; its place becomes free when it has ended. Throws errors of the request
 * unchanged, `DeadlineExceeded` or `Unavailable` when the file system hangs, and `Cancelled`.
 */
export class DirectoryCalls {
  readonly #clock: Clock;
  readonly #stallMs: number;
  readonly #places: DirectoryPlaces;
  readonly #start: () => ChildProcess;
  /** An idle process, ready for the next request. */
  #idle: { child: DirectoryChild; cancel(): void } | undefined;

  constructor({ clock = systemClock, start = startChild, ...limits }: DirectoryCallsOptions = {}) {
    this.#clock = clock;
    this.#start = start;
    const all = { ...usual, ...limits };
    this.#stallMs = all.stallMs;
    this.#places = new DirectoryPlaces(all, clock);
  }

  /** Yields the rows in pages with bounded look-ahead; returns the end of the listing. */
  async *list(request: Request<'list'>, signal: AbortSignal): AsyncGenerator<ManifestRow[], ListedTree> {
    const end = yield* this.#ask(request, request.tree.root, signal);
    return end.kind === 'listed' ? end.tree : { warnings: [], followed: false };
  }

  /** Like `placesOf`. */
  async places(request: Request<'places'>, signal: AbortSignal = never): Promise<(FilePlace | undefined)[]> {
    const end = (await this.#ask(request, request.tree.root, signal).next()).value;
    return 'kind' in end && end.kind === 'places' ? end.places : [];
  }

  async base(request: Request<'base'>, signal: AbortSignal = never): Promise<PathBase> {
    const end = (await this.#ask(request, request.tree.root, signal).next()).value;
    if (!('kind' in end) || end.kind !== 'base') {
      throw new HearthError('Internal', `${request.tree.root}: no location was found; restart the agent`);
    }
    return end.base;
  }

  async readByte(request: Request<'readByte'>, signal: AbortSignal = never): Promise<void> {
    await this.#ask(request, request.root, signal).next();
  }

  /** Yields pages; returns the final answer. */
  async *#ask(
    request: DirectoryRequest,
    root: string,
    signal: AbortSignal,
  ): AsyncGenerator<ManifestRow[], DirectoryAnswer> {
    if (signal.aborted) throw new HearthError('Cancelled', `the request about ${root} was cancelled`);
    // Separate places keep short requests from waiting for long listings.
    const place = `${await mountAbove(root)}${request.kind === 'list' ? '' : ' (its files)'}`;
    await this.#places.take(place, signal);
    const child = this.#take();
    let answered = false;
    try {
      child.send(request);
      for (;;) {
        const answer = await child.next(this.#clock, this.#stallMs, signal);
        this.#places.moved(place);
        if (answer.kind === 'failed') throw new HearthError(answer.code, answer.message);
        if (answer.kind === 'page') {
          yield answer.rows;
          child.send({ kind: 'more' });
        } else if (answer.kind !== 'moved') {
          answered = true;
          return answer;
        }
      }
    } catch (thrown) {
      throw thrown instanceof Silence ? thrown.of(root) : thrown;
    } finally {
      if (answered) {
        this.#keep(child);
        this.#places.give(place);
      } else {
        child.kill();
        void child.ended.then(() => this.#places.give(place));
      }
    }
  }

  #take(): DirectoryChild {
    const idle = this.#idle;
    this.#idle = undefined;
    idle?.cancel();
    return idle === undefined || idle.child.hasEnded ? new DirectoryChild(this.#start()) : idle.child.wake();
  }

  /** Keeps a process without a running call for the next request. */
  #keep(child: DirectoryChild): void {
    this.close();
    this.#idle = { child: child.rest(), cancel: this.#clock.every(idleMs, () => this.close()) };
  }

  /** Ends the idle process. */
  close(): void {
    this.#idle?.cancel();
    this.#idle?.child.kill();
    this.#idle = undefined;
  }
}

/** Reason why a process sends nothing more. */
class Silence {
  readonly #code: ErrorCode;
  readonly #why: string;
  constructor(code: ErrorCode, why: string) {
    this.#code = code;
    this.#why = why;
  }
  of(root: string): HearthError {
    return new HearthError(this.#code, `${root}: ${this.#why}`);
  }
}

class DirectoryChild {
  readonly #child: ChildProcess;
  readonly #answers: DirectoryAnswer[] = [];
  #wanted: (() => void) | undefined;
  #end: Silence | undefined;
  readonly ended: Promise<void>;

  constructor(child: ChildProcess) {
    this.#child = child;
    child.on('message', (answer) => {
      this.#answers.push(answer as DirectoryAnswer);
      this.#wanted?.();
    });
    this.ended = new Promise((resolve) => {
      const end = (how: string) => {
        this.#end ??= new Silence('Internal', `the process that read it ${how}; check this agent's memory`);
        this.#wanted?.();
        resolve();
      };
      child.once('exit', (code, signal) => end(`ended with ${signal ?? code}`));
      child.once('error', ({ message }) => end(`cannot be run (${message})`));
    });
  }

  get hasEnded(): boolean {
    return this.#end !== undefined;
  }

  send(message: DirectoryMessage): void {
    // A process that has ended reports that through its exit event.
    if (this.#child.connected) this.#child.send(message, () => {});
  }

  /** The next answer. Throws `Silence`. */
  async next(clock: Clock, stallMs: number, signal: AbortSignal): Promise<DirectoryAnswer> {
    const cancel = clock.schedule(stallMs, () => this.#abandon('DeadlineExceeded', silent(stallMs)));
    const left = () => this.#abandon('Cancelled', 'the request about it was cancelled');
    signal.addEventListener('abort', left, { once: true });
    if (signal.aborted) left();
    try {
      while (this.#answers.length === 0 && this.#end === undefined) {
        await new Promise<void>((resolve) => {
          this.#wanted = resolve;
        });
      }
    } finally {
      cancel();
      signal.removeEventListener('abort', left);
    }
    const answer = this.#answers.shift();
    if (answer === undefined || signal.aborted) throw this.#end;
    return answer;
  }

  /** Lets this process exit while the child is idle. */
  rest(): this {
    this.#child.unref();
    this.#child.channel?.unref();
    return this;
  }

  wake(): this {
    this.#child.ref();
    this.#child.channel?.ref();
    return this;
  }

  /** Does not wait for the end, because the kernel may hold the process. */
  kill(): void {
    this.#child.kill('SIGKILL');
    if (this.#child.connected) this.#child.disconnect();
    this.rest();
  }

  #abandon(code: ErrorCode, why: string): void {
    this.#end ??= new Silence(code, why);
    this.#wanted?.();
  }
}

const silent = (ms: number): string =>
  `its file system has not answered for ${ms / 1000} s; check its server and the kernel log, then add the dataset again or wait for the next attempt`;

function startChild(): ChildProcess {
  const { PATH, HOME, NODE_COMPILE_CACHE } = process.env;
  // The sibling file in its current form: .ts in the repository, .js in the image.
  const file = fileURLToPath(new URL(`./directory_child${extname(import.meta.filename)}`, import.meta.url));
  return fork(file, {
    execArgv: [],
    // Rows contain 64-bit integers.
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    // Passes none of the agent's secrets.
    env: { PATH, HOME, NODE_COMPILE_CACHE },
  });
}

/** The mount point above a path, derived from the mount table without touching the path. */
async function mountAbove(path: string): Promise<string> {
  const table = await readFile('/proc/self/mountinfo', 'utf8');
  let found = '/';
  for (const line of table.split('\n')) {
    const point = (line.split(' ')[4] ?? '').replace(/\\([0-7]{3})/g, (_, digits: string) =>
      String.fromCharCode(Number.parseInt(digits, 8)),
    );
    if (point.length > found.length && (path === point || path.startsWith(`${point}/`))) found = point;
  }
  return found;
}
