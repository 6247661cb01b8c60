import type { Expression, LabelSelector } from './input.ts';

type Labels = Readonly<Record<string, string>>;

/** Whether an expression holds of a label's value; `undefined`: there is no such label. */
export function expressionHolds({ operator, values }: Expression, value: string | undefined): boolean {
  switch (operator) {
    case 'In':
      return value !== undefined && values.includes(value);
    case 'NotIn':
      return value === undefined || !values.includes(value);
    case 'Exists':
      return value !== undefined;
    case 'DoesNotExist':
      return value === undefined;
    case 'Gt':
    case 'Lt': {
      const [actual, bound] = [integer(value), integer(values[0])];
      if (actual === undefined || bound === undefined || values.length !== 1) return false;
      return operator === 'Gt' ? actual > bound : actual < bound;
    }
    default:
      return false;
  }
}

/** Digits with a sign, within 64 bits, as strconv.ParseInt takes them. */
function integer(text: string | undefined): bigint | undefined {
  if (text === undefined || !/^[+-]?\d+$/.test(text)) return undefined;
  const value = BigInt(text.replace('+', ''));
  return BigInt.asIntN(64, value) === value ? value : undefined;
}

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
