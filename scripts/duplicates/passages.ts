// Passages that stand in more than one place: runs of lines that are the same but for white space. Blank lines, comments,
// lone punctuation and imports count for nothing, as they repeat themselves wherever code is well formatted.

/** Lines that say something, from which on a run is a passage. */
const least = 5;

export interface SourceFile {
  path: string;
  text: string;
}

/** Where a passage stands, its lines counted from 1. */
export interface Place {
  path: string;
  first: number;
  last: number;
}

/** A passage, and one other place where its first lines stand too. */
export interface Passage extends Place {
  again: Place;
}

interface Line {
  text: string;
  number: number;
}

/** All of them, in the order of the files; one that stands in three places is three. */
export function repeatedPassages(files: readonly SourceFile[]): Passage[] {
  const lines = files.map(({ text }) => sayingLines(text));
  const places = new Map<string, [file: number, line: number][]>();
  for (const [file, own] of lines.entries()) {
    for (let line = 0; line + least <= own.length; ++line) {
      const key = textAt(own, line);
      const found = places.get(key) ?? [];
      found.push([file, line]);
      places.set(key, found);
    }
  }
  return files.flatMap(({ path }, file) => {
    const own = lines[file] ?? [];
    const passages: Passage[] = [];
    for (let line = 0; line + least <= own.length; ++line) {
      const all = places.get(textAt(own, line)) ?? [];
      // Lines that overlap themselves are one list, and not two passages.
      const [other] = all.filter(([at, start]) => at !== file || Math.abs(start - line) >= least);
      if (other === undefined) continue;
      const place = placeOf(path, own, line);
      const before = passages.at(-1);
      if (before !== undefined && before.last >= place.first) before.last = place.last;
      else passages.push({ ...place, again: placeOf(files[other[0]]?.path ?? '', lines[other[0]] ?? [], other[1]) });
    }
    return passages;
  });
}

const textAt = (lines: readonly Line[], first: number): string =>
  lines
    .slice(first, first + least)
    .map(({ text }) => text)
    .join('\n');

const placeOf = (path: string, lines: readonly Line[], first: number): Place => ({
  path,
  first: lines[first]?.number ?? 0,
  last: lines[first + least - 1]?.number ?? 0,
});

function sayingLines(text: string): Line[] {
  let inImport = false;
  return text.split('\n').flatMap((raw, index) => {
    const line = raw.trim().replaceAll(/\s+/g, ' ');
    if (/^import\b.*\{$/.test(line)) inImport = true;
    const counts = !inImport && /\w/.test(line) && !/^(\/\/|\/?\*|#include|import\b|using |} from )/.test(line);
    if (/ from '/.test(line)) inImport = false;
    return counts ? [{ text: line, number: index + 1 }] : [];
  });
}
