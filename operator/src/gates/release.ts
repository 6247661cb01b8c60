import { HearthError, type Logger } from '@hearth/common';
import { type KubernetesClient, kinds, type Pod } from '@hearth/common/kubernetes';
import { preloadGateName } from '@hearth/common/resources';
import type { AffinityPlan } from '../planner/index.ts';
import { isGated } from './pod_view.ts';

const maxAttempts = 5;
/** Answers of the API server, or of a policy, that refuse an update. */
export const refusals: ReadonlySet<string> = new Set(['InvalidArgument', 'PermissionDenied']);

export type ReleaseOptions = { api: Pick<KubernetesClient, 'get' | 'patch'>; logger: Logger };

/**
 * Removes our gate and writes the affinity in one update. Returns false when the pod is deleted or already open. Drops
 * an affinity that the API server refuses, so that no pod stays gated for it.
 */
export async function releasePod(
  { api, logger }: ReleaseOptions,
  given: Pod,
  affinity: AffinityPlan | undefined,
  signal: AbortSignal,
): Promise<boolean> {
  const { name = '', namespace = '', uid } = given.metadata ?? {};
  let pod: Pod | undefined = given;
  let wanted = affinity;
  for (let attempt = 1; ; ++attempt) {
    try {
      await api.patch(kinds.Pod, name, namespace, releasePatch(pod, wanted), { kind: 'merge', signal });
      return true;
    } catch (thrown) {
      const error = HearthError.from(thrown);
      if (error.code === 'NotFound') return false;
      if (refusals.has(error.code) && wanted !== undefined) {
        logger.warn('the API server refused the affinity of a pod; released it without', { namespace, name, error });
        wanted = undefined;
      } else if (error.code !== 'Conflict' || attempt === maxAttempts) {
        throw error;
      }
    }
    pod = await api.get(kinds.Pod, name, namespace, signal);
    if (pod === undefined || pod.metadata?.uid !== uid || !isGated(pod)) return false;
  }
}

/** Pure. A merge patch replaces whole lists, so the patch is valid for the observed version alone. */
export function releasePatch({ metadata, spec }: Pod, affinity: AffinityPlan | undefined): object {
  const others = (spec?.schedulingGates ?? []).filter(({ name }) => name !== preloadGateName);
  const nodeAffinity = affinity && withPlan(spec?.affinity?.nodeAffinity, affinity);
  return {
    metadata: { uid: metadata?.uid, resourceVersion: metadata?.resourceVersion },
    spec: {
      schedulingGates: others,
      ...(nodeAffinity === undefined ? {} : { affinity: { nodeAffinity } }),
    },
  };
}

type NodeAffinity = NonNullable<NonNullable<NonNullable<Pod['spec']>['affinity']>['nodeAffinity']>;

export const hostnameLabel = 'kubernetes.io/hostname';
/** The maximum, so that no other preference outweighs resident bytes. */
const preferredWeight = 100;

/**
 * Pure. Adds the plan to a pod's node affinity; undefined when nothing changes. The API server lets the affinity of a
 * gated pod only become narrower: preferences are free, a requirement joins every term. A term without expressions
 * matches no node and stays.
 */
export function withPlan(present: NodeAffinity | undefined, plan: AffinityPlan): NodeAffinity | undefined {
  if (plan.hostnames.length === 0) return undefined;
  const preferred = present?.preferredDuringSchedulingIgnoredDuringExecution ?? [];
  if (plan.kind === 'Preferred') {
    return {
      ...present,
      preferredDuringSchedulingIgnoredDuringExecution: [...preferred, preferenceFor(plan.hostnames)],
    };
  }
  const onPlan = onHosts(plan.hostnames);
  const terms = present?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
  const narrower = terms.map((term) => {
    const { matchExpressions = [], matchFields = [] } = term;
    if (matchExpressions.length === 0 && matchFields.length === 0) return term;
    return { ...term, matchExpressions: [...matchExpressions, onPlan] };
  });
  const nodeSelectorTerms = terms.length === 0 ? [{ matchExpressions: [onPlan] }] : narrower;
  const { preferredHostnames = [] } = plan;
  return {
    ...present,
    ...(preferredHostnames.length > 0
      ? { preferredDuringSchedulingIgnoredDuringExecution: [...preferred, preferenceFor(preferredHostnames)] }
      : {}),
    requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms },
  };
}

function preferenceFor(hostnames: readonly string[]) {
  return { weight: preferredWeight, preference: { matchExpressions: [onHosts(hostnames)] } };
}

function onHosts(hostnames: readonly string[]) {
  return { key: hostnameLabel, operator: 'In', values: [...hostnames] };
}
