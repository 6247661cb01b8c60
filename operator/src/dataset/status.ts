import { counted } from '@hearth/common';
import type { Dataset as AgentDataset } from '@hearth/common/generated/hearth/v1/control.ts';
import type { Condition, Dataset, DatasetStatus } from '@hearth/common/resources';
import { type ConditionState, condition, type DesiredStatus } from '../reconciler/index.ts';
import { type Assessed, type Assessment, assess, conditionOf, isAwaited, secretLack } from './assessment.ts';
import { figuresOf, originAwayOn, residencyOf } from './figures.ts';
import { namedSecrets } from './named_secrets.ts';
import type { ObservedDataset } from './observation.ts';

export function statusOf(dataset: Dataset, observed: ObservedDataset): DesiredStatus<Dataset> {
  const assessment = assess(dataset, observed);
  const present = presentIn(assessment, observed);
  const conditions = [
    readyOf(dataset, assessment, observed),
    clusterCondition(dataset, assessment),
    registeredCondition(dataset, assessment),
    ...credentialsCondition(dataset, assessment, observed),
    ...refreshedCondition(dataset, assessment),
    ...sourcesCondition(dataset, present),
    ...originCondition(dataset, present),
  ];
  const refreshedAt = assessment.state === 'assessed' ? assessment.refreshedAt : undefined;
  const status: DesiredStatus<Dataset> = {
    ...figures(dataset.status, present, assessment.state === 'away', observed.holdMs > 0),
    conditions,
  };
  // A Dataset that waits for agents may still get another cluster.
  const cluster = assessment.state === 'assessed' ? assessment.cluster : dataset.status?.cluster;
  if (cluster !== undefined) status.cluster = cluster;
  const written = dataset.status?.refreshedAt;
  if (refreshedAt !== undefined) status.refreshedAt = `${new Date(refreshedAt).toISOString().slice(0, 19)}Z`;
  else if (written !== undefined) status.refreshedAt = written;
  return status;
}

function presentIn(assessment: Assessment, { agents }: ObservedDataset): AgentDataset | undefined {
  if (assessment.state === 'assessed') return assessment.present;
  return agents?.connected === true ? agents.dataset : undefined;
}

type Figures = Omit<DatasetStatus, 'conditions' | 'observedGeneration' | 'cluster' | 'refreshedAt'>;

/** `keep`: all figures stay, since no agent answers. `hold`: only changing figures stay. */
function figures(
  written: DatasetStatus | undefined,
  present: AgentDataset | undefined,
  keep: boolean,
  hold: boolean,
): Figures {
  if (present === undefined || present.manifest === '') {
    const { conditions, observedGeneration, cluster, refreshedAt, ...kept } = written ?? {};
    return keep ? kept : {};
  }
  const revision = figuresOf(present);
  if (!hold || written?.manifest !== present.manifest) return { ...revision, ...residencyOf(present) };
  const { residentBytes, percent, nodes, residency } = written;
  return withoutUndefined({ ...revision, residentBytes, percent, nodes, residency });
}

type Defined<T> = { [K in keyof T]: Exclude<T[K], undefined> };

function withoutUndefined<T extends object>(given: T): Defined<T> {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as Defined<T>;
}

function readyOf(dataset: Dataset, assessment: Assessment, observed: ObservedDataset): ConditionState {
  const before = conditionOf(dataset, 'Ready');
  switch (assessment.state) {
    case 'refused':
      return condition('Ready', 'False', assessment.reason, assessment.message);
    case 'away':
      return before !== undefined && standsWithoutAgents(dataset, before)
        ? before
        : condition('Ready', 'False', assessment.reason, assessment.message);
    case 'assessed':
      return assessedReady(assessment, before, observed.holdMs > 0);
  }
}

/** Agents' findings on the present spec hold while agents are away; refusals and waits may not. */
function standsWithoutAgents(dataset: Dataset, before: Condition): boolean {
  return before.observedGeneration === dataset.metadata.generation && !isAwaited(before.reason);
}

function assessedReady(assessed: Assessed, before: Condition | undefined, hold: boolean): ConditionState {
  const { present, registered, failure, running, waits } = assessed;
  const usable = present !== undefined && present.manifest !== '' && present.state === 'Ready';
  // The present revision serves while agents list a changed spec.
  if (usable && (registered || (failure === undefined && before?.status === 'True'))) {
    return condition('Ready', 'True', 'Ready', readyMessage(present));
  }
  if (waits !== undefined) return condition('Ready', 'False', waits.reason, waits.message);
  if (failure !== undefined) return condition('Ready', 'False', failure.code, failure.message);
  if (hold && before?.reason === 'Listing') return condition('Ready', 'False', 'Listing', before.message);
  return condition('Ready', 'False', 'Listing', listingMessage(running));
}

function readyMessage({ revision, files, bytes, manifest }: AgentDataset): string {
  const name = revision === '' ? manifest.slice(0, 12) : revision;
  return `revision ${name}: ${counted(files, 'file')}, ${bytes} bytes`;
}

function listingMessage(running: Assessed['running']): string {
  if (running === undefined || running.filesListed === 0n) return 'agents are listing the origin';
  return `agents are listing the origin: ${running.filesListed} files, ${running.bytesListed} bytes so far`;
}

function clusterCondition(dataset: Dataset, assessment: Assessment): ConditionState {
  if (assessment.state === 'refused' && assessment.about === 'cluster') {
    return condition('ClusterResolved', 'False', assessment.reason, assessment.message);
  }
  const named = dataset.spec.clusterRef === undefined ? 'none' : 'it';
  const message = `StorageCluster ${assessment.cluster} caches the Dataset; spec.clusterRef names ${named}`;
  return condition('ClusterResolved', 'True', 'Resolved', message);
}

function registeredCondition(dataset: Dataset, assessment: Assessment): ConditionState {
  if (assessment.state === 'assessed') {
    const { registered, present, failure, registration, cluster } = assessment;
    if (registered && present !== undefined) {
      const message = `agents of StorageCluster ${cluster} know the Dataset as ${registration.name}`;
      return condition('Registered', 'True', 'Registered', message);
    }
    if (failure !== undefined)
      return condition('Registered', 'False', failure.code, 'agents could not list the origin');
    return condition('Registered', 'False', 'Listing', 'agents are listing the origin');
  }
  const before = conditionOf(dataset, 'Registered');
  if (before !== undefined && before.observedGeneration === dataset.metadata.generation) return before;
  return condition('Registered', 'False', assessment.reason, 'the operator has not asked the agents yet');
}

function credentialsCondition(dataset: Dataset, assessment: Assessment, observed: ObservedDataset): ConditionState[] {
  const { sent, unusableSecrets = [], grantCommand } = observed;
  const named = namedSecrets(dataset.spec);
  if (named.length === 0) return [];
  const type = 'CredentialsReady';
  if (assessment.state === 'refused') {
    if (assessment.about === 'secret') return [condition(type, 'False', assessment.reason, assessment.message)];
    return [condition(type, 'Unknown', assessment.reason, 'the operator has not read the Secret yet')];
  }
  const before = conditionOf(dataset, type);
  if (assessment.state === 'away' && assessment.reason === 'SecretUnavailable') {
    if (before !== undefined) return [before];
    return [condition(type, 'Unknown', assessment.reason, assessment.message)];
  }
  if (sent?.refusal !== undefined) {
    const message = `agents refused the credentials: ${sent.refusal.message}`;
    return [condition(type, 'False', sent.refusal.code, message)];
  }
  const lacks = unusableSecrets.map(({ name, kind, view }) =>
    secretLack(view, `${dataset.metadata.namespace}/${name}`, kind, grantCommand),
  );
  if (lacks[0] !== undefined) {
    const messages = [...new Set(lacks.map(({ message }) => message))];
    return [condition(type, 'False', lacks[0].reason, `agents do not read mirrors: ${messages.join('; ')}`)];
  }
  const names = [...new Set(named.map(({ name }) => name))];
  const what = names.length === 1 ? 'Secret' : 'Secrets';
  return [condition(type, 'True', 'Found', `the operator found the credentials in the ${what} ${names.join(', ')}`)];
}

function sourcesCondition(dataset: Dataset, present: AgentDataset | undefined): ConditionState[] {
  if ((dataset.spec.mirrors ?? []).length === 0) return [];
  const type = 'AllSourcesUsed';
  if (present === undefined || present.manifest === '') {
    const before = conditionOf(dataset, type);
    return before === undefined ? [] : [before];
  }
  const aside = present.residency.flatMap(({ node, sourcesAside }) => sourcesAside.map((one) => `on ${node}: ${one}`));
  if (aside.length === 0) return [condition(type, 'True', 'Used', 'every node uses all sources')];
  return [condition(type, 'False', 'SourceAside', `agents read from other sources; ${aside.join('; ')}`)];
}

/** Given once an origin was away while reads waited for it. */
function originCondition(dataset: Dataset, present: AgentDataset | undefined): ConditionState[] {
  const type = 'OriginAnswers';
  const before = conditionOf(dataset, type);
  const unchanged = before === undefined ? [] : [before];
  if ((dataset.spec.mirrors ?? []).length > 0 || present === undefined || present.manifest === '') return unchanged;
  const away = originAwayOn(present);
  if (away !== undefined) return [condition(type, 'False', 'OriginAway', away)];
  return before === undefined ? [] : [condition(type, 'True', 'OriginAnswers', 'no read waits for the origin')];
}

function refreshedCondition(dataset: Dataset, assessment: Assessment): ConditionState[] {
  const { refresh } = dataset.spec;
  if (refresh === undefined) return [];
  const type = 'Refreshed';
  if (assessment.state !== 'assessed') {
    const before = conditionOf(dataset, type);
    return before === undefined ? [] : [before];
  }
  const { failure, registered } = assessment;
  if (failure !== undefined) {
    const message = `the last listing of the origin failed: ${failure.message}`;
    return [condition(type, 'False', failure.code, message)];
  }
  if (!registered) return [condition(type, 'False', 'Listing', 'agents are listing the origin')];
  return [condition(type, 'True', 'Refreshed', `agents ask the origin every ${refresh.interval}`)];
}
