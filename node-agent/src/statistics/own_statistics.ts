import { epochMs, HearthError, RecurringWork } from '@hearth/common';
import type { Engine, MountInfo, Residency, Statistics } from '@hearth/engine';
import type { Capability } from '../capabilities/index.ts';
import type { AgentContext } from '../context.ts';
import type { DatasetRecord, DatasetTables } from '../datasets/index.ts';
import { mirrorsOf } from '../origins/index.ts';
import type { Pins } from '../pins/index.ts';
import { arenaCapability } from './arena_capability.ts';
import { directoriesCapability } from './directories_capability.ts';
import { limitsCapability } from './limits_capability.ts';
import { memoryFilesCapability } from './memory_files_capability.ts';
import { rdmaCapability, rdmaOf } from './rdma.ts';
import type { NodeResidency, NodeStatistics, NodeVolume } from './record.ts';
import { ReportHistory } from './report_history.ts';

/** Parts of the agent that its figures are about. */
export interface OwnStatisticsSources {
  datasets: DatasetTables;
  pins: Pins;
  capabilities: () => Capability[];
  volumes: () => Promise<NodeVolume[]>;
}

/** This agent's figures, read from the engine in every interval and kept in memory for those who ask. */
export class OwnStatistics {
  readonly history = new ReportHistory();
  readonly #context: AgentContext;
  readonly #datasets: DatasetTables;
  readonly #pins: Pins;
  readonly #capabilities: () => Capability[];
  readonly #volumes: () => Promise<NodeVolume[]>;
  readonly #turns: RecurringWork;
  readonly #startedAt: number;
  #residency = new Map<string, Residency>();
  /** Inputs of the residency; counting reads whole manifests, so it runs only when these change. */
  #residencyOf = '';

  constructor(context: AgentContext, { datasets, pins, capabilities, volumes }: OwnStatisticsSources) {
    this.#context = context;
    this.#volumes = volumes;
    this.#datasets = datasets;
    this.#pins = pins;
    this.#capabilities = capabilities;
    this.#startedAt = epochMs(context.clock);
    this.#turns = new RecurringWork(context.clock, context.timings.statisticsMs, () => this.#readQuietly());
    this.#turns.begin();
  }

  /** Resolves after the first reading, even if it failed. */
  async ready(): Promise<void> {
    await this.#turns.settled();
  }

  /** Undefined until the engine has answered once. */
  get current(): NodeStatistics | undefined {
    return this.history.current;
  }

  async close(): Promise<void> {
    await this.#turns.close();
  }

  #readQuietly(): Promise<void> {
    return this.#read().catch((thrown) =>
      this.#context.logger.debug('failed to read statistics', { error: HearthError.from(thrown) }),
    );
  }

  async #read(): Promise<void> {
    const { engine } = this.#context;
    const [statistics, mounts, volumes] = await Promise.all([engine.statistics(), engine.mounts(), this.#volumes()]);
    await this.#countResidency(statistics, mounts);
    this.history.note(this.#record(statistics, mounts, volumes));
  }

  async #countResidency(statistics: Statistics, mounts: readonly MountInfo[]): Promise<void> {
    const manifests = this.#datasets.mirror
      .values()
      .flatMap((dataset) => (dataset.manifest === '' ? [] : [dataset.manifest]));
    const { residentBytes, contentKeys, evictedFiles, evictedBytes, memoryFiles } = statistics;
    const onDisk = [residentBytes, contentKeys, evictedFiles, evictedBytes];
    const inMemory = [memoryFiles.files, memoryFiles.evictedFiles];
    const now = [...onDisk, ...inMemory, mounts.length, ...manifests].join();
    if (now === this.#residencyOf) return;
    const counted = new Map<string, Residency>();
    let complete = true;
    for (const manifest of manifests) {
      try {
        counted.set(manifest, await this.#context.engine.residency(manifest));
      } catch {
        // The manifest is still being fetched from a peer; count it the next time.
        complete = false;
      }
    }
    this.#residency = counted;
    this.#residencyOf = complete ? now : '';
  }

  #record(statistics: Statistics, mounts: readonly MountInfo[], volumes: NodeVolume[]): NodeStatistics {
    const { directories } = statistics;
    const sum = (values: bigint[]) => values.reduce((a, b) => a + b, 0n);
    const rdma = rdmaOf(statistics);
    return {
      node: this.#context.node,
      budgetBytes: sum(directories.map((one) => one.budgetBytes)),
      usedBytes: sum(directories.map((one) => one.usedBytes)),
      freeBytes: sum(directories.map((one) => one.fileSystemFreeBytes)),
      pinnedBytes: statistics.pinnedBytes,
      originBytes: statistics.originBytes,
      peerBytesReceived: statistics.peerBytesReceived,
      peerBytesSent: statistics.peerBytesSent,
      corruptBlocks: statistics.corruptBlocks,
      startedAt: this.#startedAt,
      capabilities: [
        ...this.#capabilities(),
        arenaCapability(statistics.arena),
        ...memoryFilesCapability(statistics.memoryFiles),
        ...limitsCapability(statistics.limits),
        directoriesCapability(directories),
        ...rdmaCapability(rdma),
      ],
      ...(rdma === undefined ? {} : { rdma }),
      volumes,
      residency: Object.fromEntries(this.#residencies(mounts)),
    };
  }

  #residencies(mounts: readonly MountInfo[]): [string, NodeResidency][] {
    return this.#datasets.mirror.values().flatMap((dataset): [string, NodeResidency][] => {
      const { name, manifest } = dataset;
      const residency = this.#residency.get(manifest);
      if (residency === undefined) return [];
      const pinned = this.#pins.of(name).some((pin) => pin.node === this.#context.node);
      const mount = mounts.find((one) => one.manifest === manifest);
      const { residentBytes, memoryBytes, completeFiles } = {
        residentBytes: residency.bytesResident,
        memoryBytes: residency.bytesInMemory,
        completeFiles: residency.filesComplete,
      };
      const aside = sourcesAsideOf(this.#context.engine, dataset);
      const sourcesAside = aside.length === 0 ? {} : { sourcesAside: aside };
      const path = dataPathOf(residency, mount);
      return [[name, { residentBytes, memoryBytes, completeFiles, pinned, ...path, ...sourcesAside }]];
    });
  }
}

/** Maximum length of a reason, so that many datasets fit into one message. */
const maxReasonLength = 300;

/** Sources that are currently put aside in favour of others, and an origin that reads wait for. */
function sourcesAsideOf(engine: Engine, { name: dataset, manifest, source }: DatasetRecord): string[] {
  const first = mirrorsOf(source).length === 0 ? 'the origin' : 'the first source';
  return engine.sources({ manifest, dataset }).flatMap(({ name, aside }, index) => {
    if (aside === '') return [];
    return [`${index === 0 ? first : `the mirror ${name}`}: ${aside.slice(0, maxReasonLength)}`];
  });
}

/** The best data path of a reader here: that of the mount, if there is one. */
function dataPathOf(residency: Residency, mount: MountInfo | undefined): { dataPath: string; reason: string } {
  const { filesComplete, filesTotal, viewPath } = residency;
  const incomplete = `${filesTotal - filesComplete} of ${filesTotal} files are incomplete on this node`;
  // Mounts prefer passthrough then, since a view reads the disk.
  const isReadable = filesComplete === filesTotal || residency.bytesInMemory === residency.bytesTotal;
  if (residency.bytesInMemory > 0n && isReadable && (mount === undefined || mount.dataPath === 'fuse'))
    return { dataPath: 'passthrough', reason: 'files of it are in memory, which a view does not read' };
  if (mount?.dataPath === 'view' || (mount === undefined && viewPath !== '')) return { dataPath: 'view', reason: '' };
  if (mount?.dataPath === 'through') return { dataPath: 'through', reason: mount.reason };
  if (filesComplete < filesTotal) return { dataPath: 'daemon', reason: incomplete };
  if (mount?.dataPath === 'daemon') return { dataPath: 'daemon', reason: mount.reason };
  return { dataPath: 'passthrough', reason: mount?.reason ?? 'the dataset is not linked as a view' };
}
