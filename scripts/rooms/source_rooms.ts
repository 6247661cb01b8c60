// The rooms of a TypeScript package: the folders of its src. Code of one takes from another only what its index.ts gives,
// and no room needs one that needs it. Tests and what is for tests (testing/) may look behind the doors.
import { dirname, join } from 'node:path';

export interface SourceFile {
  /** Relative to the package's src: `gates/verdict.ts`. */
  path: string;
  text: string;
}

const importOf = /\bfrom '(\.[^']+)'|\bimport\('(\.[^']+)'\)/g;

/** Files that are no product code. */
const isForTests = (path: string): boolean => /\.test\.ts$|(^|\/)testing\//.test(path);

/** The first folder; undefined: a file beside the rooms, which all may use. */
function roomOf(path: string): string | undefined {
  const slash = path.indexOf('/');
  return slash < 0 || path.startsWith('..') || path.startsWith('generated/') ? undefined : path.slice(0, slash);
}

function importsOf({ path, text }: SourceFile): string[] {
  return [...text.matchAll(importOf)].map(([, fixed, dynamic]) => join(dirname(path), fixed ?? dynamic ?? ''));
}

/** Sentences: imports past a door, and circles of rooms. */
export function faultsOf(files: readonly SourceFile[]): string[] {
  const faults: string[] = [];
  const uses = new Map<string, Map<string, string>>();
  for (const file of files.filter(({ path }) => !isForTests(path))) {
    const here = roomOf(file.path);
    for (const target of importsOf(file)) {
      const there = roomOf(target);
      if (there === undefined || there === here) continue;
      if (target !== `${there}/index.ts`)
        faults.push(`${file.path} imports ${target}, which is behind ${there}/index.ts`);
      if (here === undefined) continue;
      const used = uses.get(here) ?? new Map<string, string>();
      uses.set(here, used.set(there, file.path));
    }
  }
  return [...faults, ...circlesOf(uses)];
}

/** `uses`: by room the rooms that it uses, each with a file that does. One sentence a circle, by its shortest way. */
function circlesOf(uses: ReadonlyMap<string, ReadonlyMap<string, string>>): string[] {
  const circles: string[] = [];
  const seen = new Set<string>();
  for (const start of [...uses.keys()].sort()) {
    if (seen.has(start)) continue;
    const way = wayBack(start, uses);
    if (way === undefined) continue;
    for (const room of way) seen.add(room);
    const steps = way.map((room, index) => {
      const next = way[index + 1] ?? start;
      return `${room} uses ${next} (${uses.get(room)?.get(next)})`;
    });
    circles.push(`rooms in a circle: ${steps.join(', ')}`);
  }
  return circles;
}

/** Breadth first from a room to itself: the rooms on the way, itself first. */
function wayBack(start: string, uses: ReadonlyMap<string, ReadonlyMap<string, string>>): string[] | undefined {
  const ways = [[start]];
  const visited = new Set<string>();
  for (let way = ways.shift(); way !== undefined; way = ways.shift()) {
    for (const next of uses.get(way.at(-1) ?? '')?.keys() ?? []) {
      if (next === start) return way;
      if (visited.has(next)) continue;
      visited.add(next);
      ways.push([...way, next]);
    }
  }
  return undefined;
}
