import assert from 'node:assert/strict';
import { type Passage, repeatedPassages, type SourceFile } from './passages.ts';
import { sources } from './sources.ts';

/** May only fall. What is written again belongs into a room that both places can use. */
const maxPassages = 65;

const lines = (from: number, to: number, indent = ''): string[] =>
  Array.from({ length: to - from }, (_, index) => `${indent}call(${from + index});`);
const file = (path: string, ...text: string[]): SourceFile => ({ path, text: text.join('\n') });
const spans = (passages: readonly Passage[]): string[] =>
  passages.map(({ path, first, last, again }) => `${path}:${first}-${last} also ${again.path}:${again.first}`);

describe('passages that stand in more than one place', () => {
  it('are runs of five lines, whatever is between them that says nothing', () => {
    const one = file('a.ts', 'const a = 1;', ...lines(0, 7));
    const two = file('b.ts', ...lines(0, 3, '  '), '', '// why', '}', ...lines(3, 7));
    assert.deepEqual(spans(repeatedPassages([one, two])), ['a.ts:2-8 also b.ts:1', 'b.ts:1-10 also a.ts:2']);
    assert.deepEqual(repeatedPassages([file('a.ts', ...lines(0, 4)), file('b.ts', ...lines(0, 4))]), []);
  });

  it('may stand in one file, but not in a list of which each line is the same', () => {
    const twice = file('a.ts', ...lines(0, 6), 'between();', ...lines(0, 6));
    assert.deepEqual(spans(repeatedPassages([twice])), ['a.ts:1-6 also a.ts:8', 'a.ts:8-13 also a.ts:1']);
    assert.deepEqual(repeatedPassages([file('b.ts', ...Array<string>(9).fill('next();'))]), []);
  });

  it('are no imports', () => {
    const imports = ['import {', ...lines(0, 9).map((_, index) => `  name${index},`), "} from './x.ts';"];
    assert.deepEqual(repeatedPassages([file('a.ts', ...imports), file('b.ts', ...imports)]), []);
  });

  it('become fewer', () => {
    const found = spans(repeatedPassages(sources()));
    assert.ok(found.length <= maxPassages, `${found.length}, and ${maxPassages} at most:\n${found.join('\n')}`);
  });
});
