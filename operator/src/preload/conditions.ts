import { counted, listed } from '@hearth/common';
import type { CachePreload } from '@hearth/common/resources';
import { type ConditionState, condition } from '../reconciler/index.ts';
import { type Assessment, percentOf } from './assessment.ts';
import type { ObservedPreload } from './observation.ts';
import { type NodeProgress, totalOf, wholeSeconds } from './progress.ts';

/** The limit of the CRD. */
const longestText = 1024;
const maxListed = 5;

export function conditionsOf(
  preload: CachePreload,
  observed: ObservedPreload,
  assessment: Assessment,
): ConditionState[] {
  return [
    readyOf(preload, observed, assessment),
    inMemoryOf(assessment),
    storedOf(assessment),
    datasetsCondition(observed, assessment),
    chosenCondition(assessment),
    spaceCondition(assessment),
    pinnedCondition(preload, assessment),
    ...deadlineCondition(preload, assessment),
  ];
}

function readyOf(preload: CachePreload, observed: ObservedPreload, assessment: Assessment): ConditionState {
  const { obstacle, deadlinePassed, complete, expired, choice, nodes } = assessment;
  const not = (reason: string, message: string) => condition('Ready', 'False', reason, message);
  if (expired) {
    const words = 'every node had all bytes; the operator released the pins, as the ttl is over';
    return condition('Ready', 'True', 'Expired', words);
  }
  if (deadlinePassed) {
    const ready = nodes.filter(({ phase }) => phase === 'Ready').length;
    const message = `the deadline of ${preload.spec.deadline} passed with all bytes on ${ready} of ${nodes.length} nodes; agents keep the bytes that they have, and fetch no more`;
    return not('DeadlineExceeded', message);
  }
  if (obstacle !== undefined) return not(obstacle.reason, obstacle.message);
  if (complete) return condition('Ready', 'True', 'Ready', `all bytes are on ${counted(nodes.length, 'node')}`);
  if (assessment.ready) {
    const words = `all bytes are in memory on ${counted(nodes.length, 'node')}, and agents are storing them`;
    return condition('Ready', 'True', 'InMemory', words);
  }
  const waiting = waitingFor(assessment, observed);
  const failed = nodes.find(({ phase }) => phase === 'Failed');
  const code = failed?.parts.find(({ errorCode }) => errorCode !== '')?.errorCode;
  if (failed !== undefined) return not(code ?? 'Failed', waiting);
  const phases = new Set(nodes.map(({ phase }) => phase));
  if (phases.has('Warming')) return not('Warming', 'agents are fetching the bytes');
  if (phases.has('Verifying')) return not('Verifying', 'agents are comparing the bytes with the digests of the origin');
  if (nodes.some(({ missingRoom }) => missingRoom > 0)) return not('InsufficientSpace', waiting);
  if (choice.trouble !== undefined) return not(choice.trouble.reason, choice.trouble.message);
  if (phases.has('Gone')) return not('NodesGone', waiting);
  return not('Pending', `waits for ${waiting}`);
}

/** True when pods that start now find every byte on its nodes, if only in memory. */
function inMemoryOf({ nodes, inMemory, expired }: Assessment): ConditionState {
  if (expired) return condition('InMemory', 'True', 'Expired', 'every node had all bytes in memory');
  if (inMemory) return condition('InMemory', 'True', 'InMemory', 'all nodes have all bytes in memory or stored');
  return condition('InMemory', 'False', 'Pending', pendingNodes(nodes, 'in memory', 'inMemory'));
}

function storedOf({ nodes, stored, expired }: Assessment): ConditionState {
  if (expired) return condition('Stored', 'True', 'Expired', 'every node had stored all bytes');
  if (stored) return condition('Stored', 'True', 'Stored', 'all nodes have stored all bytes');
  return condition('Stored', 'False', 'Pending', pendingNodes(nodes, 'stored', 'stored'));
}

/** Contains no figures, since each new message is a write of the condition. */
function pendingNodes(nodes: readonly NodeProgress[], where: string, field: 'inMemory' | 'stored'): string {
  const pending = nodes.filter((node) => !node[field]).map(({ name }) => name);
  if (pending.length === 0) return 'the operator does not know all nodes and files yet';
  return `some bytes are not ${where} yet on ${listed(pending, { most: maxListed, what: 'nodes' })}`;
}

function datasetsCondition({ datasets }: ObservedPreload, { obstacle, wanted }: Assessment): ConditionState {
  if (obstacle !== undefined && obstacle.reason !== 'AgentsUnavailable')
    return condition('DatasetsReady', 'False', obstacle.reason, obstacle.message);
  if (wanted.length < datasets.length)
    return condition('DatasetsReady', 'False', 'DatasetNotReady', 'the operator has not looked at all Datasets yet');
  const words = wanted
    .map(({ dataset, manifest }) => `Dataset ${dataset} has manifest ${manifest.slice(0, 12)}`)
    .join(', ');
  return condition('DatasetsReady', 'True', 'Ready', words);
}

function chosenCondition({ choice: { trouble, nodes } }: Assessment): ConditionState {
  if (trouble !== undefined) return condition('NodesChosen', 'False', trouble.reason, trouble.message);
  return condition('NodesChosen', 'True', 'Chosen', `agents bring the bytes to ${listed(nodes, { most: maxListed })}`);
}

function spaceCondition({ nodes, choice }: Assessment): ConditionState {
  const type = 'InsufficientSpace';
  const lacking = [
    ...nodes.flatMap(({ name, missingRoom, present }): [string, number][] =>
      present && missingRoom > 0 ? [[name, missingRoom]] : [],
    ),
    ...choice.lackingRoom,
  ].sort(([a], [b]) => (a < b ? -1 : 1));
  if (lacking.length === 0) return condition(type, 'False', 'Sufficient', 'the caches of the chosen nodes have room');
  const each = lacking.map(([name, bytes]) => `${bytes} bytes on ${name}`);
  const message = `the caches lack ${listed(each, { most: 20, what: 'nodes' })}; raise their budgets, or unpin other data`;
  return condition(type, 'True', 'BudgetTooSmall', message);
}

function pinnedCondition({ spec }: CachePreload, { nodes, expired }: Assessment): ConditionState {
  if (!spec.pin) return condition('Pinned', 'False', 'NotWanted', 'spec.pin is false, so agents pin nothing');
  if (expired)
    return condition('Pinned', 'False', 'Expired', `the operator released the pins, as the ttl of ${spec.ttl} is over`);
  const lacking = nodes.filter(({ pinned }) => !pinned);
  if (nodes.length > 0 && lacking.length === 0)
    return condition('Pinned', 'True', 'Pinned', 'the agents of all nodes pin the files');
  const names = lacking.map(({ name }) => name);
  const where =
    nodes.length === 0
      ? 'the CachePreload has no node yet'
      : `agents have not pinned the files yet on ${listed(names, { most: maxListed })}`;
  return condition('Pinned', 'False', 'Pending', where);
}

function deadlineCondition(preload: CachePreload, { deadlineAt, deadlinePassed }: Assessment): ConditionState[] {
  const { deadline } = preload.spec;
  if (deadline === undefined) return [];
  if (deadlinePassed) {
    const late = `some bytes were still missing ${deadline} after the creation`;
    return [condition('DeadlineMet', 'False', 'DeadlineExceeded', late)];
  }
  if (deadlineAt === undefined) return [condition('DeadlineMet', 'True', 'Met', 'every node had all bytes in time')];
  const due = `every node must have all bytes by ${wholeSeconds(deadlineAt)}`;
  return [condition('DeadlineMet', 'Unknown', 'Counting', due)];
}

/** Pure. One sentence for `status.waitingFor`; empty when the preload waits for nothing. */
export function waitingFor(assessment: Assessment, { now, agents }: ObservedPreload): string {
  const { obstacle, choice, nodes, complete, deadlinePassed, expired } = assessment;
  if (complete || expired || deadlinePassed) return '';
  if (obstacle !== undefined || agents?.connected !== true) return (obstacle?.message ?? '').slice(0, longestText);
  const lacking = nodes.filter(({ phase }) => phase !== 'Ready');
  const words = lacking.map((node) => `${node.name}${describe(node, now)}`);
  const all = [choice.trouble?.message ?? '', listed(words, { most: maxListed, separator: '; ', what: 'nodes' })];
  return all.filter(Boolean).join('; ').slice(0, longestText);
}

/** Such as `25 %, 60 % in memory`. */
function progressText(node: NodeProgress): string {
  const [stored, memory, all] = [totalOf(node, 'bytesReady'), totalOf(node, 'bytesInMemory'), totalOf(node, 'bytes')];
  const more = memory > stored ? `, ${percentOf(memory, all)} % in memory` : '';
  return `${percentOf(stored, all)} %${more}`;
}

function describe(node: NodeProgress, now: number): string {
  const percent = progressText(node);
  const retryAt = Math.max(0, ...node.parts.map((part) => (part.state === 'failed' ? (part.retryAt ?? 0) : 0)));
  if (node.phase === 'Failed') {
    const when = retryAt > now ? `tries again in ${Math.ceil((retryAt - now) / 1000)} s` : 'tries again';
    return ` (${percent}) ${when}: ${node.message}`;
  }
  if (node.message !== '') return node.phase === 'Warming' ? ` (${percent}): ${node.message}` : `: ${node.message}`;
  switch (node.phase) {
    case 'Warming':
      return ` (${percent})`;
    case 'Verifying':
      return ' (verifying)';
    default:
      return ' (not begun)';
  }
}
