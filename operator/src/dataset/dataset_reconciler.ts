import { HearthError } from '@hearth/common';
import {
  type EventRecorder,
  kinds,
  objectKey,
  type PersistentVolumeClaim,
  type ResourceType,
} from '@hearth/common/kubernetes';
import { type Dataset, datasets, registeredName } from '@hearth/common/resources';
import { type Agents, nodesWithout } from '../agents/index.ts';
import { type CleanUpResult, type ObjectReconciler, type Pass, WrittenFigures } from '../reconciler/index.ts';
import { grantCommand, type SecretGrant, type SecretReader } from '../secrets/index.ts';
import { conditionOf } from './assessment.ts';
import { type ClusterChoice, type ClusterView, chooseCluster } from './cluster.ts';
import { writtenFigures } from './figures.ts';
import { joinSecrets, namedSecrets } from './named_secrets.ts';
import type { ObservedDataset } from './observation.ts';
import { type DatasetAction, plan, requeueAfterMs } from './plan.ts';
import {
  credentialsDigest,
  hubLayoutFeature,
  mirrorsFeature,
  noCredentials,
  type Registration,
  volumeFeature,
} from './registration.ts';
import type { Removal } from './removal.ts';
import type { Resolutions } from './resolutions.ts';
import { type ClaimedScratch, sourceVolume } from './source_volume.ts';
import { statusOf } from './status.ts';
import { claimsOf, type DatasetUser, describeUsers } from './users.ts';

export interface DatasetReconcilerOptions {
  agents: Pick<Agents, 'get'>;
  clusters(): readonly ClusterView[];
  users(key: string): readonly DatasetUser[];
  /** All volumes of the driver. */
  volumes(): readonly ClaimedScratch[];
  secrets: Pick<SecretReader, 'get' | 'staleInMs' | 'retrySoon' | 'forget'>;
  grant: SecretGrant;
  resolutions: Pick<Resolutions, 'get' | 'start' | 'forget'>;
  removal: Removal;
  events: Pick<EventRecorder, 'eventFor'>;
  now(): number;
}

type SecretsView = Pick<ObservedDataset, 'secret' | 'secretStaleInMs' | 'unusableSecrets' | 'unavailableSecret'>;

/** A fallback: the end of a use starts a pass, ms. */
const inUseMs = 60_000;
const maxClaimsListed = 10;
const figuresMs = 5_000;

export class DatasetReconciler implements ObjectReconciler<Dataset, ObservedDataset, DatasetAction> {
  readonly type: ResourceType<Dataset> = datasets;
  readonly progressReasons = ['Listing', 'AgentsUnavailable', 'AgentsTooOld'];
  readonly plan = plan;
  readonly requeueAfterMs = requeueAfterMs;
  readonly status = (dataset: Dataset, pass: Pass<ObservedDataset, DatasetAction>) => statusOf(dataset, pass.observed);
  readonly #options: DatasetReconcilerOptions;
  readonly #written: WrittenFigures<Dataset>;
  /** Digests of credentials at agents, by the Dataset's key. */
  readonly #sent = new Map<string, NonNullable<ObservedDataset['sent']>>();
  /** Secrets of the last pass, by the Dataset's key. */
  readonly #secretNames = new Map<string, ReadonlySet<string>>();

  constructor(options: DatasetReconcilerOptions) {
    this.#options = options;
    this.#written = new WrittenFigures(options.now, writtenFigures);
  }

  async observe(dataset: Dataset): Promise<ObservedDataset> {
    const { clusters, agents, resolutions, grant, now, volumes } = this.#options;
    const key = objectKey(dataset);
    const choice = this.#choose(dataset, clusters());
    const status = choice.kind === 'found' ? agents.get(choice.cluster.name)?.status : undefined;
    const namespace = dataset.metadata.namespace ?? '';
    const lacking = status === undefined ? [] : nodesWithout(status, mirrorsFeature);
    return {
      choice,
      volume: sourceVolume(dataset, dataset.spec.source.volume === undefined ? [] : volumes()),
      ...(await this.#secret(dataset)),
      grantCommand: grantCommand(grant, namespace),
      agents: status && {
        connected: status.connected,
        dataset: status.datasets.get(registeredName(namespace, dataset.metadata.name)),
        withoutMirrors: lacking,
        withoutHubLayout: status === undefined ? [] : nodesWithout(status, hubLayoutFeature),
        withoutVolumes: status === undefined ? [] : nodesWithout(status, volumeFeature),
        noneTakesMirrors: lacking.length > 0 && lacking.length === status.nodes.size,
      },
      attempt: resolutions.get(key),
      sent: this.#sent.get(key),
      holdMs: this.#written.holdMs(dataset, figuresMs),
      now: now(),
    };
  }

  async apply(action: DatasetAction, dataset: Dataset, signal: AbortSignal): Promise<void> {
    const key = objectKey(dataset);
    switch (action.kind) {
      case 'abort':
        return this.#options.resolutions.forget(key);
      case 'list': {
        // The listing carries the credentials.
        const { credentials } = action.registration;
        if (credentials !== undefined) this.#recordSent(key, credentialsDigest(credentials));
        return this.#options.resolutions.start(key, action.registration);
      }
      case 'event':
        return this.#options.events.eventFor(datasets, dataset, action.type, action.reason, action.message);
      case 'sendCredentials':
        return await this.#sendCredentials(key, action.registration, signal);
    }
  }

  /** Waits for claims and pods, then has agents forget the Dataset. Ends after a timeout without agents. */
  async cleanUp(dataset: Dataset, signal: AbortSignal): Promise<CleanUpResult> {
    const { users, removal, clusters, resolutions, events } = this.#options;
    const key = objectKey(dataset);
    const present = users(key);
    if (present.length > 0) {
      if (conditionOf(dataset, 'Ready')?.reason !== 'InUse') this.#reportClaims(dataset, present);
      const waitingFor = `waits until nothing uses the Dataset any more; until then the Dataset stays readable for ${describeUsers(present)}`;
      return { waitingFor, reason: 'InUse', requeueAfterMs: inUseMs };
    }
    resolutions.forget(key);
    const choice = this.#choose(dataset, clusters());
    const cluster = choice.kind === 'found' ? choice.cluster.name : choice.kind === 'moved' ? choice.from : undefined;
    if (cluster !== undefined) {
      const result = await removal.remove(dataset, cluster, signal);
      if (result.kind === 'waits') {
        const reason = result.inUse ? 'InUse' : 'Deleting';
        return { waitingFor: result.message, reason, requeueAfterMs: result.retryMs };
      }
      if (result.kind === 'abandoned') {
        events.eventFor(datasets, dataset, 'Warning', 'RemovedWithoutAgents', result.message);
      }
    }
    this.forget(key, dataset);
    return 'done';
  }

  credentialsLost(key: string): void {
    const sent = this.#sent.get(key);
    if (sent !== undefined) this.#sent.set(key, { ...sent, at: 0 });
  }

  forget(key: string, { metadata }: Dataset): void {
    this.#options.resolutions.forget(key);
    this.#written.forget(key);
    this.#sent.delete(key);
    this.#needsSecrets(key, metadata.namespace ?? '', new Set());
  }

  /** Forgets Secrets that this Dataset no longer needs; other users read them again. */
  #needsSecrets(key: string, namespace: string, names: ReadonlySet<string>): void {
    for (const before of this.#secretNames.get(key) ?? []) {
      if (!names.has(before)) this.#options.secrets.forget(namespace, before);
    }
    if (names.size === 0) this.#secretNames.delete(key);
    else this.#secretNames.set(key, names);
  }

  #choose({ spec, status }: Dataset, clusters: readonly ClusterView[]): ClusterChoice {
    return chooseCluster(spec.clusterRef?.name, status?.cluster, clusters);
  }

  async #secret(dataset: Dataset): Promise<SecretsView> {
    const { metadata, spec } = dataset;
    const { secrets } = this.#options;
    const named = namedSecrets(spec);
    const namespace = metadata.namespace ?? '';
    this.#needsSecrets(objectKey(dataset), namespace, new Set(named.map(({ name }) => name)));
    if (named.length === 0) return { secret: undefined, secretStaleInMs: 0 };
    const readings = await Promise.all(
      named.map(async (one) => ({ ...one, reading: await secrets.get(namespace, one.name) })),
    );
    const { view, unusable, unavailable } = joinSecrets(readings);
    if (view.kind === 'keysMissing' && spec.secretRef !== undefined) {
      secrets.retrySoon(namespace, spec.secretRef.name);
    }
    for (const { view: lacks, name } of unusable) {
      if (lacks.kind === 'keysMissing') secrets.retrySoon(namespace, name);
    }
    const staleInMs = Math.min(...named.map(({ name }) => secrets.staleInMs(namespace, name)));
    return {
      secret: view,
      secretStaleInMs: staleInMs,
      unusableSecrets: unusable,
      ...(unavailable === undefined ? {} : { unavailableSecret: unavailable }),
    };
  }

  /** A refusal leaves the agents with the earlier credentials, so the Dataset stays Ready. */
  async #sendCredentials(key: string, registration: Registration, signal: AbortSignal): Promise<void> {
    const { cluster, name, credentials = noCredentials } = registration;
    const digest = credentialsDigest(credentials);
    try {
      // An agent without this feature would drop the credentials of mirrors.
      const options = { signal, ...(credentials.mirrors === undefined ? {} : { feature: mirrorsFeature }) };
      await this.#options.agents.get(cluster)?.call('setCredentials', { dataset: name, credentials }, options);
      this.#recordSent(key, digest);
    } catch (thrown) {
      this.#sent.set(key, { digest, at: this.#options.now(), refusal: HearthError.from(thrown) });
    }
  }

  #recordSent(key: string, digest: string): void {
    this.#sent.set(key, { digest, at: this.#options.now() });
  }

  /** Events on claims reach their owners. */
  #reportClaims(dataset: Dataset, users: readonly DatasetUser[]): void {
    const message = `Dataset ${objectKey(dataset)} is being deleted: this claim stays readable until the claim is deleted too`;
    for (const { namespace, name, uid } of claimsOf(users, maxClaimsListed)) {
      const claim: PersistentVolumeClaim = { metadata: { namespace, name, uid } };
      this.#options.events.eventFor(kinds.PersistentVolumeClaim, claim, 'Warning', 'DatasetIsDeleted', message);
    }
  }
}
