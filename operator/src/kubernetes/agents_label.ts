import { agentsLabelPrefix } from '@hearth/common/names';
import type { Place } from './placement.ts';

/** Pure. Whose agents and holders the labels of a node have run there; one place, but for labels that others wrote. */
export function agentsOn(labels: Readonly<Record<string, string>>): Place[] {
  return Object.entries(labels).flatMap(([key, group]) =>
    key.startsWith(agentsLabelPrefix) ? [{ cluster: key.slice(agentsLabelPrefix.length), group }] : [],
  );
}

/** Pure. Those of them that do not belong on the node: it has left the node group, or belongs to another one. */
export function staleAgents(labels: Readonly<Record<string, string>>, place: Place | undefined): Place[] {
  return agentsOn(labels).filter(({ cluster, group }) => cluster !== place?.cluster || group !== place.group);
}
