import type { Pod } from '@hearth/common/kubernetes';
import { amountOf } from './amount.ts';
import type { Amounts, HostPort } from './input.ts';

type Totals = Record<string, number>;
type Spec = NonNullable<Pod['spec']>;
type Container = Spec['containers'][number];
type Quantities = Readonly<Record<string, string>> | undefined;
type Resized = Pick<NonNullable<Pod['status']>, 'resources' | 'allocatedResources'>;

/**
 * The requests of a pod as the scheduler counts them (k8s.io/component-helpers/resource, PodRequests): all containers
 * and sidecars together, or an init container and the sidecars before it where that is more; the pod's own requests
 * instead of these sums; and its overhead.
 */
export function podRequests({ spec }: Pod): Amounts {
  return spec === undefined
    ? {}
    : total(spec, (container) => amounts(container.resources?.requests), amounts(spec.resources?.requests));
}

/** Of a pod that runs: also what it still has or has been promised while it is being resized. */
export function runningRequests({ spec, status }: Pod): Amounts {
  if (spec === undefined) return {};
  const refused = status?.conditions?.some(
    ({ type, reason }) => type === 'PodResizePending' && reason === 'Infeasible',
  );
  const effective = (wanted: Quantities, state: Resized | undefined): Totals => {
    if (state?.resources === undefined) return amounts(wanted);
    const most = refused === true ? {} : amounts(wanted);
    raise(most, amounts(state.resources.requests));
    raise(most, amounts(state.allocatedResources));
    return most;
  };
  const statuses = [...(status?.containerStatuses ?? []), ...(status?.initContainerStatuses ?? [])];
  const states = new Map(statuses.map((one) => [one.name, one]));
  const ofContainer = ({ name, resources }: Container, runs: boolean) =>
    effective(resources?.requests, runs ? states.get(name) : undefined);
  return total(spec, ofContainer, effective(spec.resources?.requests, status));
}

/** Ports of the node that a pod takes: of its containers and of the sidecars among its init containers. */
export function hostPorts({ spec }: Pod): HostPort[] {
  const containers = [...(spec?.initContainers ?? []).filter(isSidecar), ...(spec?.containers ?? [])];
  return containers.flatMap(({ ports = [] }) =>
    ports.flatMap(({ hostPort = 0, hostIP = '', protocol = 'TCP' }) =>
      hostPort > 0 ? [{ ip: hostIP || '0.0.0.0', protocol, port: hostPort }] : [],
    ),
  );
}

/** `of` is given that init containers do not stay, and that all others run. */
function total(spec: Spec, of: (container: Container, runs: boolean) => Totals, ofPod: Totals): Amounts {
  const sum: Totals = {};
  for (const container of spec.containers) add(sum, of(container, true));
  const sidecars: Totals = {};
  const most: Totals = {};
  for (const container of spec.initContainers ?? []) {
    const own = of(container, isSidecar(container));
    if (isSidecar(container)) {
      add(sum, own);
      add(sidecars, own);
      raise(most, sidecars);
    } else {
      add(own, sidecars);
      raise(most, own);
    }
  }
  raise(sum, most);
  for (const name of Object.keys(spec.resources?.requests ?? {})) {
    if (isOfPods(name)) sum[name] = ofPod[name] ?? 0;
  }
  add(sum, amounts(spec.overhead));
  return sum;
}

function isSidecar({ restartPolicy }: Container): boolean {
  return restartPolicy === 'Always';
}

/** Resources that a pod may ask for as a whole. */
function isOfPods(name: string): boolean {
  return name === 'cpu' || name === 'memory' || name.startsWith('hugepages-');
}

export function amounts(quantities: Quantities): Totals {
  const result: Totals = {};
  for (const [name, text] of Object.entries(quantities ?? {})) result[name] = amountOf(name, text) ?? 0;
  return result;
}

function add(totals: Totals, other: Amounts): void {
  for (const [name, amount] of Object.entries(other)) totals[name] = (totals[name] ?? 0) + amount;
}

function raise(totals: Totals, other: Amounts): void {
  for (const [name, amount] of Object.entries(other)) totals[name] = Math.max(totals[name] ?? 0, amount);
}
