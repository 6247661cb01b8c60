import type { Pod } from '@hearth/common/kubernetes';
import { binaryUnits } from '@hearth/common/resources';
import type { Amounts, HostPort } from './input.ts';

type Totals = Record<string, number>;
type Spec = NonNullable<Pod['spec']>;
type Container = Spec['containers'][number];
type Quantities = Readonly<Record<string, string>> | undefined;
type Resized = Pick<NonNullable<Pod['status']>, 'resources' | 'allocatedResources'>;

/**
 * Counts as the scheduler does (k8s.io/component-helpers/resource, PodRequests): the larger of all containers with
 * sidecars, and of each init container with its earlier sidecars; pod-level requests replace these sums; overhead comes
 * on top.
 */
export function podRequests({ spec }: Pod): Amounts {
  return spec === undefined
    ? {}
    : total(spec, (container) => amounts(container.resources?.requests), amounts(spec.resources?.requests));
}

/** Includes resources that a running pod still has or was promised during a resize. */
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

export function hostPorts({ spec }: Pod): HostPort[] {
  const containers = [...(spec?.initContainers ?? []).filter(isSidecar), ...(spec?.containers ?? [])];
  return containers.flatMap(({ ports = [] }) =>
    ports.flatMap(({ hostPort = 0, hostIP = '', protocol = 'TCP' }) =>
      hostPort > 0 ? [{ ip: hostIP || '0.0.0.0', protocol, port: hostPort }] : [],
    ),
  );
}

/** `runs` is false for init containers, which end. */
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

const powers: Readonly<Record<string, number>> = { n: -9, u: -6, m: -3, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 };

const quantity = /^([+-]?)(\d*)(?:\.(\d*))?(?:([eE][+-]?\d+)|([KMGTPE]i|[numkMGTPE])?)$/;

/**
 * A quantity as the scheduler counts it: rounded up to whole units, `cpu` in millicores. Undefined for invalid text.
 * Grammar: k8s.io/apimachinery/pkg/api/resource, Quantity.
 */
export function amountOf(resource: string, text: string): number | undefined {
  const match = quantity.exec(text);
  if (match === null) return undefined;
  const [, sign = '', whole = '', fraction = '', exponent, suffix = ''] = match;
  if (whole === '' && fraction === '') return undefined;
  let digits = BigInt(whole + fraction) * (binaryUnits[suffix] ?? 1n);
  let power = (exponent === undefined ? (powers[suffix] ?? 0) : Number(exponent.slice(1))) - fraction.length;
  if (resource === 'cpu') power += 3;
  // Beyond 64 bits.
  if (power > 40) return digits === 0n ? 0 : Number.MAX_SAFE_INTEGER;
  if (power >= 0) digits *= 10n ** BigInt(power);
  else {
    const divisor = 10n ** BigInt(Math.min(-power, 60));
    digits = sign === '-' ? digits / divisor : (digits + divisor - 1n) / divisor;
  }
  const size = Number(digits);
  return sign === '-' ? 0 - size : size;
}
