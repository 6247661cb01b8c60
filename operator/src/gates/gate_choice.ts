import { type Dataset, type Gate, gate, gateAnnotations, gateModes, parseDuration } from '@hearth/common/resources';

export type GateChoice = { gate: Gate; warnings: string[] };

const defaults: Gate = gate.parse({});

/**
 * Pure. The strictest gate of a pod's Datasets (Wait before Prefer before Off, then the highest percentage, the longest
 * timeout, Required before Preferred, Stored before Memory). Annotations of the pod override single fields.
 */
export function chooseGate(datasets: readonly Dataset[], annotations: Readonly<Record<string, string>>): GateChoice {
  const warnings: string[] = [];
  const chosen: Record<string, unknown> = { ...strictest(datasets.map(({ spec }) => spec.gate)) };
  for (const [field, annotation] of Object.entries(gateAnnotations)) {
    const text = annotations[annotation];
    if (text === undefined) continue;
    const value = field === 'minPercent' && /^\d{1,3}$/.test(text) ? Number(text) : text;
    if (isValid(field as keyof Gate, value)) chosen[field] = value;
    else
      warnings.push(`hearth: the annotation ${annotation} is not ${expected[field as keyof Gate]}; Hearth ignores it`);
  }
  return { gate: chosen as unknown as Gate, warnings };
}

const expected: Record<keyof Gate, string> = {
  mode: gateModes.join(', ').replace(/, (\w+)$/, ' or $1'),
  minPercent: 'a number from 1 to 100',
  timeout: 'a duration from 1s to 24h, such as 10m',
  affinity: 'Preferred or Required',
  readyWhen: 'Stored or Memory',
};

const longestMs = parseDuration('24h') as number;

function isValid(field: keyof Gate, value: unknown): boolean {
  if (!gate.shape[field].safeParse(value).success) return false;
  if (field !== 'timeout') return true;
  const ms = parseDuration(value as string) ?? 0;
  return ms >= 1000 && ms <= longestMs;
}

/** Pure. Off without any gate. */
export function strictest(gates: readonly (Gate | undefined)[]): Gate {
  const given = gates.filter((one) => one !== undefined);
  const mode = gateModes[Math.max(0, ...given.map((one) => gateModes.indexOf(one.mode)))] ?? 'Off';
  const strict = given.filter((one) => one.mode === mode);
  if (strict.length === 0) return { ...defaults, mode };
  return strict.reduce((a, b) => ({
    mode,
    minPercent: Math.max(a.minPercent, b.minPercent),
    timeout: (parseDuration(a.timeout) ?? 0) >= (parseDuration(b.timeout) ?? 0) ? a.timeout : b.timeout,
    affinity: a.affinity === 'Required' ? a.affinity : b.affinity,
    readyWhen: a.readyWhen === 'Memory' ? b.readyWhen : a.readyWhen,
  }));
}
