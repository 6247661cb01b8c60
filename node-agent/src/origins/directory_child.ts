/**
 * A process of `DirectoryCalls` that executes one request at a time on the file system of a directory origin. Only
 * threads of Node's pool block on the file system, so the process always notices that its agent is gone, and exits.
 */
import { HearthError, systemClock } from '@hearth/common';
import type { DirectoryAnswer, DirectoryMessage, DirectoryRequest } from './directory_calls.ts';
import { baseOf, type ListedTree, listTree, placesOf } from './directory_tree.ts';
import { readFirstByteOfFile } from './first_byte.ts';

/** Pages sent ahead of requests for more. */
const pagesAhead = 2;
const progressMs = 1000;

let mayGo = pagesAhead;
let goOn: () => void = () => {};

function send(answer: DirectoryAnswer): void {
  process.send?.(answer);
}

async function list({ tree, unusableNames }: Extract<DirectoryRequest, { kind: 'list' }>): Promise<ListedTree> {
  let moved = false;
  const end = systemClock.every(progressMs, () => {
    if (moved) send({ kind: 'moved' });
    moved = false;
  });
  mayGo = pagesAhead;
  try {
    const pages = listTree(tree, unusableNames, () => {
      moved = true;
    });
    for (;;) {
      const page = await pages.next();
      if (page.done) return page.value;
      while (mayGo === 0) await new Promise<void>((resolve) => (goOn = resolve));
      mayGo--;
      send({ kind: 'page', rows: page.value });
    }
  } finally {
    end();
  }
}

async function answer(request: DirectoryRequest): Promise<DirectoryAnswer> {
  try {
    if (request.kind === 'list') return { kind: 'listed', tree: await list(request) };
    if (request.kind === 'base') return { kind: 'base', base: await baseOf(request.tree) };
    if (request.kind === 'places') return { kind: 'places', places: await placesOf(request.tree, request.paths) };
    await readFirstByteOfFile(request.location);
    return { kind: 'read' };
  } catch (thrown) {
    const { code, message } = HearthError.from(thrown);
    return { kind: 'failed', code, message };
  }
}

// exit() would wait for the threads of the pool.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
process.on('message', (message: DirectoryMessage) => {
  if (message.kind !== 'more') return void answer(message).then(send);
  mayGo++;
  goOn();
});
