// Words that stand for a term of the field: in what people read of a running system (texts of logs, events, conditions,
// commands), in names, and, a shorter list, in comments. TypeScript and C++. docs/glossary.md says what to write instead.

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

/** In comments, as words of their own. */
const inComments: Readonly<Record<string, string>> = {
  ...inTexts,
  telling: 'reporting',
  untold: 'unsent',
  strangers: 'unauthenticated peers',
  doorkeeper: 'limiter',
  'takes away': 'removes',
  'taken away': 'removed',
};

/** In names, as parts that begin with a capital letter, `_` or the name. */
const inNames: Readonly<Record<string, string>> = {
  told: 'reported',
  tell: 'report, send or notify',
  untold: 'unsent',
  bystander: 'standby',
  doorkeeper: 'limiter',
  stranger: 'unauthenticated',
  strangers: 'unauthenticated',
  unsay: 'clear',
  takeaway: 'remove',
  takenaway: 'removed',
  anew: 'again',
  nobody: 'none',
  somebody: 'other',
};

/** In names of the engine, too. */
const inNativeNames: Readonly<Record<string, string>> = {
  ...inNames,
  tells: 'reports',
  book: 'cache, or what it has',
  complaint: 'failure report',
  complain: 'report',
  patience: 'timeout',
  letter: 'update',
  news: 'updates',
  question: 'event or request',
  questions: 'events or requests',
};

/** Comments, raw strings, numbers (C++ has apostrophes in them), texts and names. */
const token =
  /\/\*[\s\S]*?\*\/|\/\/[^\n]*|\bR"\([\s\S]*?\)"|\b\d[\w']*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`|[A-Za-z_]\w*/g;

/** `takeAwayRest`, `take_away_rest`: take, away, rest; and each two of them together. */
function partsOf(name: string): string[] {
  const parts = name
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .toLowerCase()
    .split('_')
    .filter((part) => part !== '');
  return [...parts, ...parts.slice(1).map((part, index) => `${parts[index]}${part}`)];
}

/** Those of the list that stand in a text or a comment; lines of a comment are one sentence. */
function wordsIn(text: string, list: Readonly<Record<string, string>>): string[] {
  const sentence = text.replace(/\s*\n\s*(\/\/|\*)?\s*/g, ' ');
  return Object.keys(list).filter((word) => new RegExp(`\\b${word}\\b`, 'i').test(sentence));
}

interface Found {
  list: Readonly<Record<string, string>>;
  words: string[];
}

function foundIn(text: string, isNative: boolean): Found {
  if (/^\/[/*]/.test(text)) return { list: inComments, words: wordsIn(text, inComments) };
  if (/^(['"`]|R")/.test(text)) return { list: inTexts, words: wordsIn(text, inTexts) };
  const list = isNative ? inNativeNames : inNames;
  const parts = partsOf(text);
  return { list, words: Object.keys(list).filter((word) => parts.includes(word)) };
}

/** Consecutive `//` comments as one, so that words which a line's end parts are seen. */
function tokensOf(source: string): { text: string; index: number }[] {
  const tokens: { text: string; index: number }[] = [];
  let end = 0;
  for (const { 0: text, index } of source.matchAll(token)) {
    const last = tokens.at(-1);
    const between = source.slice(end, index);
    if (last?.text.startsWith('//') && text.startsWith('//') && /^\n[ \t]*$/.test(between)) last.text += between + text;
    else tokens.push({ text, index });
    end = index + text.length;
  }
  return tokens;
}

/**
 * Sentences: each text, name and comment of a source file that has such a word; C++ where the path ends as that does.
 * `only`: comments alone, as of tests, whose texts are what they expect.
 */
export function faultsOf(path: string, source: string, only?: 'comments'): string[] {
  const isNative = /\.(h|cc)$/.test(path);
  const faults: string[] = [];
  for (const { text, index } of tokensOf(source)) {
    if (/^\d/.test(text) || (only === 'comments' && !/^\/[/*]/.test(text))) continue;
    const { list, words } = foundIn(text, isNative);
    const line = source.slice(0, index).split('\n').length;
    for (const word of words) faults.push(`${path}:${line}: "${word}" in ${text.slice(0, 60)}: rather ${list[word]}`);
  }
  return faults;
}

/** The same of a file's own name. */
export function faultsOfName(path: string): string[] {
  const name = path.replace(/^.*\//, '').replace(/\..*$/, '');
  const { list, words } = foundIn(name, /\.(h|cc)$/.test(path));
  return words.map((word) => `${path}: "${word}" in the file's name: rather ${list[word]}`);
}
