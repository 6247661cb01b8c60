import { createHash } from 'node:crypto';
import { HearthError } from '@hearth/common';
import type {
  ReadChunk,
  ReadRequest,
  VerifiedFile,
  VerifyRequest,
} from '@hearth/common/generated/hearth/v1/control.ts';
import type { DatasetRevision, ManifestEntry, MountInfo } from '@hearth/engine';
import { PathFilter } from '@hearth/engine';
import type { Agent } from '../agent/index.ts';
import { chooseFiles, entryPages, findFile } from '../datasets/index.ts';
import { oneOfWords } from './arguments.ts';
import { mapInOrder } from './ordered.ts';

const readBytes = 1 << 20;
const maxConcurrentFiles = 4;

/** Bytes of files, through this agent's engine. */
export class FileCalls {
  readonly #agent: Agent;

  constructor(agent: Agent) {
    this.#agent = agent;
  }

  /** One message a file in path order; a bad file yields a message and does not end the call. */
  async *verify(request: VerifyRequest, signal: AbortSignal): AsyncGenerator<VerifiedFile> {
    const mode = oneOfWords('mode', request.mode || 'cache', ['cache', 'origin']);
    const { engine } = this.#agent.context;
    const dataset = await this.#agent.datasets.usable(request.dataset, true);
    await this.#agent.keeper.openedSoon(dataset.manifest, signal);
    await chooseFiles(engine, dataset, request.paths);
    this.#agent.usage.began(dataset.name);
    const filter = new PathFilter(request.paths);
    const mount = (await engine.mounts()).find((one) => one.manifest === dataset.manifest);
    const view = (await engine.residency(dataset.manifest)).viewPath !== '';
    for await (const page of entryPages(engine, dataset.manifest, { path: '', recursive: true })) {
      const chosen = page.filter((entry) => filter.matches(entry.path));
      const verify = (entry: ManifestEntry) =>
        this.#verifyFile({ manifest: dataset.manifest, dataset: dataset.name }, entry, mode, pathOf(mount, view));
      yield* mapInOrder(chosen, maxConcurrentFiles, verify, signal);
    }
  }

  async *read(request: ReadRequest, signal: AbortSignal): AsyncGenerator<ReadChunk> {
    const { engine } = this.#agent.context;
    const dataset = await this.#agent.datasets.usable(request.dataset, true);
    await this.#agent.keeper.openedSoon(dataset.manifest, signal);
    const file = await findFile(engine, dataset, request.path);
    if (request.offset > file.size) {
      throw new HearthError(
        'InvalidArgument',
        `the offset ${request.offset} is beyond the end of ${file.path} (${file.size} bytes)`,
      );
    }
    this.#agent.usage.began(dataset.name);
    const asked = request.length === 0n ? file.size : request.offset + request.length;
    const end = asked < file.size ? asked : file.size;
    const whole = request.offset === 0n && end === file.size && file.sourceDigest !== '';
    const hash = whole ? createHash('sha256') : undefined;
    for (let offset = request.offset; offset < end; ) {
      signal.throwIfAborted();
      const length = end - offset < BigInt(readBytes) ? Number(end - offset) : readBytes;
      const bytes = await engine.read(
        { manifest: dataset.manifest, dataset: dataset.name },
        file.index,
        offset,
        length,
      );
      if (bytes.length === 0)
        throw new HearthError(
          'Corrupt',
          `${file.path} ends at ${offset}, before its ${file.size} bytes; verify the dataset`,
        );
      offset += BigInt(bytes.length);
      hash?.update(bytes);
      // Checked before the last chunk is sent, so that a complete read is never a mixture of two states.
      if (offset === end && hash !== undefined && hash.digest('hex') !== file.sourceDigest) {
        throw new HearthError(
          'OriginChanged',
          `${file.path} does not match its listed SHA-256: the file changed at its origin, perhaps during the read; read it again, or list it again`,
        );
      }
      yield { data: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength) };
    }
  }

  async #verifyFile(
    of: DatasetRevision,
    entry: ManifestEntry,
    mode: 'cache' | 'origin',
    dataPath: string,
  ): Promise<VerifiedFile> {
    const base = { path: entry.path, dataPath };
    try {
      const verified = await this.#agent.context.engine.verify(of, entry.index, mode);
      const { bytes, sha256, originBytes, peerBytes, repairedBlocks } = verified;
      const differs = entry.sourceDigest !== '' && entry.sourceDigest !== sha256;
      const short = bytes !== entry.size;
      const mismatch = differs
        ? `its SHA-256 differs from the origin's ${entry.sourceDigest}`
        : short
          ? `it has ${bytes} of ${entry.size} bytes`
          : '';
      const repair = repairedBlocks > 0n ? `${verified.repaired} had changed and were repaired` : '';
      const localBytes = bytes - originBytes - peerBytes;
      return {
        ...base,
        bytes,
        sha256,
        ok: mismatch === '',
        message: mismatch || repair,
        repairedBlocks,
        originBytes,
        peerBytes,
        localBytes: localBytes > 0n ? localBytes : 0n,
      };
    } catch (thrown) {
      const { message } = HearthError.from(thrown);
      const none = { bytes: 0n, sha256: '', repairedBlocks: 0n, originBytes: 0n, peerBytes: 0n, localBytes: 0n };
      return { ...base, ...none, ok: false, message };
    }
  }
}

/** The data path of readers on this node once the file is complete, as it is after verification. */
function pathOf(mount: MountInfo | undefined, view: boolean): string {
  if (mount === undefined) return view ? 'view' : 'engine';
  return mount.dataPath === 'fuse' ? 'passthrough' : mount.dataPath;
}
