import type { Probe } from '@hearth/engine';

/** One capability of a machine. */
export interface Capability {
  name: string;
  ready: boolean;
  /** Why not, or with which limits. */
  reason: string;
  /** The pods that the capability concerns, if any. */
  pods?: PodReference[];
  /** Further ones. */
  podsLeftOut?: number;
}

export interface PodReference {
  namespace: string;
  name: string;
  uid: string;
  /** Of `volumes`: when its mounts were bound again. */
  reboundAt: string;
}

/**
 * The needs of each capability, as rows of hearth-probe and of the budget; a row that ends in a blank stands for all
 * with this beginning.
 */
const needs: readonly { name: string; rows: readonly string[] }[] = [
  { name: 'fuse', rows: ['fuse'] },
  { name: 'passthrough', rows: ['fuse', 'fuse passthrough'] },
  { name: 'huge-pages', rows: ['huge pages'] },
  { name: 'rdma', rows: ['rdma ', 'verbs'] },
  { name: 'gpu-direct', rows: ['gpu', 'cuda', 'gpu path'] },
  { name: 'budget', rows: ['budget'] },
];

/** Without these the purpose is not served at all when they are degraded: there is nothing to use. */
const strict = new Set(['huge pages', 'gpu', 'gpu path', 'budget']);

/** The capabilities that rows of hearth-probe prove. What no row reports is not ready. */
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
  return whole ?? { name: wanted, status: 'missing', detail: 'the machine was not looked at', advice: '' };
}

function sentence({ detail, advice }: Probe): string {
  return advice === '' ? detail : `${detail}. ${advice}`;
}
