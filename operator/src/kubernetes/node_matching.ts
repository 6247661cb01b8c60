/** The scheduler's matching of labels and taints. Pure. */

export type Expression = { key: string; operator: string; values: readonly string[] };

export type Taint = { key: string; value?: string | undefined; effect: string };

export interface Toleration {
  key?: string | undefined;
  operator?: string | undefined;
  value?: string | undefined;
  effect?: string | undefined;
}

/** `value` is undefined without the label. */
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

/** A signed 64 bit integer, as strconv.ParseInt reads it. */
function integer(text: string | undefined): bigint | undefined {
  if (text === undefined || !/^[+-]?\d+$/.test(text)) return undefined;
  const value = BigInt(text.replace('+', ''));
  return BigInt.asIntN(64, value) === value ? value : undefined;
}

/** NoSchedule and NoExecute taints. */
export function hardTaints(taints: readonly Taint[]): Taint[] {
  return taints.filter(({ effect }) => effect === 'NoSchedule' || effect === 'NoExecute');
}

/** k8s.io/api/core/v1, Toleration.ToleratesTaint, without the optional comparison of numbers. */
export function isTolerated(taint: Taint, tolerations: readonly Toleration[]): boolean {
  return tolerations.some(({ key = '', operator = '', value = '', effect = '' }) => {
    if (effect !== '' && effect !== taint.effect) return false;
    if (key !== '' && key !== taint.key) return false;
    if (operator === 'Exists') return true;
    return (operator === '' || operator === 'Equal') && value === (taint.value ?? '');
  });
}
