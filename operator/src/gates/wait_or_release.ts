import { listed } from '@hearth/common';
import type { Gate } from '@hearth/common/resources';
import type { AffinityPlan } from '../planner/index.ts';
import type { NodeReadiness } from '../preload/index.ts';
import type { Release, Releasing, Waiting } from './group_action.ts';
import type { Plan } from './plan.ts';

export interface Situation {
  gate: Gate;
  overdue: boolean;
  plan: Plan | undefined;
  /** Undefined before the first report on the nodes. */
  readiness: ReadonlyMap<string, NodeReadiness> | undefined;
  unready: string;
  /** The nodes of a former leader's plan, from the status. */
  formerNodes: readonly { name: string; percent: number }[];
  hostname: (node: string) => string | undefined;
}

/** Pure. Decides for all pods of a group together. */
export function waitOrRelease(situation: Situation): Waiting | Releasing {
  const { gate, overdue, plan, readiness, unready } = situation;
  if (overdue) return timedOut(situation);
  if (unready !== '') {
    if (gate.mode === 'Prefer') return released('NoPlan', `starts at once, as ${unready}`);
    return { kind: 'wait', message: unready };
  }
  if (plan === undefined) return { kind: 'wait', message: 'the operator is choosing nodes for the pod' };
  const why = clause(plan.message);
  if (plan.kind === 'release') return released(plan.reason, `starts without waiting: ${why}`);
  const affinity = (pod: string) => plan.affinity.get(pod);
  if (gate.mode === 'Prefer') return { ...released('Prefer', `starts at once: ${why}`), affinity };
  const behind = plan.nodes.filter((node) => !isWarm(readiness?.get(node), gate));
  if (behind.length === 0) return { ...released('Warm', arrival(plan.nodes, readiness, gate)), affinity };
  if (plan.expected.size === 0) {
    return {
      ...released('NoFreeNode', `starts without waiting: ${why}`),
      affinity: (pod) => asPreference(affinity(pod)),
    };
  }
  return { kind: 'wait', message: `${progress(behind, readiness, gate)} (${why})` };
}

/** The plan as a preference, since an autoscaler adds nodes that the plan does not know. */
function asPreference(affinity: AffinityPlan | undefined): AffinityPlan | undefined {
  return affinity && { kind: 'Preferred', hostnames: affinity.preferredHostnames ?? affinity.hostnames };
}

function isWarm(node: NodeReadiness | undefined, gate: Gate): boolean {
  return node?.pinned === true && percentOf(node, gate) >= gate.minPercent;
}

function percentOf({ percent, memoryPercent }: NodeReadiness, { readyWhen }: Gate): number {
  return readyWhen === 'Memory' ? memoryPercent : percent;
}

/** Names the nodes, and how pods read there before the bytes are stored. */
function arrival(
  nodes: readonly string[],
  readiness: ReadonlyMap<string, NodeReadiness> | undefined,
  gate: Gate,
): string {
  const unstored = nodes.filter((node) => !isWarm(readiness?.get(node), { ...gate, readyWhen: 'Stored' }));
  if (unstored.length === 0) return `starts where its bytes are: ${shortList(nodes)}`;
  return `starts where its bytes are in memory: ${shortList(nodes)}; the pod reads through FUSE until the agents have stored them on ${shortList(unstored)}`;
}

function released(reason: Release, message: string): Releasing {
  return { kind: 'release', reason, message, affinity: () => undefined };
}

/** Prefers the nodes that hold most of the bytes. */
function timedOut({ gate, plan, readiness, unready, formerNodes, hostname }: Situation): Releasing {
  const release = released('TimedOut', `starts cold, as the time of its gate (${gate.timeout}) is over`);
  const planned = plan?.kind === 'warm' ? plan.nodes : formerNodes.map(({ name }) => name);
  if (planned.length === 0) {
    const why = unready === '' ? 'the operator had no plan for it' : unready;
    return { ...release, message: `${release.message}: ${why}` };
  }
  const former = new Map(formerNodes.map(({ name, percent }) => [name, percent]));
  // The written percentage stands for memory, too, since bytes in memory may be lost with their agent.
  const lastKnown = (percent = 0) => ({ percent, memoryPercent: percent, pinned: true });
  const states = new Map(planned.map((node) => [node, readiness?.get(node) ?? lastKnown(former.get(node))]));
  const most = Math.max(...Array.from(states.values(), (state) => percentOf(state, gate)));
  const message = `${release.message}: ${progress(planned, states, gate)}`;
  if (most === 0) return { ...release, message };
  const best = [...states].flatMap(([node, state]) => (percentOf(state, gate) === most ? [node] : []));
  const hostnames = best.flatMap((node) => hostname(node) ?? []);
  return { ...release, message, affinity: () => ({ kind: 'Preferred', hostnames }) };
}

const shortList = (words: readonly string[]) => listed(words, { most: 5 });

/** `node1 has 40 %, node2 has 100 % (not pinned yet); the gate waits for 100 %`. */
function progress(
  nodes: readonly string[],
  readiness: ReadonlyMap<string, NodeReadiness> | undefined,
  gate: Gate,
): string {
  const { minPercent } = gate;
  const where = gate.readyWhen === 'Memory' ? ' in memory' : '';
  const states = nodes.map((node) => {
    const state = readiness?.get(node);
    if (state === undefined) return `the agent on ${node} has not begun`;
    const percent = percentOf(state, gate);
    const pinned = percent >= minPercent && !state.pinned ? ' (not pinned yet)' : '';
    return `${node} has ${percent} %${where}${pinned}`;
  });
  return `${shortList(states)}; the gate waits for ${minPercent} %`;
}

function clause(sentence: string): string {
  const text = sentence.replace(/\.$/, '');
  return /^[A-Z][a-z ]/.test(text) ? text.charAt(0).toLowerCase() + text.slice(1) : text;
}
