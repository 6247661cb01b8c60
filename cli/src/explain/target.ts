import { type Clock, HearthError, sleep } from '@hearth/common';
import {
  type KubernetesClient,
  type KubernetesObject,
  kinds,
  type Pod,
  type ResourceType,
} from '@hearth/common/kubernetes';
import { preloadGateName } from '@hearth/common/resources';

/** Kinds that select their pods by spec.selector. */
const withSelector = new Map<string, ResourceType<Controller>>([
  ['deployment', kinds.Deployment as ResourceType<Controller>],
  ['statefulset', kinds.StatefulSet as ResourceType<Controller>],
]);

/** Kinds that put their name into a pod label. */
const withLabel = new Map([
  ['job', 'batch.kubernetes.io/job-name'],
  ['leaderworkerset', 'leaderworkerset.sigs.k8s.io/name'],
  ['inferenceservice', 'serving.kserve.io/inferenceservice'],
]);

const shortNames: Record<string, string> = {
  po: 'pod',
  deploy: 'deployment',
  sts: 'statefulset',
  lws: 'leaderworkerset',
  isvc: 'inferenceservice',
};

interface Controller extends KubernetesObject {
  spec?: { selector?: { matchLabels?: Record<string, string> } };
}

/** The object whose pods the user asks about. */
export interface Target {
  kind: string;
  name: string;
}

/** The chosen pod of a target, and the other pods. */
export interface ChosenPod {
  pod: string;
  /** The pod itself, if it was read to choose it. */
  listed?: Pod;
  others: string[];
}

/** Parses `KIND/NAME` or a pod's name; accepts kubectl's plurals and short names. */
export function parseTarget(text: string): Target {
  const [given = '', name, ...rest] = text.includes('/') ? text.split('/') : ['pod', text];
  const singular = given.toLowerCase().replace(/s$/, '');
  const kind = shortNames[given] ?? singular;
  const known = kind === 'pod' || withSelector.has(kind) || withLabel.has(kind);
  if (known && name && rest.length === 0) return { kind, name };
  const kindsShown = ['pod', ...withSelector.keys(), ...withLabel.keys()].map((one) => `${one}/NAME`).join(', ');
  throw new HearthError('InvalidArgument', `"${text}" is not one of ${kindsShown}`);
}

/** Time that controllers may take to create the first pod of a new object, ms. */
const firstPodMs = 5_000;
const pollMs = 250;

/**
 * The least advanced pod of a target; the youngest of several. Throws `NotFound` when the target has no pod for five
 * seconds.
 */
export async function choosePod(
  api: Pick<KubernetesClient, 'get' | 'list'>,
  namespace: string,
  target: Target,
  clock: Clock,
  signal: AbortSignal,
): Promise<ChosenPod> {
  if (target.kind === 'pod') return { pod: target.name, others: [] };
  const labelSelector = await selectorOf(api, namespace, target, signal);
  for (let waitedMs = 0; ; waitedMs += pollMs) {
    const { items } = await api.list(kinds.Pod, { namespace, labelSelector }, signal);
    const [first, ...others] = items.toSorted(byProgress);
    if (first !== undefined) return { pod: nameOf(first), listed: first, others: others.map(nameOf) };
    if (waitedMs >= firstPodMs) {
      const { kind, name } = target;
      throw new HearthError(
        'NotFound',
        `${kind} ${namespace}/${name} has no pod; see kubectl describe ${kind} ${name}`,
      );
    }
    await sleep(clock, pollMs, signal);
  }
}

function byProgress(a: Pod, b: Pod): number {
  return progressOf(a) - progressOf(b) || (createdAt(a) < createdAt(b) ? 1 : -1);
}

async function selectorOf(
  api: Pick<KubernetesClient, 'get'>,
  namespace: string,
  { kind, name }: Target,
  signal: AbortSignal,
): Promise<string> {
  const label = withLabel.get(kind);
  if (label !== undefined) return `${label}=${name}`;
  const type = withSelector.get(kind) as ResourceType<Controller>;
  const controller = await api.get(type, name, namespace, signal);
  if (controller === undefined) {
    throw new HearthError('NotFound', `there is no ${kind} ${namespace}/${name}; give its namespace with -n`);
  }
  const labels = Object.entries(controller.spec?.selector?.matchLabels ?? {});
  return labels.map(([key, value]) => `${key}=${value}`).join(',');
}

/** Orders pods: gated, unscheduled, starting, running, ended. */
function progressOf({ metadata, spec, status }: Pod): number {
  if (status?.phase === 'Succeeded' || status?.phase === 'Failed' || metadata?.deletionTimestamp) return 4;
  if (spec?.schedulingGates?.some(({ name }) => name === preloadGateName)) return 0;
  if (!spec?.nodeName) return 1;
  return status?.phase === 'Running' ? 3 : 2;
}

function createdAt({ metadata }: Pod): string {
  return String(metadata?.creationTimestamp ?? '');
}

function nameOf({ metadata }: Pod): string {
  return metadata?.name ?? '';
}
