import { HearthError } from '@hearth/common';
import {
  type EventRecorder,
  kinds,
  objectKey,
  type PersistentVolumeClaim,
  type ResourceType,
} from '@hearth/common/kubernetes';
import { type Dataset, datasets, registeredName, sourceKind } from '@hearth/common/resources';
import type { Agents } from '../agents/index.ts';
import type { CleanUpResult, ObjectReconciler, Pass } from '../reconciler/index.ts';
import { credentialsOf, grantCommand, type SecretGrant, type SecretReader } from '../secrets/index.ts';
import { conditionOf } from './assessment.ts';
import { type ClusterChoice, type ClusterView, chooseCluster } from './cluster.ts';
import type { ObservedDataset, SecretView } from './observation.ts';
import { type DatasetAction, plan, requeueAfterMs } from './plan.ts';
import { credentialsDigest, noCredentials, type Registration } from './registration.ts';
import type { Removal } from './removal.ts';
import type { Resolutions } from './resolutions.ts';
import { statusOf } from './status.ts';
import { claimsOf, type DatasetUser, describeUsers } from './users.ts';
import type { WrittenFigures } from './written_figures.ts';

export interface DatasetReconcilerOptions {
  agents: Pick<Agents, 'get'>;
  clusters(): readonly ClusterView[];
  users(key: string): readonly DatasetUser[];
  secrets: Pick<SecretReader, 'get' | 'staleInMs' | 'lookAgainSoon' | 'forget'>;
  grant: SecretGrant;
  resolutions: Pick<Resolutions, 'get' | 'start' | 'forget'>;
  removal: Removal;
  written: WrittenFigures;
  events: Pick<EventRecorder, 'eventFor'>;
  /** Milliseconds since the epoch. */
  now(): number;
}

/** How soon users are looked at again: their going brings the Dataset back by itself. */
const inUseMs = 60_000;
const maxClaimsListed = 10;

/** Registers Datasets at the agents of their clusters, and reports in their status what the agents say. */
export class DatasetReconciler implements ObjectReconciler<Dataset, ObservedDataset, DatasetAction> {
  readonly type: ResourceType<Dataset> = datasets;
  readonly progressReasons = ['Listing', 'AgentsUnavailable'];
  readonly plan = plan;
  readonly requeueAfterMs = requeueAfterMs;
  readonly status = (dataset: Dataset, pass: Pass<ObservedDataset, DatasetAction>) => statusOf(dataset, pass.observed);
  readonly #options: DatasetReconcilerOptions;
  /** Credentials given to agents, as digests, by the Dataset's key. */
  readonly #sent = new Map<string, NonNullable<ObservedDataset['sent']>>();
  /** Names of the Secrets that were read last, by the Dataset's key. */
  readonly #secretNames = new Map<string, string>();

  constructor(options: DatasetReconcilerOptions) {
    this.#options = options;
  }

  async observe(dataset: Dataset): Promise<ObservedDataset> {
    const { clusters, agents, resolutions, grant, written, now } = this.#options;
    const key = objectKey(dataset);
    const choice = this.#choose(dataset, clusters());
    const status = choice.kind === 'found' ? agents.get(choice.cluster.name)?.status : undefined;
    const namespace = dataset.metadata.namespace ?? '';
    return {
      choice,
      ...(await this.#secret(dataset)),
      grantCommand: grantCommand(grant, namespace),
      agents: status && {
        connected: status.connected,
        dataset: status.datasets.get(registeredName(namespace, dataset.metadata.name)),
      },
      attempt: resolutions.get(key),
      sent: this.#sent.get(key),
      holdMs: written.holdMs(dataset),
      now: now(),
    };
  }

  async apply(action: DatasetAction, dataset: Dataset, signal: AbortSignal): Promise<void> {
    const key = objectKey(dataset);
    switch (action.kind) {
      case 'giveUp':
        return this.#options.resolutions.forget(key);
      case 'look': {
        // The look carries them.
        const { credentials } = action.registration;
        if (credentials !== undefined) this.#noteSent(key, credentialsDigest(credentials));
        return this.#options.resolutions.start(key, action.registration);
      }
      case 'event':
        return this.#options.events.eventFor(datasets, dataset, action.type, action.reason, action.message);
      case 'sendCredentials':
        return await this.#sendCredentials(key, action.registration, signal);
    }
  }

  /** Claims and pods that use it keep it readable; then agents forget it. Ends although they cannot be reached. */
  async cleanUp(dataset: Dataset, signal: AbortSignal): Promise<CleanUpResult> {
    const { users, removal, clusters, resolutions, events } = this.#options;
    const key = objectKey(dataset);
    const present = users(key);
    if (present.length > 0) {
      if (conditionOf(dataset, 'Ready')?.reason !== 'InUse') this.#reportClaims(dataset, present);
      const waitingFor = `is deleted when nothing uses it any more; it stays readable for ${describeUsers(present)}`;
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

  /** Agents may have lost the credentials of the Dataset: they are given again in its next pass. */
  credentialsLost(key: string): void {
    const sent = this.#sent.get(key);
    if (sent !== undefined) this.#sent.set(key, { ...sent, at: 0 });
  }

  /** The Dataset is gone: nothing is kept of it. */
  forget(key: string, { metadata }: Dataset): void {
    this.#options.resolutions.forget(key);
    this.#options.written.forget(key);
    this.#sent.delete(key);
    this.#needsSecret(key, metadata.namespace ?? '', undefined);
  }

  /** One that it needed before is not kept; others that need it have it read again. */
  #needsSecret(key: string, namespace: string, name: string | undefined): void {
    const before = this.#secretNames.get(key);
    if (before !== undefined && before !== name) this.#options.secrets.forget(namespace, before);
    if (name === undefined) this.#secretNames.delete(key);
    else this.#secretNames.set(key, name);
  }

  #choose({ spec, status }: Dataset, clusters: readonly ClusterView[]): ClusterChoice {
    return chooseCluster(spec.clusterRef?.name, status?.cluster, clusters);
  }

  async #secret(dataset: Dataset): Promise<{ secret: SecretView | undefined; secretStaleInMs: number }> {
    const { metadata, spec } = dataset;
    const name = spec.secretRef?.name;
    const namespace = metadata.namespace ?? '';
    this.#needsSecret(objectKey(dataset), namespace, name);
    if (name === undefined) return { secret: undefined, secretStaleInMs: 0 };
    const reading = await this.#options.secrets.get(namespace, name);
    const secret = reading.kind === 'found' ? credentialsOf(sourceKind(spec.source), reading.data) : reading;
    if (secret.kind === 'keysMissing') this.#options.secrets.lookAgainSoon(namespace, name);
    return { secret, secretStaleInMs: this.#options.secrets.staleInMs(namespace, name) };
  }

  /** Agents that do not take them go on with those they have: the Dataset is as Ready as it was. */
  async #sendCredentials(key: string, registration: Registration, signal: AbortSignal): Promise<void> {
    const { cluster, name, credentials = noCredentials } = registration;
    const digest = credentialsDigest(credentials);
    try {
      await this.#options.agents.get(cluster)?.call('setCredentials', { dataset: name, credentials }, { signal });
      this.#noteSent(key, digest);
    } catch (thrown) {
      this.#sent.set(key, { digest, at: this.#options.now(), refusal: HearthError.from(thrown) });
    }
  }

  #noteSent(key: string, digest: string): void {
    this.#sent.set(key, { digest, at: this.#options.now() });
  }

  /** On the claims themselves, where their owners look. */
  #reportClaims(dataset: Dataset, users: readonly DatasetUser[]): void {
    const message = `Dataset ${objectKey(dataset)} is being deleted: this claim stays readable until it is deleted itself`;
    for (const { namespace, name, uid } of claimsOf(users, maxClaimsListed)) {
      const claim: PersistentVolumeClaim = { metadata: { namespace, name, uid } };
      this.#options.events.eventFor(kinds.PersistentVolumeClaim, claim, 'Warning', 'DatasetIsDeleted', message);
    }
  }
}
