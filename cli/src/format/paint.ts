/** Colours by meaning. */
export type Tone = 'good' | 'warn' | 'bad' | 'dim' | 'strong' | 'plain';

const codes: Record<Tone, string> = {
  good: '32',
  warn: '33',
  bad: '31',
  dim: '2',
  strong: '1',
  plain: '',
};

export function paint(text: string, tone: Tone, colour: boolean): string {
  return colour && tone !== 'plain' && text !== '' ? `\x1b[${codes[tone]}m${text}\x1b[0m` : text;
}

/** Foreign text (names, messages of agents) without control characters, which a terminal would execute. */
export function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, '\uFFFD');
}

/** Tone of a state reported by an agent. */
export function toneOf(state: string): Tone {
  switch (state.toLowerCase()) {
    case 'ready':
    case 'succeeded':
    case 'ok':
      return 'good';
    case 'failed':
    case 'missing':
      return 'bad';
    case 'cancelled':
    case 'degraded':
    case 'not ready':
    case 'waiting':
      return 'warn';
    default:
      return 'plain';
  }
}
