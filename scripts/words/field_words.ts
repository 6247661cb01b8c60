// Words that stand for a term of the field: in what people read of a running system (texts of logs, events, conditions,
// commands), in names, comments, titles of tests, documents, charts and protocols. TypeScript and C++. docs/glossary.md
// says what to write instead; each of its words is found by one of these lists.

type Words = Readonly<Record<string, string>>;

/** In texts, as words of their own. */
const inTexts: Words = {
  told: 'reported',
  tell: 'report',
  tells: 'reports',
  telling: 'reporting',
  untold: 'unsent',
  anew: 'again',
  nobody: 'no ...',
  somebody: 'another ...',
  stranger: 'unauthenticated peer',
  strangers: 'unauthenticated peers',
  unsay: 'clear',
  'to be had': 'cannot ...',
  'take away': 'remove',
  'takes away': 'removes',
  'taken away': 'removed',
  'took away': 'removed',
  complaint: 'failure report',
  doorkeeper: 'limiter',
  patience: 'timeout',
};

/** In names, as parts that begin with a capital letter, `_` or the name. */
const inNames: Words = {
  told: 'reported',
  tell: 'report, send or notify',
  tells: 'reports',
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
  book: 'cache, registry, or what it has',
  board: 'cache or queue',
  complaint: 'failure report, or warning',
  complain: 'report',
  complained: 'reported',
  doubted: 'suspected',
  patience: 'timeout',
  letter: 'update',
  news: 'updates',
  question: 'event, request or query',
  questions: 'events, requests or queries',
};

/** In names too, where they begin a constant (C++) or any name (TypeScript): limits. */
const limits: Words = { most: 'max', least: 'min' };

/** `mostUsed` is of the API, which does not change. */
const noLimit = /^mostUsed$|^(most|least)Recently/;

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
function wordsIn(text: string, list: Words): string[] {
  const sentence = text.replace(/\s*\n\s*(\/\/|\*)?\s*/g, ' ');
  return Object.keys(list).filter((word) => new RegExp(`\\b${word}\\b`, 'i').test(sentence));
}

interface Found {
  list: Words;
  words: string[];
}

function foundIn(text: string, isNative: boolean): Found {
  if (/^(\/[/*]|['"`]|R")/.test(text)) return { list: inTexts, words: wordsIn(text, inTexts) };
  const parts = partsOf(text);
  const words = Object.keys(inNames).filter((word) => parts.includes(word));
  const limit = noLimit.test(text) ? null : (isNative ? /^k(Most|Least)[A-Z]/ : /^(most|least)[A-Z]/).exec(text);
  if (limit?.[1] !== undefined) words.push(limit[1].toLowerCase());
  return { list: { ...inNames, ...limits }, words };
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

/** The title of a test, as mocha is given it. */
const title = /^(?:it|describe|context)(?:\.\w+)?\(\s*$/;

/**
 * Sentences: each text, name and comment of a source file that has such a word. `only`: comments and titles alone, as of
 * tests, whose texts are what they expect.
 */
export function faultsOf(path: string, source: string, only?: 'comments'): string[] {
  const faults: string[] = [];
  for (const { text, index } of tokensOf(source)) {
    if (/^\d/.test(text)) continue;
    const isTitle = () => title.test(source.slice(source.lastIndexOf('\n', index) + 1, index).trimStart());
    if (only === 'comments' && !/^\/[/*]/.test(text) && !(/^['"`]/.test(text) && isTitle())) continue;
    const { list, words } = foundIn(text, /\.(h|cc)$/.test(path));
    const line = source.slice(0, index).split('\n').length;
    for (const word of words) faults.push(`${path}:${line}: "${word}" in ${text.slice(0, 60)}: rather ${list[word]}`);
  }
  return faults;
}

/** The same of a document, chart or protocol, paragraph by paragraph. */
export function faultsOfProse(path: string, text: string): string[] {
  const faults: string[] = [];
  let line = 1;
  for (const paragraph of text.split(/(?<=\n)\s*\n/)) {
    for (const word of wordsIn(paragraph.replace(/\n\s*#/g, '\n'), inTexts))
      faults.push(`${path}:${line}: "${word}" in a paragraph: rather ${inTexts[word]}`);
    line += paragraph.split('\n').length;
  }
  return faults;
}

/** The same of a file's own name. */
export function faultsOfName(path: string): string[] {
  const { list, words } = foundIn(path.replace(/^.*\//, '').replace(/\..*$/, ''), false);
  return words.map((word) => `${path}: "${word}" in the file's name: rather ${list[word]}`);
}
