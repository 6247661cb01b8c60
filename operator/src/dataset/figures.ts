import type { Dataset as AgentDataset } from '@hearth/common/generated/hearth/v1/control.ts';
import type { Dataset, DatasetStatus } from '@hearth/common/resources';

const maxNodes = 500;
const maxWarnings = 20;
const longestWarning = 1024;
/** Nodes named in a message. */
const maxAway = 10;

/** Figures that are constant for a revision. */
export function figuresOf({ revision, manifest, files, bytes, warnings }: AgentDataset): Partial<DatasetStatus> & {
  manifest: string;
} {
  return {
    ...(revision === '' ? {} : { revision: revision.slice(0, 1024) }),
    manifest,
    files: count(files),
    bytes: count(bytes),
    ...(warnings.length === 0
      ? {}
      : { warnings: warnings.slice(0, maxWarnings).map((warning) => warning.slice(0, longestWarning)) }),
  };
}

export function residencyOf({ bytes, residency }: AgentDataset) {
  const nodes = residency
    .filter(({ residentBytes }) => residentBytes > 0n)
    .map(({ node, residentBytes, memoryBytes }) => ({
      node,
      residentBytes: count(residentBytes),
      ...(memoryBytes === 0n ? {} : { memoryBytes: count(memoryBytes) }),
      percent: percentOf(residentBytes, bytes),
    }))
    .sort((a, b) => b.residentBytes - a.residentBytes || (a.node < b.node ? -1 : 1));
  return {
    residentBytes: count(nodes.reduce((sum, one) => sum + BigInt(one.residentBytes), 0n)),
    percent: nodes[0]?.percent ?? percentOf(0n, bytes),
    nodes: nodes.filter((one) => one.percent === 100).length,
    residency: nodes.slice(0, maxNodes),
  };
}

/** What agents say about an origin without mirrors that is away; undefined while no read waits for it. */
export function originAwayOn({ residency }: AgentDataset): string | undefined {
  const away = residency.flatMap(({ node, sourcesAside }) => sourcesAside.map((one) => `on ${node}: ${one}`));
  return away.length === 0 ? undefined : away.slice(0, maxAway).join('; ');
}

/** Rounded down, so only a complete copy reports 100. An empty Dataset is complete on nodes with a report. */
function percentOf(part: bigint, whole: bigint): number {
  if (whole === 0n) return part > 0n ? 100 : 0;
  const percent = (part * 100n) / whole;
  return Number(percent > 100n ? 100n : percent);
}

/** Clamps to the largest safe integer, 8 PiB. */
function count(value: bigint): number {
  return Number(value > BigInt(Number.MAX_SAFE_INTEGER) ? BigInt(Number.MAX_SAFE_INTEGER) : value);
}

/** Written out for speed: hundreds of Datasets on hundreds of nodes are compared after each report. */
export function isSameReport(a: AgentDataset | undefined, b: AgentDataset | undefined): boolean {
  if (a === b || a === undefined || b === undefined) return a === b;
  return (
    a.manifest === b.manifest &&
    a.state === b.state &&
    a.message === b.message &&
    a.revision === b.revision &&
    a.bytes === b.bytes &&
    a.files === b.files &&
    a.warnings.length === b.warnings.length &&
    a.warnings.every((warning, index) => warning === b.warnings[index]) &&
    a.residency.length === b.residency.length &&
    a.residency.every(({ node, residentBytes, memoryBytes, sourcesAside }, index) => {
      const other = b.residency[index];
      if (other?.residentBytes !== residentBytes || other.memoryBytes !== memoryBytes || other.node !== node)
        return false;
      return sourcesAside.length === 0
        ? other.sourcesAside.length === 0
        : sameSources(sourcesAside, other.sourcesAside);
    })
  );
}

/** Compares the sources, whose texts after the colon vary. */
function sameSources(a: readonly string[], b: readonly string[]): boolean {
  const placeOf = (text: string) => text.slice(0, text.indexOf(': '));
  return a.length === b.length && a.every((text, index) => placeOf(text) === placeOf(b[index] ?? ''));
}

export function writtenFigures({ status }: Dataset): string {
  const { residentBytes, percent, nodes, residency, conditions } = status ?? {};
  const listing = conditions?.find((one) => one.type === 'Ready' && one.reason === 'Listing')?.message;
  return JSON.stringify([residentBytes, percent, nodes, residency, listing]);
}
