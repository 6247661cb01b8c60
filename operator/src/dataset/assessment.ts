import { type ErrorCode, isErrorCode } from '@hearth/common';
import type { Dataset as AgentDataset } from '@hearth/common/generated/hearth/v1/control.ts';
import {
  type Condition,
  type Dataset,
  parseDuration,
  registeredName,
  type SourceKind,
  sourceKind,
} from '@hearth/common/resources';
import { retryDelayMs } from '../reconciler/index.ts';
import type { ObservedDataset, SecretView } from './observation.ts';
import {
  choiceOf,
  credentialsDigest,
  type Registration,
  refuseDirectory,
  sourceOf,
  withoutMirrors,
} from './registration.ts';
import type { Attempt, Failure } from './resolutions.ts';
import type { SourceVolume } from './source_volume.ts';

/** Why agents must list the origin. */
export type Lack = 'unknown' | 'changed' | 'failed' | 'unfinished' | 'refresh';

/** The state of a Dataset, from which the plan and the status follow. Times are milliseconds since the epoch. */
export type Assessment =
  /** Agents are not asked. */
  | {
      state: 'refused';
      cluster: string | undefined;
      about: 'cluster' | 'secret' | 'source';
      reason: AwaitedReason;
      message: string;
    }
  /** The earlier state still holds. */
  | { state: 'away'; cluster: string; reason: AwaitedReason; message: string }
  | {
      state: 'assessed';
      cluster: string;
      registration: Registration;
      present: AgentDataset | undefined;
      /** True when agents know the present spec. */
      registered: boolean;
      lack: Lack | undefined;
      /** Undefined when nothing is lacking, or a listing runs. */
      listAt: number | undefined;
      /** When to compare with the agents' reports; undefined when these agree. */
      settlesAt: number | undefined;
      running: Attempt['running'];
      /** Why agents cannot list; undefined when they can. */
      waits: { reason: AwaitedReason; message: string } | undefined;
      failure: { code: ErrorCode; message: string } | undefined;
      refreshedAt: number | undefined;
    };

/** Every reason of `refused` and `away`. */
const awaited = [
  'ClusterNotFound',
  'ClusterAmbiguous',
  'ClusterChanged',
  'DirectoryNotAllowed',
  'ClaimNotFound',
  'ClaimUnusable',
  'SecretNotFound',
  'SecretForbidden',
  'SecretKeyMissing',
  'SecretUnavailable',
  'AgentsUnavailable',
  'AgentsTooOld',
] as const;
export type AwaitedReason = (typeof awaited)[number];

export function isAwaited(reason: string): boolean {
  return awaited.some((one) => one === reason);
}

export type Assessed = Extract<Assessment, { state: 'assessed' }>;

/** Agents learn of a change from one another within this time, ms. */
const settleMs = 10_000;

export function assess(dataset: Dataset, observed: ObservedDataset): Assessment {
  const { choice } = observed;
  const refused =
    refuseCluster(choice) ?? refuseSource(dataset, choice) ?? refuseVolume(observed) ?? refuseSecret(dataset, observed);
  if (refused !== undefined) return refused;
  if (choice.kind !== 'found') throw new TypeError('a Dataset without a cluster is refused');
  const cluster = choice.cluster.name;
  if (observed.secret?.kind === 'unavailable') {
    const name = observed.unavailableSecret ?? dataset.spec.secretRef?.name;
    const message = `the operator cannot read the Secret ${name}: ${observed.secret.message}`;
    return { state: 'away', cluster, reason: 'SecretUnavailable', message };
  }
  if (observed.agents?.connected !== true) {
    const message = `waits for an agent of StorageCluster ${cluster}: kubectl describe storagecluster ${cluster} says why none answers`;
    return { state: 'away', cluster, reason: 'AgentsUnavailable', message };
  }
  const found = observed.secret?.kind === 'found' ? observed.secret.credentials : undefined;
  const credentials = found && observed.agents.noneTakesMirrors === true ? withoutMirrors(found) : found;
  return assessKnown(dataset, observed, registrationOf(dataset, cluster, credentials, observed.volume));
}

export function registrationOf(
  { metadata, spec }: Dataset,
  cluster: string,
  credentials: Registration['credentials'],
  volume?: SourceVolume,
): Registration {
  const name = registeredName(metadata.namespace ?? '', metadata.name);
  const source = sourceOf(spec, volume?.kind === 'found' ? volume.name : undefined);
  return { cluster, name, source, include: spec.include, exclude: spec.exclude, credentials };
}

export function conditionOf(dataset: Dataset, type: string): Condition | undefined {
  return dataset.status?.conditions?.find((one) => one.type === type);
}

function holdsNow(dataset: Dataset, type: string): boolean {
  const condition = conditionOf(dataset, type);
  return condition?.status === 'True' && condition.observedGeneration === dataset.metadata.generation;
}

function refuseCluster(choice: ObservedDataset['choice']): Assessment | undefined {
  const refused = (reason: AwaitedReason, message: string): Assessment => {
    return { state: 'refused', cluster: undefined, about: 'cluster', reason, message };
  };
  switch (choice.kind) {
    case 'found':
      return undefined;
    case 'missing':
      return choice.name === undefined
        ? refused('ClusterNotFound', 'waits for a StorageCluster: none exists yet; create one')
        : refused(
            'ClusterNotFound',
            `waits for StorageCluster ${choice.name}, which does not exist yet; create it, or correct spec.clusterRef`,
          );
    case 'ambiguous': {
      const names = choice.names.slice(0, 10).join(', ');
      return refused('ClusterAmbiguous', `waits for spec.clusterRef to name one of several StorageClusters (${names})`);
    }
    case 'moved':
      return refused(
        'ClusterChanged',
        `is cached by StorageCluster ${choice.from} and cannot move to ${choice.to}: make another Dataset`,
      );
  }
}

function refuseSource(dataset: Dataset, choice: ObservedDataset['choice']): Assessment | undefined {
  if (choice.kind !== 'found') return undefined;
  const { name, directoryPrefixes } = choice.cluster;
  const { source, mirrors = [] } = dataset.spec;
  const message = [source, ...mirrors].map((one) => refuseDirectory(one, directoryPrefixes)).find(Boolean);
  if (message === undefined) return undefined;
  return { state: 'refused', cluster: name, about: 'source', reason: 'DirectoryNotAllowed', message };
}

function refuseVolume({ choice, volume }: ObservedDataset): Assessment | undefined {
  if (choice.kind !== 'found' || volume === undefined) return undefined;
  const cluster = choice.cluster.name;
  const refused = (reason: AwaitedReason, message: string): Assessment => {
    return { state: 'refused', cluster, about: 'source', reason, message };
  };
  if (volume.kind === 'unusable') return refused(volume.reason, volume.message);
  if (volume.cluster === '' || volume.cluster === cluster) return undefined;
  const message = `the volume of the claim is kept by StorageCluster ${volume.cluster}, and the Dataset by ${cluster}; set spec.clusterRef`;
  return refused('ClaimUnusable', message);
}

function refuseSecret(dataset: Dataset, { choice, secret, grantCommand }: ObservedDataset): Assessment | undefined {
  const cluster = choice.kind === 'found' ? choice.cluster.name : undefined;
  if (secret === undefined || secret.kind === 'found' || secret.kind === 'unavailable') return undefined;
  const name = `${dataset.metadata.namespace}/${dataset.spec.secretRef?.name}`;
  const lack = secretLack(secret, name, sourceKind(dataset.spec.source), grantCommand);
  return { state: 'refused', cluster, about: 'secret', ...lack };
}

/** Why a Secret is unusable. `kind`: of its source or mirror. */
export function secretLack(
  secret: Exclude<SecretView, { kind: 'found' }>,
  name: string,
  kind: SourceKind,
  grantCommand: string,
): { reason: AwaitedReason; message: string } {
  switch (secret.kind) {
    case 'missing':
      return { reason: 'SecretNotFound', message: `waits for the Secret ${name}, which does not exist yet; create it` };
    case 'forbidden': {
      const message = `the operator may not read the Secret ${name}; allow it with: ${grantCommand}`;
      return { reason: 'SecretForbidden', message };
    }
    case 'unavailable':
      return { reason: 'SecretUnavailable', message: `the operator cannot read the Secret ${name}: ${secret.message}` };
    case 'keysMissing': {
      const has =
        secret.present.length === 0 ? 'it has no keys' : `its keys are ${secret.present.slice(0, 10).join(', ')}`;
      const message = `the Secret ${name} has no usable value for ${secret.keys.join(' and ')}, which a source of kind ${kind} needs; ${has}`;
      return { reason: 'SecretKeyMissing', message };
    }
  }
}

function assessKnown(dataset: Dataset, observed: ObservedDataset, registration: Registration): Assessment {
  const { now } = observed;
  const choice = choiceOf(registration);
  const attempt = observed.attempt?.choice === choice ? observed.attempt : undefined;
  const listed = attempt?.outcome?.kind === 'listed' ? attempt.outcome : undefined;
  const failed = attempt?.outcome?.kind === 'failed' ? attempt.outcome : undefined;
  const { present, settlesAt } = presentOf(observed, listed);
  const registered = holdsNow(dataset, 'Registered') || listed !== undefined;
  const refreshedAt = listed?.at ?? timeOf(dataset.status?.refreshedAt);
  const intervalMs = parseDuration(dataset.spec.refresh?.interval ?? '');
  const refreshAt = intervalMs === undefined ? undefined : (refreshedAt ?? 0) + intervalMs;
  const lack = lackOf(present, registered, refreshAt !== undefined && refreshAt <= now);
  const sameCredentials = attempt?.credentials === credentialsDigest(registration.credentials);
  const running = attempt?.running !== undefined && sameCredentials;
  // New credentials need no delay.
  const notBefore = failed !== undefined && sameCredentials ? failed.at + retryDelayMs(failed.failures) : 0;
  const waits = waitsForUpgrade(dataset, observed);
  const wanted = waits !== undefined ? undefined : lack === undefined ? refreshAt : 0;
  return {
    state: 'assessed',
    cluster: registration.cluster,
    registration,
    present,
    registered,
    lack,
    listAt: running || wanted === undefined ? undefined : Math.max(wanted, notBefore),
    settlesAt,
    running: attempt?.running,
    waits,
    failure: failureOf(dataset, present, failed, listed),
    refreshedAt,
  };
}

/** Older agents ignore mirrors, the layout of a hub cache, or a volume, and any agent may do the listing. */
function waitsForUpgrade({ spec }: Dataset, { agents }: ObservedDataset): Assessed['waits'] {
  const { withoutMirrors = [], withoutHubLayout = [], withoutVolumes = [] } = agents ?? {};
  const waitsFor = (nodes: readonly string[], lack: string): Assessed['waits'] => {
    const message = `waits until the agents of ${nodes.slice(0, 10).join(', ')} are upgraded: their release knows ${lack}`;
    return nodes.length === 0 ? undefined : { reason: 'AgentsTooOld', message };
  };
  const forLayout =
    spec.source.hub?.layout === 'hub' ? waitsFor(withoutHubLayout, 'no layout of a hub cache') : undefined;
  const forVolume = spec.source.volume && waitsFor(withoutVolumes, 'no Datasets of volumes');
  return (
    forLayout ?? forVolume ?? ((spec.mirrors ?? []).length > 0 ? waitsFor(withoutMirrors, 'no mirrors') : undefined)
  );
}

/** The result of a listing stands until agents must have learned of it. Agents without the dataset have a new store. */
function presentOf({ agents, now }: ObservedDataset, listed: { dataset: AgentDataset; at: number } | undefined) {
  const reported = agents?.dataset;
  if (listed === undefined || now >= listed.at + settleMs) return { present: reported, settlesAt: undefined };
  const current = reported?.manifest === listed.dataset.manifest && reported.state === listed.dataset.state;
  return current
    ? { present: reported, settlesAt: undefined }
    : { present: listed.dataset, settlesAt: listed.at + settleMs };
}

function lackOf(present: AgentDataset | undefined, registered: boolean, refresh: boolean): Lack | undefined {
  if (present === undefined) return 'unknown';
  if (!registered) return 'changed';
  if (present.state === 'Failed') return 'failed';
  if (present.state !== 'Ready') return 'unfinished';
  return refresh ? 'refresh' : undefined;
}

/** The error of the last listing; before the first listing, the written or reported error. */
function failureOf(
  dataset: Dataset,
  present: AgentDataset | undefined,
  failed: Failure | undefined,
  listed: object | undefined,
): Assessed['failure'] {
  if (failed !== undefined) return { code: failed.error.code, message: failed.error.message };
  const ready = conditionOf(dataset, 'Ready');
  const written = ready?.status === 'False' && ready.observedGeneration === dataset.metadata.generation;
  if (listed === undefined && present?.state !== 'Ready' && written && isErrorCode(ready.reason)) {
    return { code: ready.reason, message: ready.message };
  }
  if (present?.state !== 'Failed') return undefined;
  // Agents report no code. A known manifest means that listed files have disappeared.
  return { code: present.manifest === '' ? 'Unavailable' : 'OriginChanged', message: present.message };
}

function timeOf(text: string | undefined): number | undefined {
  const time = Date.parse(text ?? '');
  return Number.isNaN(time) ? undefined : time;
}
