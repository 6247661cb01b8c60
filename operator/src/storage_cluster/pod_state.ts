import type { Pod } from '@hearth/common/kubernetes';
import { clusterLabel, nodeGroupLabel } from '@hearth/common/resources';
import { componentLabel } from '../kubernetes/index.ts';
import { configurationOf } from './configurations.ts';

/** The kept part of a pod of ours. */
export interface PodState {
  name: string;
  cluster: string;
  component: string;
  group: string;
  /** Where it runs or, before it is scheduled, where it is meant to; '' when any node will do. */
  node: string;
  /** '' before its node has taken it up. */
  hostAddress: string;
  ready: boolean;
  running: boolean;
  deleting: boolean;
  /** When it was made, milliseconds since the epoch. */
  createdAt: number;
  /** As `configurationOf`. */
  configuration: string;
  /** Why it is not ready; undefined when it is. */
  trouble: Trouble | undefined;
}

/** One word for programs and a sentence for people. */
export interface Trouble {
  reason: string;
  message: string;
}

type ContainerStatus = NonNullable<NonNullable<Pod['status']>['containerStatuses']>[number];
type Terminated = NonNullable<NonNullable<ContainerStatus['state']>['terminated']>;

/** Of a pod whose containers are being made, which is the kubelet's work. */
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

/** The controller of DaemonSets writes a pod's node into its affinity. */
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
    return {
      reason: 'PodNotScheduled',
      message: `The scheduler finds no node for the pod: ${scheduled.message ?? 'no reason given'}`,
    };
  }
  if (status?.phase === 'Failed' && status.reason !== undefined) {
    return { reason: status.reason, message: `The pod has failed: ${status.message ?? status.reason}` };
  }
  const container = status?.containerStatuses?.[0];
  const ended = container?.state?.terminated ?? container?.lastState?.terminated;
  const waiting = container?.state?.waiting;
  if (waiting?.reason === 'CrashLoopBackOff' && ended !== undefined) return crashed('CrashLoop', ended);
  if (waiting?.reason !== undefined && imageReasons.has(waiting.reason)) {
    return {
      reason: 'ImageNotPulled',
      message: `The kubelet cannot pull the image of the pod: ${waiting.message ?? waiting.reason}`,
    };
  }
  if (waiting?.reason?.endsWith('Error')) {
    return {
      reason: waiting.reason,
      message: `The kubelet cannot start the pod: ${waiting.message ?? waiting.reason}`,
    };
  }
  if (ended !== undefined) return crashed('Restarting', ended);
  if (container?.state?.running !== undefined) {
    return { reason: 'PodNotReady', message: 'The pod is running but not ready' };
  }
  return { reason: startingReason, message: 'The pod is starting' };
}

function crashed(reason: string, { exitCode, message, reason: cause }: Terminated): Trouble {
  const said = lastSentence(message ?? '');
  const how = cause === 'OOMKilled' ? 'for lack of memory (OOMKilled)' : `with code ${exitCode}`;
  return { reason, message: `The process of the pod ended ${how}${said === '' ? '' : `: ${said}`}` };
}

/** The last line of a log: its message when it is a line of JSON, ours or etcd's, without the name of the program. */
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
    // Cut off by the kubelet: shown as it is.
    return undefined;
  }
}
