import type { Probe } from '@hearth/engine';

/** One capability of a machine. */
export interface Capability {
  name: string;
  ready: boolean;
  /** Reason for a missing capability, or limits of a present one. */
  reason: string;
  /** Pods concerned by the capability, if any. */
  pods?: PodReference[];
  /** Number of further pods. */
  podsLeftOut?: number;
}

export interface PodReference {
  namespace: string;
  name: string;
  uid: string;
  /** For `volumes`: when the pod's mounts were bound again. */
  reboundAt: string;
}

/** Requirements of each capability: rows of hearth-probe and of the budget; a row that ends in a blank is a prefix. */
const needs: readonly { name: string; rows: readonly string[] }[] = [
  { name: 'fuse', rows: ['fuse'] },
  { name: 'passthrough', rows: ['fuse', 'fuse passthrough'] },
  { name: 'huge-pages', rows: ['huge pages'] },
  { name: 'rdma', rows: ['rdma ', 'verbs'] },
  { name: 'gpu-direct', rows: ['gpu', 'cuda', 'gpu path'] },
  { name: 'budget', rows: ['budget'] },
];

/** A degraded row of these leaves nothing to use, so the capability is missing. */
const strict = new Set(['huge pages', 'gpu', 'gpu path', 'budget']);

/** Capabilities proved by rows of hearth-probe. A capability without a row is not ready. */
export function readCapabilities(rows: readonly Probe[]): Capability[] {
  return needs.map(({ name, rows: wanted }) => {
    const found = wanted.map((row) => best(rows, row));
    const lacking = found.find(
      (row) => row.status === 'missing' || (row.status === 'degraded' && strict.has(row.name)),
    );
    const limited = found.filter((row) => row.status === 'degraded');
    if (lacking !== undefined) return { name, ready: false, reason: sentence(lacking) };
    return { name, ready: true, reason: limited.map(sentence).join(' ') };
  });
}

function best(rows: readonly Probe[], wanted: string): Probe {
  const matching = rows.filter((row) => row.name === wanted || (wanted.endsWith(' ') && row.name.startsWith(wanted)));
  const order = ['ok', 'degraded', 'missing'];
  const [first] = matching.sort((a, b) => order.indexOf(a.status) - order.indexOf(b.status));
  if (first !== undefined) return first;
  const whole = rows.find((row) => row.name === wanted.trim());
  return whole ?? { name: wanted, status: 'missing', detail: 'the machine was not probed', advice: '' };
}

function sentence({ detail, advice }: Probe): string {
  return advice === '' ? detail : `${detail}. ${advice}`;
}
