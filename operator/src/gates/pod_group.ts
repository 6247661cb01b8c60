import { isDeepStrictEqual } from 'node:util';
import type { Pod } from '@hearth/common/kubernetes';
import type { Gate } from '@hearth/common/resources';
import { type PodGroup, type PodTemplate, podTemplate } from '../planner/index.ts';
import type { GatedMember } from './groups.ts';

export type UnplannedGroup = Omit<PodGroup, 'planned'>;

export interface GroupOfPods {
  key: string;
  pods: readonly GatedMember[];
  gate: Gate;
  datasets: readonly string[];
  foreign: ReadonlySet<string>;
}

/** Every pass asks for the same pod objects. */
const templates = new WeakMap<Pod, Map<boolean, PodTemplate>>();

/** Pure. Splits the group by template. Labels in which pods of a StatefulSet or Job differ do not count. */
export function podGroups({ key, pods, gate, datasets, foreign }: GroupOfPods): UnplannedGroup[] {
  const parts: { template: PodTemplate; pods: string[] }[] = [];
  for (const { gated, name } of pods) {
    const template = templateOf(gated, foreign.has(name));
    const part = parts.find((one) => isSame(one.template, template));
    if (part === undefined) {
      parts.push({ template, pods: [name] });
    } else {
      part.template = { ...part.template, labels: common(part.template.labels, template.labels) };
      part.pods.push(name);
    }
  }
  return parts.map(({ template, pods: names }, index) => ({
    ...template,
    key: index === 0 ? key : `${key}#${index + 1}`,
    pods: names,
    datasets,
    mode: gate.mode === 'Prefer' ? 'Prefer' : 'Wait',
    minPercent: gate.minPercent,
    affinity: gate.affinity,
  }));
}

function templateOf(pod: Pod, foreignVolumes: boolean): PodTemplate {
  const known = templates.get(pod) ?? new Map<boolean, PodTemplate>();
  const template = known.get(foreignVolumes) ?? podTemplate(pod, { foreignVolumes });
  templates.set(pod, known.set(foreignVolumes, template));
  return template;
}

function isSame({ labels: _, ...a }: PodTemplate, { labels: __, ...b }: PodTemplate): boolean {
  return isDeepStrictEqual(a, b);
}

type Labels = PodTemplate['labels'];

function common(a: Labels, b: Labels): Labels {
  const entries = Object.entries(a);
  const shared = entries.filter(([key, value]) => b[key] === value);
  return shared.length === entries.length ? a : Object.fromEntries(shared);
}
