import { HearthError } from '@hearth/common';
import type { Engine } from '@hearth/engine';
import { chooseFiles, entryPages, type ManifestKeeper } from '../datasets/index.ts';
import type { Pins } from '../pins/index.ts';
import type { Operation } from '../store/index.ts';
import type { VolumeMounts } from '../volumes/index.ts';
import type { AnswerRecord, RequestRecord } from './record.ts';

export type Answer = Omit<AnswerRecord, 'node' | 'errorCode' | 'message'>;
/** Writes the answer and further operations as one revision of the store; resolves to that revision. */
export type WriteAnswer = (answer: Answer, ...more: Operation[]) => Promise<number>;
export const nothingDone: Answer = {
  bytesFreed: 0n,
  filesFreed: 0,
  filesKept: 0,
  memoryBytesFreed: 0n,
  filesPinned: 0,
  filesOpen: 0,
  filesPublished: 0,
  users: [],
};

/** Executes a request on this agent and answers it. Idempotent. */
export async function execute(
  request: RequestRecord,
  parts: { node: string; engine: Engine; pins: Pins; keeper: ManifestKeeper; volumeMounts: VolumeMounts },
  write: WriteAnswer,
  signal: AbortSignal,
): Promise<void> {
  const { pins, keeper, engine, node, volumeMounts } = parts;
  const { dataset, manifest, paths, owner } = request;
  switch (request.kind) {
    case 'pin':
      // One write for both, so that many agents do not contend for the store twice.
      await pins.pinWith({ dataset, manifest, paths }, [owner, ...request.moreOwners], signal, (records) =>
        write(nothingDone, ...records),
      );
      return;
    case 'unpin':
      for (const one of [owner, ...request.moreOwners]) await pins.unpin(dataset, one);
      break;
    case 'evict':
      await keeper.opened(manifest, signal);
      await write(await evict(request, engine));
      return;
    case 'letGo':
      await keeper.opened(manifest, signal);
      await write(await letGo(request, engine));
      return;
    case 'drop':
      for (const pin of pins.of(dataset)) if (pin.node === node) await pins.unpin(dataset, pin.owner);
      if (manifest === '') break;
      if (!request.evict) {
        await forgetMemory(manifest, engine);
        break;
      }
      await keeper.opened(manifest, signal);
      await write(await evict(request, engine));
      return;
    case 'release':
      await write({ ...nothingDone, users: await volumeMounts.release(dataset) });
      return;
    default:
      return request.kind satisfies never;
  }
  await write(nothingDone);
}

async function letGo({ dataset, manifest, paths, memoryOnly, keep }: RequestRecord, engine: Engine): Promise<Answer> {
  const { entries } = await chooseFiles(engine, { name: dataset, manifest, bytes: 0n }, paths);
  const chosen = keep.length === 0 ? entries : await without(new Set(keep), entries, manifest, engine);
  const gone = await engine.letGo(manifest, chosen, memoryOnly ? 'memory' : 'copy');
  return {
    ...nothingDone,
    bytesFreed: gone.bytesFreed,
    filesFreed: gone.filesFreed,
    filesKept: gone.kept,
    memoryBytesFreed: gone.memoryBytesFreed,
    filesPinned: gone.pinned,
    filesOpen: gone.inUse,
    filesPublished: gone.published,
  };
}

/** Files that nobody asks for by name any more must not keep others out of memory; the disk keeps them. */
async function forgetMemory(manifest: string, engine: Engine): Promise<void> {
  try {
    await engine.letGo(manifest, undefined, 'memory');
  } catch (thrown) {
    // A manifest that this agent has not opened names no file of its memory.
    if (HearthError.from(thrown).code !== 'NotFound') throw thrown;
  }
}

async function without(
  keep: ReadonlySet<number>,
  entries: readonly number[] | undefined,
  manifest: string,
  engine: Engine,
): Promise<number[]> {
  if (entries !== undefined) return entries.filter((entry) => !keep.has(entry));
  const others: number[] = [];
  for await (const page of entryPages(engine, manifest, { path: '', recursive: true })) {
    for (const { index } of page) if (!keep.has(index)) others.push(index);
  }
  return others;
}

async function evict({ dataset, manifest, paths }: RequestRecord, engine: Engine): Promise<Answer> {
  const { entries } = await chooseFiles(engine, { name: dataset, manifest, bytes: 0n }, paths);
  const { bytesFreed, filesFreed, kept } = await engine.evict(manifest, entries);
  return { ...nothingDone, bytesFreed, filesFreed, filesKept: kept };
}
