import {
  type NodeDataset,
  NodeDataset as NodeDatasetMessage,
  type NodeFigures,
  type NodeReport,
  type NodeReportMark,
} from '@hearth/common/generated/hearth/v1/control.ts';
import type { NodeResidency, NodeStatistics } from './record.ts';

/** Encoded bytes of datasets in one part: with figures and removals a message stays below the 1 MiB of the protocol. */
const maxPartBytes = 512 << 10;
const maxGoneInPart = 1_000;

/** Contents of a report. */
export interface ReportContents {
  mark: NodeReportMark;
  whole: boolean;
  /** Undefined: unchanged. */
  figures: NodeStatistics | undefined;
  changed: readonly { dataset: string; residency: NodeResidency }[];
  gone: readonly string[];
}

/** Divides a report into parts of bounded size; at least one. */
export function reportOf({ mark, whole, figures, changed, gone }: ReportContents): NodeReport[] {
  const groups = inParts(changed.map(datasetMessage));
  const count = Math.max(1, groups.length, Math.ceil(gone.length / maxGoneInPart));
  return Array.from({ length: count }, (_, index) => ({
    mark,
    whole: whole && index === 0,
    more: index < count - 1,
    figures: figures === undefined || index > 0 ? undefined : figuresMessage(figures),
    datasets: groups[index] ?? [],
    datasetsGone: gone.slice(index * maxGoneInPart, (index + 1) * maxGoneInPart),
  }));
}

/** The figures of an agent from the parts of its whole report; undefined when they contain no figures. */
export function statisticsOf(node: string, parts: readonly NodeReport[]): NodeStatistics | undefined {
  const figures = parts.find((part) => part.figures !== undefined)?.figures;
  if (figures === undefined) return undefined;
  const { startedAtMs, rdma, ...others } = figures;
  const residency = parts.flatMap(({ datasets }) =>
    datasets.map(({ dataset, completeFiles, sourcesAside, ...row }): [string, NodeResidency] => [
      dataset,
      { ...row, completeFiles: Number(completeFiles), ...(sourcesAside.length === 0 ? {} : { sourcesAside }) },
    ]),
  );
  return {
    ...others,
    node,
    startedAt: Number(startedAtMs),
    ...(rdma === undefined ? {} : { rdma }),
    residency: Object.fromEntries(residency),
  };
}

function inParts(datasets: readonly NodeDataset[]): NodeDataset[][] {
  const parts: NodeDataset[][] = [];
  let bytes = 0;
  for (const dataset of datasets) {
    const own = NodeDatasetMessage.encode(dataset).finish().length;
    if (parts.length === 0 || bytes + own > maxPartBytes) {
      parts.push([]);
      bytes = 0;
    }
    parts.at(-1)?.push(dataset);
    bytes += own;
  }
  return parts;
}

function datasetMessage({ dataset, residency }: { dataset: string; residency: NodeResidency }): NodeDataset {
  const { sourcesAside = [], completeFiles, ...row } = residency;
  return { dataset, ...row, completeFiles: BigInt(completeFiles), sourcesAside: [...sourcesAside] };
}

function figuresMessage(statistics: NodeStatistics): NodeFigures {
  const { node, residency, startedAt, capabilities, rdma, volumes, ...figures } = statistics;
  return {
    ...figures,
    startedAtMs: BigInt(Math.round(startedAt)),
    capabilities: capabilities.map((one) => ({ ...one, pods: one.pods ?? [], podsLeftOut: one.podsLeftOut ?? 0 })),
    rdma,
    volumes: [...volumes],
  };
}
