import { type Expression, expressionHolds } from '../kubernetes/index.ts';
import type { LabelSelector } from './input.ts';

type Labels = Readonly<Record<string, string>>;

/** A selector of pods by their labels, in the form in which pods are counted. */
export interface PodSelector {
  /** All must hold; none: every pod matches. */
  requirements: readonly Expression[];
  /** There was none, so that no pod matches. */
  nothing: boolean;
}

/** `matchLabelKeys`: labels whose values have to be those of the pod with `labels`, where it has them. */
export function podSelector(
  selector: LabelSelector | undefined,
  matchLabelKeys: readonly string[],
  labels: Labels,
): PodSelector {
  if (selector === undefined) return { requirements: [], nothing: true };
  const own = matchLabelKeys.flatMap((key): [string, string][] => {
    const value = labels[key];
    return value === undefined ? [] : [[key, value]];
  });
  const equal = [...Object.entries(selector.matchLabels), ...own];
  return {
    requirements: [
      ...equal.map(([key, value]) => ({ key, operator: 'In', values: [value] })),
      ...selector.matchExpressions,
    ],
    nothing: false,
  };
}

export function selects({ requirements, nothing }: PodSelector, labels: Labels): boolean {
  return !nothing && requirements.every((one) => expressionHolds(one, labels[one.key]));
}
