import { binaryUnits } from '@hearth/common/resources';

/** Powers of ten. */
const decimal: Readonly<Record<string, number>> = {
  n: -9,
  u: -6,
  m: -3,
  '': 0,
  k: 3,
  M: 6,
  G: 9,
  T: 12,
  P: 15,
  E: 18,
};

const quantity = /^([+-]?)(\d*)(?:\.(\d*))?(?:([eE][+-]?\d+)|([KMGTPE]i|[numkMGTPE])?)$/;

/**
 * A quantity of Kubernetes as the scheduler counts it: rounded up to whole units, of `cpu` to millicores. Undefined when
 * the text is none. Grammar: k8s.io/apimachinery/pkg/api/resource, Quantity.
 */
export function amountOf(resource: string, text: string): number | undefined {
  const match = quantity.exec(text);
  if (match === null) return undefined;
  const [, sign = '', whole = '', fraction = '', exponent, suffix = ''] = match;
  if (whole === '' && fraction === '') return undefined;
  let digits = BigInt(whole + fraction) * (binaryUnits[suffix] ?? 1n);
  let power = (exponent === undefined ? (decimal[suffix] ?? 0) : Number(exponent.slice(1))) - fraction.length;
  if (resource === 'cpu') power += 3;
  // Beyond what can be counted, also in a 64 bit integer.
  if (power > 40) return digits === 0n ? 0 : Number.MAX_SAFE_INTEGER;
  if (power >= 0) digits *= 10n ** BigInt(power);
  else {
    const divisor = 10n ** BigInt(Math.min(-power, 60));
    digits = sign === '-' ? digits / divisor : (digits + divisor - 1n) / divisor;
  }
  const size = Number(digits);
  return sign === '-' ? 0 - size : size;
}
