import type { EngineEvent } from '@hearth/engine';
import { Advice } from '../advice/index.ts';
import { Capabilities, type ProbeMachine } from '../capabilities/index.ts';
import { Revocations } from '../clients/index.ts';
import type { AgentContext } from '../context.ts';
import { CredentialCache } from '../credentials/index.ts';
import {
  ClientNames,
  DatasetTables,
  Locations,
  LostManifests,
  ManifestKeeper,
  type OpenOrigin,
  OriginCheck,
  Resolution,
} from '../datasets/index.ts';
import { HolderWatch, Mounts } from '../mounts/index.ts';
import type { Peers } from '../peers/index.ts';
import { Pins } from '../pins/index.ts';
import { Requests } from '../requests/index.ts';
import { ClusterStatistics, EarlierReleases, OwnStatistics } from '../statistics/index.ts';
import { StoreGuard } from '../store/index.ts';
import { Usage } from '../usage/index.ts';
import { VolumeMounts, VolumeRegistry } from '../volumes/index.ts';
import { WarmCoordinator, WarmExecutor, WarmJobs, WarmTables } from '../warm/index.ts';
import {
  VolumeReconciler,
  volumeFigures,
  type WritableVolumeRecord,
  WritableVolumes,
  WritableVolumeTables,
} from '../writable_volumes/index.ts';
import { CredentialSharing } from './credential_sharing.ts';
import { Removal } from './dataset_removal.ts';
import { withVolumes } from './volume_sources.ts';

export interface AgentParts {
  openOrigin: OpenOrigin;
  /** Socket of hearth-holder. */
  holder: string;
  /** Folder for mounts that are bound into pods; undefined: none. */
  volumes: string | undefined;
  /** Probes the machine's capabilities. */
  probe: ProbeMachine;
  /** The caller closes it. */
  peers: Peers;
  /** True when the store's history may be deleted. */
  storeMaintenance: boolean;
}

/**
 * The components of one agent. The constructor takes store, session and engine; `start` restores pins, mounts and parts
 * of warm jobs after a restart; `close` ends everything except store, session and engine.
 */
export class Agent {
  readonly context: AgentContext;
  readonly datasets: DatasetTables;
  readonly credentials: CredentialCache;
  readonly credentialSharing: CredentialSharing;
  readonly locations: Locations;
  readonly keeper: ManifestKeeper;
  readonly #clientNames: ClientNames;
  readonly revocations: Revocations;
  readonly resolution: Resolution;
  readonly #lostManifests: LostManifests;
  readonly pins: Pins;
  readonly requests: Requests;
  readonly capabilities: Capabilities;
  readonly holderWatch: HolderWatch;
  /** Figures of this agent, and of all. */
  readonly statistics: OwnStatistics;
  readonly clusterStatistics: ClusterStatistics;
  readonly #earlierReleases: EarlierReleases;
  readonly mounts: Mounts;
  readonly writableVolumeTables: WritableVolumeTables;
  readonly writableVolumes: WritableVolumes;
  readonly volumeReconciler: VolumeReconciler;
  readonly volumes: VolumeRegistry;
  readonly volumeMounts: VolumeMounts;
  readonly usage: Usage;
  readonly warmTables: WarmTables;
  readonly warmJobs: WarmJobs;
  readonly coordinator: WarmCoordinator;
  readonly #storeGuard: StoreGuard;
  readonly removal: Removal;
  readonly advice: Advice;
  #executor: WarmExecutor | undefined;

  constructor(context: AgentContext, parts: AgentParts) {
    this.context = context;
    const { holder, volumes, probe, peers, storeMaintenance } = parts;
    const { logger, store, clock } = context;
    const openOrigin = withVolumes(parts.openOrigin, {
      engine: context.engine,
      open: async (name, signal) => (await this.openVolume(name, signal)).id,
      isDeleted: (id) => this.writableVolumeTables.deletedMirror.get(id) !== undefined,
    });
    this.datasets = new DatasetTables(store, logger, clock);
    this.credentials = new CredentialCache((dataset) => this.datasets.mirror.get(dataset)?.credentialed ?? false);
    this.credentialSharing = new CredentialSharing(this.credentials, this.datasets, peers, logger, clock);
    this.locations = new Locations(context, this.datasets, openOrigin, this.credentials);
    this.keeper = new ManifestKeeper(context, this.datasets, this.locations);
    this.#clientNames = new ClientNames(context, this.datasets, this.keeper);
    this.revocations = new Revocations(context);
    this.credentials.onChange((dataset) => this.keeper.credentialsChanged(dataset));
    this.resolution = new Resolution(context, this.datasets, {
      open: openOrigin,
      credentials: this.credentials,
      keeper: this.keeper,
      used: () => this.#usedManifests(),
    });
    this.#lostManifests = new LostManifests(context, this.datasets, this.keeper, this.resolution);
    this.pins = new Pins(context, this.keeper);
    this.capabilities = new Capabilities(probe, context.timings.probeMs, logger, clock);
    this.holderWatch = new HolderWatch(context, holder);
    this.writableVolumeTables = new WritableVolumeTables(store, logger);
    this.writableVolumes = new WritableVolumes(this.writableVolumeTables, clock);
    this.volumeReconciler = new VolumeReconciler(context, this.writableVolumeTables);
    this.statistics = new OwnStatistics(context, {
      datasets: this.datasets,
      pins: this.pins,
      capabilities: () => [
        ...this.capabilities.all(),
        ...this.holderWatch.capabilities(),
        ...this.volumeMounts.capabilities(),
        ...this.#storeGuard.capabilities(),
      ],
      volumes: () => volumeFigures(context.engine, this.writableVolumeTables, this.volumeReconciler),
    });
    this.clusterStatistics = new ClusterStatistics({
      ...context,
      own: () => this.statistics.current,
      ask: (node, datasets, signal) => peers.report(node, datasets, signal),
    });
    this.#earlierReleases = new EarlierReleases(context, this.statistics);
    this.mounts = new Mounts(context, this.datasets, this.keeper);
    this.volumes = new VolumeRegistry(store);
    this.volumeMounts = new VolumeMounts(
      context,
      {
        tables: this.datasets,
        keeper: this.keeper,
        mounts: this.mounts,
        openVolume: (name, signal) => this.openVolume(name, signal),
      },
      volumes,
    );
    const { pins, keeper, volumeMounts } = this;
    this.requests = new Requests(context, { pins, keeper, volumeMounts });
    this.datasets.onEmptied(() => {
      this.#quietly('failed to write the records of mounts again', this.mounts.rewrite());
      this.#quietly('failed to write the records of pins again', this.pins.rewrite());
      this.#quietly('failed to write the revocations of tokens again', this.revocations.rewrite());
    });
    this.usage = new Usage(context, this.datasets, this.keeper);
    this.warmTables = new WarmTables(store, logger, clock);
    this.warmJobs = new WarmJobs(context, this.warmTables, this.datasets, this.keeper, this.clusterStatistics);
    this.advice = new Advice(context, {
      datasets: this.datasets,
      keeper,
      check: new OriginCheck(context, openOrigin, this.credentials),
      requests: this.requests,
      jobs: this.warmJobs,
    });
    this.coordinator = new WarmCoordinator(context, this.warmTables);
    this.#storeGuard = new StoreGuard({
      store,
      owned: storeMaintenance,
      leading: () => this.coordinator.leading,
      logger,
      clock,
      intervalMs: context.timings.storeLookMs,
    });
    this.removal = new Removal(context, {
      tables: this.datasets,
      warm: this.warmTables,
      requests: this.requests,
      mounts: this.mounts,
    });
  }

  async start(signal: AbortSignal): Promise<void> {
    // Clients can read nothing before their names are known.
    await Promise.all([this.datasets.ready(signal), this.warmTables.ready(signal), this.revocations.ready(signal)]);
    this.#clientNames.ready();
    await this.pins.restore(signal);
    await this.writableVolumeTables.ready(signal);
    // Mounts of volumes are taken over by an engine that knows the volumes.
    await this.volumeReconciler.start();
    await this.mounts.resume(signal);
    await this.volumeMounts.start();
    await Promise.all([this.statistics.ready(), this.clusterStatistics.ready(signal)]);
    this.#executor = new WarmExecutor(this.context, this.warmTables, this.keeper, this.pins);
  }

  /** Number of warm job parts running here. */
  get runningParts(): number {
    return this.#executor?.running ?? 0;
  }

  /** Resolves when the engine knows the writable volume. Throws `NotFound`. */
  async openVolume(name: string, signal: AbortSignal): Promise<WritableVolumeRecord> {
    const volume = await this.writableVolumes.get(name, { signal });
    await this.volumeReconciler.known(volume.id, signal);
    return volume;
  }

  /** Handles the engine's requests and reports; never throws or blocks. */
  onEvent(event: EngineEvent): void {
    switch (event.kind) {
      case 'locations':
        this.locations.answer(event);
        return;
      case 'log':
        this.context.logger.log(event.level, event.message, event.fields);
        return;
      case 'originChanged':
        this.#quietly('failed to record that the origin of a dataset changed', this.keeper.originChanged(event));
        return;
      case 'mountEnded':
        this.#quietly('failed to record the end of a mount', this.mounts.ended(event.target, event.message));
        return;
      default:
        event satisfies never;
    }
  }

  /** Calls the listener when records behind the status may have changed; returns a function that unsubscribes. */
  onStatusChange(listener: () => void): () => void {
    const { jobsMirror, progressMirror, divisionsMirror } = this.warmTables;
    const sources = [this.datasets.mirror, this.datasets.resolvingMirror, jobsMirror, progressMirror, divisionsMirror];
    const ends = [...sources, this.context.members, this.mounts, this.writableVolumeTables].map((one) =>
      one.onChange(listener),
    );
    const endStored = this.clusterStatistics.onStored(listener);
    return () => {
      for (const end of [...ends, endStored]) end();
    };
  }

  /** Jobs and mounts continue after a restart, so close() does not end them. */
  async close(): Promise<void> {
    await this.#executor?.close();
    await this.#storeGuard.close();
    await this.coordinator.close();
    await this.requests.close();
    await this.volumeMounts.close();
    await this.mounts.close();
    await this.volumeReconciler.close();
    await this.writableVolumeTables.close();
    await this.credentialSharing.close();
    this.locations.close();
    await Promise.all([this.capabilities.close(), this.holderWatch.close()]);
    this.#clientNames.close();
    await this.#lostManifests.close();
    await this.#earlierReleases.close();
    await Promise.all([this.statistics.close(), this.clusterStatistics.close()]);
    await Promise.all([this.usage.close(), this.pins.close(), this.keeper.close()]);
    await Promise.all([this.warmTables.close(), this.revocations.close(), this.datasets.close()]);
  }

  /** Manifests of revisions that are in use or must be kept. */
  async #usedManifests(): Promise<Set<string>> {
    const kept = (await this.volumes.list()).map((volume) => volume.manifest);
    const warmed = this.warmTables.jobsMirror.values().flatMap((job) => (job.end === undefined ? [job.manifest] : []));
    return new Set([...(await this.mounts.manifests()), ...kept, ...warmed, ...this.pins.manifests()]);
  }

  #quietly(message: string, work: Promise<void>): void {
    work.catch((error) => this.context.logger.error(message, { error }));
  }
}
