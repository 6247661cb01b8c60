import type { Engine } from '@hearth/engine';
import { chooseFiles } from '../datasets/files.ts';
import type { ManifestKeeper } from '../datasets/keeper.ts';
import type { Pins } from '../pins/pins.ts';
import type { VolumeMounts } from '../volumes/index.ts';
import type { AnswerRecord, RequestRecord } from './record.ts';

export type Answer = Pick<AnswerRecord, 'bytesFreed' | 'filesFreed' | 'filesKept' | 'users'>;
export const nothingDone: Answer = { bytesFreed: 0n, filesFreed: 0, filesKept: 0, users: [] };

/** Does on this agent what a request asks. Doing it twice is the same as doing it once. */
export async function execute(
  request: RequestRecord,
  parts: { node: string; engine: Engine; pins: Pins; keeper: ManifestKeeper; volumeMounts: VolumeMounts },
  signal: AbortSignal,
): Promise<Answer> {
  const { pins, keeper, engine, node, volumeMounts } = parts;
  const { dataset, manifest, paths, owner } = request;
  switch (request.kind) {
    case 'pin':
      await pins.pin({ dataset, manifest, paths, owner }, signal);
      return nothingDone;
    case 'unpin':
      await pins.unpin(dataset, owner);
      return nothingDone;
    case 'evict':
      await keeper.opened(manifest, signal);
      return await evict(request, engine);
    case 'drop':
      for (const pin of pins.of(dataset)) if (pin.node === node) await pins.unpin(dataset, pin.owner);
      if (!request.evict || manifest === '') return nothingDone;
      await keeper.opened(manifest, signal);
      return await evict(request, engine);
    case 'release':
      return { ...nothingDone, users: await volumeMounts.release(dataset) };
    default:
      return request.kind satisfies never;
  }
}

async function evict({ dataset, manifest, paths }: RequestRecord, engine: Engine): Promise<Answer> {
  const { entries } = await chooseFiles(engine, { name: dataset, manifest, bytes: 0n }, paths);
  const { bytesFreed, filesFreed, kept } = await engine.evict(manifest, entries);
  return { ...nothingDone, bytesFreed, filesFreed, filesKept: kept };
}
