import type { Pod } from '@hearth/common/kubernetes';
import { clusterLabel, nodeGroupLabel } from '@hearth/common/resources';
import { componentLabel } from '../kubernetes/index.ts';
import { configurationOf } from './configurations.ts';

/** The projection of a pod of the operator. */
export interface PodState {
  name: string;
  cluster: string;
  component: string;
  group: string;
  /** The assigned or intended node; empty when any node will do. */
  node: string;
  /** Empty before the kubelet accepts the pod. */
  hostAddress: string;
  ready: boolean;
  running: boolean;
  deleting: boolean;
  /** Milliseconds since the epoch. */
  createdAt: number;
  /** See `configurationOf`. */
  configuration: string;
  /** Undefined when the pod is ready. */
  trouble: Trouble | undefined;
}

/** A CamelCase reason for programs, and a sentence for people. */
export type Trouble = { reason: string; message: string };

type ContainerStatus = NonNullable<NonNullable<Pod['status']>['containerStatuses']>[number];
type Terminated = NonNullable<NonNullable<ContainerStatus['state']>['terminated']>;

/** The kubelet is creating the containers. */
export const startingReason = 'PodStarting';

const imageReasons = new Set(['ErrImagePull', 'ImagePullBackOff', 'InvalidImageName', 'ErrImageNeverPull']);

export function podState(pod: Pod): PodState {
  const { name = '', labels = {}, creationTimestamp = '', deletionTimestamp } = pod.metadata ?? {};
  const ready = pod.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false;
  return {
    name,
    cluster: labels[clusterLabel] ?? '',
    component: labels[componentLabel] ?? '',
    group: labels[nodeGroupLabel] ?? '',
    node: pod.spec?.nodeName ?? intendedNode(pod),
    hostAddress: pod.status?.hostIP ?? '',
    ready,
    running: pod.status?.phase === 'Running',
    deleting: deletionTimestamp !== undefined,
    createdAt: Date.parse(creationTimestamp),
    configuration: configurationOf(pod),
    trouble: ready ? undefined : troubleOf(pod),
  };
}

/** The DaemonSet controller writes the node into the affinity. */
function intendedNode(pod: Pod): string {
  const terms =
    pod.spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
  const fields = terms.flatMap(({ matchFields = [] }) => matchFields);
  return fields.find(({ key, operator }) => key === 'metadata.name' && operator === 'In')?.values?.[0] ?? '';
}

function troubleOf(pod: Pod): Trouble {
  const { status } = pod;
  const scheduled = status?.conditions?.find(({ type }) => type === 'PodScheduled');
  if (scheduled?.status === 'False') {
    const message = `The scheduler finds no node for the pod: ${scheduled.message ?? 'no reason given'}`;
    return { reason: 'PodNotScheduled', message };
  }
  if (status?.phase === 'Failed' && status.reason !== undefined) {
    return { reason: status.reason, message: `The pod has failed: ${status.message ?? status.reason}` };
  }
  const container = status?.containerStatuses?.[0];
  const ended = container?.state?.terminated ?? container?.lastState?.terminated;
  const waiting = container?.state?.waiting;
  if (waiting?.reason === 'CrashLoopBackOff' && ended !== undefined) return crashed('CrashLoop', ended);
  if (waiting?.reason !== undefined && imageReasons.has(waiting.reason)) {
    const message = `The kubelet cannot pull the image of the pod: ${waiting.message ?? waiting.reason}`;
    return { reason: 'ImageNotPulled', message };
  }
  if (waiting?.reason?.endsWith('Error')) {
    const message = `The kubelet cannot start the pod: ${waiting.message ?? waiting.reason}`;
    return { reason: waiting.reason, message };
  }
  if (ended !== undefined) return crashed('Restarting', ended);
  if (container?.state?.running !== undefined) {
    return { reason: 'PodNotReady', message: 'The pod is running but not ready' };
  }
  return { reason: startingReason, message: 'The pod is starting' };
}

function crashed(reason: string, { exitCode, message, reason: cause }: Terminated): Trouble {
  const lastMessage = lastSentence(message ?? '');
  const how = cause === 'OOMKilled' ? 'for lack of memory (OOMKilled)' : `with code ${exitCode}`;
  return { reason, message: `The process of the pod ended ${how}${lastMessage === '' ? '' : `: ${lastMessage}`}` };
}

/** The last line of a log: the message of a JSON line, without the name of the program. */
export function lastSentence(text: string): string {
  const line = text.trimEnd().split('\n').at(-1)?.trim() ?? '';
  return (sentenceOf(line) ?? line).replace(/^hearth(-[a-z]+)?: /, '').slice(0, 900);
}

function sentenceOf(line: string): string | undefined {
  if (!line.startsWith('{')) return undefined;
  try {
    const { message, msg, error } = JSON.parse(line) as { message?: string; msg?: string; error?: unknown };
    const cause = typeof error === 'string' ? error : (error as { message?: string } | undefined)?.message;
    if (msg !== undefined) return cause === undefined ? msg : `${msg}: ${cause}`;
    return cause ?? message;
  } catch {
    // The kubelet may have truncated the line.
    return undefined;
  }
}
