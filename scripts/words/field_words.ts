// Words that stand for a term of the field, in what people read of a running system (texts of logs, events, conditions,
// commands) and in names. docs/glossary.md says what to write instead. Comments are not looked at.

/** In texts, as words of their own. */
const inTexts: Readonly<Record<string, string>> = {
  told: 'reported',
  tell: 'report',
  tells: 'reports',
  anew: 'again',
  nobody: 'no ...',
  somebody: 'another ...',
  stranger: 'unauthenticated peer',
  'to be had': 'cannot ...',
};

/** In names, as parts that begin with a capital letter, `_` or the name. */
const inNames: Readonly<Record<string, string>> = {
  told: 'reported',
  tell: 'report, send or notify',
  untold: 'unsent',
  bystander: 'standby',
  doorkeeper: 'limiter',
  stranger: 'unauthenticated',
  unsay: 'clear',
  takeaway: 'remove',
  nobody: 'none',
  somebody: 'other',
};

/** Comments, numbers (C++ has apostrophes in them), texts and names. */
const token =
  /\/\*[\s\S]*?\*\/|\/\/[^\n]*|\b\d[\w']*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`|[A-Za-z_]\w*/g;

/** `takeAwayRest`, `take_away_rest`: take, away, rest; and each two of them together. */
function partsOf(name: string): string[] {
  const parts = name
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .toLowerCase()
    .split('_')
    .filter((part) => part !== '');
  return [...parts, ...parts.slice(1).map((part, index) => `${parts[index]}${part}`)];
}

/** Sentences: each text and name of a source file that has such a word. */
export function faultsOf(path: string, source: string): string[] {
  const faults: string[] = [];
  for (const { 0: text, index } of source.matchAll(token)) {
    if (text.startsWith('//') || text.startsWith('/*') || /^\d/.test(text)) continue;
    const line = source.slice(0, index).split('\n').length;
    const isText = /^['"`]/.test(text);
    const found = isText
      ? Object.entries(inTexts).filter(([word]) => new RegExp(`\\b${word}\\b`, 'i').test(text))
      : Object.entries(inNames).filter(([word]) => partsOf(text).includes(word));
    for (const [word, rather] of found)
      faults.push(`${path}:${line}: "${word}" in ${text.slice(0, 60)}: rather ${rather}`);
  }
  return faults;
}
