// The rooms of the native code: what each offers and uses, as its CMakeLists.txt says, held against what its sources
// include. A room includes of another only what that offers, and only where it links it.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

export interface Room {
  name: string;
  /** Headers that other rooms may include, relative to the room's folder. */
  headers: string[];
  /** Headers that only the tests of other rooms may include. */
  testing: string[];
  /** Other rooms, as they stand in LIBRARIES. */
  uses: string[];
}

export interface SourceFile {
  /** Relative to native/: `cache/content_cache.h`. */
  path: string;
  text: string;
}

const roomCall = /hearth_room\((\w+)([^)]*)\)/g;

/** The rooms that a CMakeLists.txt defines. */
export function parseRooms(cmake: string): Room[] {
  return [...cmake.replace(/\$\{\w+\}/g, '').matchAll(roomCall)].map(([, name = '', lists = '']) => {
    const room: Room = { name, headers: [], testing: [], uses: [] };
    const places: Record<string, string[]> = { HEADERS: room.headers, TESTING: room.testing, LIBRARIES: room.uses };
    let place: string[] | undefined;
    for (const word of lists.split(/\s+/).filter((each) => each !== '')) {
      if (word in places) place = places[word];
      else if (place !== room.uses) place?.push(word);
      else if (word.startsWith('hearth_')) place.push(word.slice('hearth_'.length));
    }
    return room;
  });
}

/** The room of a file: the first folder of its path. */
const roomOf = (path: string): string => path.split('/')[0] ?? '';

const includesOf = (text: string): string[] => [...text.matchAll(/^#include "([^"]+)"/gm)].map(([, path = '']) => path);

/** All rooms that are linked with this one. */
function linked(rooms: ReadonlyMap<string, Room>, name: string): Set<string> {
  const all = new Set<string>();
  const visit = (each: string): void => {
    for (const used of rooms.get(each)?.uses ?? []) {
      if (all.has(used)) continue;
      all.add(used);
      visit(used);
    }
  };
  visit(name);
  return all;
}

/** A header and its source file go together. */
const unitOf = (path: string): string => path.replace(/\.(h|cc)$/, '');

/** Units of tests: by name, and headers without a source file that only tests include. */
export function testUnits(sources: readonly SourceFile[]): Set<string> {
  const includers = new Map<string, Set<string>>();
  for (const { path, text } of sources) {
    for (const target of includesOf(text)) {
      const users = includers.get(unitOf(target)) ?? new Set();
      includers.set(unitOf(target), users);
      if (unitOf(path) !== unitOf(target)) users.add(unitOf(path));
    }
  }
  const units = sources.map(({ path }) => unitOf(path));
  const tests = new Set(units.filter((unit) => /_test$|\/testing\//.test(unit)));
  const compiled = new Set(sources.filter(({ path }) => path.endsWith('.cc')).map(({ path }) => unitOf(path)));
  const headers = units.filter((unit) => !compiled.has(unit));
  for (let before = -1; before !== tests.size; ) {
    before = tests.size;
    for (const unit of headers) {
      const users = [...(includers.get(unit) ?? [])];
      if (users.length > 0 && users.every((user) => tests.has(user))) tests.add(unit);
    }
  }
  return tests;
}

/** A sentence about the fault of one include; undefined when there is none. */
function fault(
  rooms: ReadonlyMap<string, Room>,
  tests: ReadonlySet<string>,
  from: string,
  target: string,
): string | undefined {
  const [here, there] = [rooms.get(roomOf(from)), rooms.get(roomOf(target))];
  if (there === undefined || here === there) return undefined; // of a library, or its own
  const header = target.slice(there.name.length + 1);
  const forTests = there.testing.includes(header);
  if (forTests && !tests.has(unitOf(from))) return `${from} is no test and includes ${target}, which is for tests`;
  if (!forTests && !there.headers.includes(header))
    return `${from} includes ${target}, which ${there.name} does not offer`;
  if (here !== undefined && !linked(rooms, here.name).has(there.name))
    return `${from} includes ${target}, and the room ${here.name} does not link ${there.name}`;
  return undefined;
}

/** Sentences: includes that a room must not have, and offers that no other room takes up. */
export function faultsOf(all: readonly Room[], sources: readonly SourceFile[]): string[] {
  const rooms = new Map(all.map((room) => [room.name, room]));
  const tests = testUnits(sources);
  const faults: string[] = [];
  const taken = new Set<string>();
  for (const { path, text } of sources) {
    for (const target of includesOf(text)) {
      if (roomOf(target) !== roomOf(path)) taken.add(target);
      const wrong = fault(rooms, tests, path, target);
      if (wrong !== undefined) faults.push(wrong);
    }
  }
  const offered = new Set(
    all.flatMap(({ name, headers, testing }) => [...headers, ...testing].map((header) => `${name}/${header}`)),
  );
  // An offered header also offers the headers of its own room that it includes.
  for (const { path, text } of sources) {
    if (!offered.has(path)) continue;
    for (const target of includesOf(text)) if (roomOf(target) === roomOf(path)) taken.add(target);
  }
  for (const header of offered)
    if (!taken.has(header)) faults.push(`${header} is offered, and no other room includes it`);
  return faults;
}

export interface RoomSize {
  files: number;
  /** Without tests and generated files. */
  lines: number;
  testLines: number;
}

export function sizeOf(name: string, sources: readonly SourceFile[]): RoomSize {
  const tests = testUnits(sources);
  const size = { files: 0, lines: 0, testLines: 0 };
  for (const { path, text } of sources) {
    if (roomOf(path) !== name || path.includes('/generated/')) continue;
    const lines = text.split('\n').length - 1;
    if (tests.has(unitOf(path))) size.testLines += lines;
    else {
      size.files += 1;
      size.lines += lines;
    }
  }
  return size;
}

/** Without those that are reached through another one. */
function directly(rooms: ReadonlyMap<string, Room>, room: Room): string[] {
  return room.uses.filter((used) => !room.uses.some((other) => other !== used && linked(rooms, other).has(used)));
}

/** The page of the documentation. */
export function render(all: readonly Room[]): string {
  const rooms = new Map(all.map((room) => [room.name, room]));
  const rows = all.map((room) => {
    const headers = room.headers.map((header) => `\`${header}\``).join(', ') || '-';
    return `| \`native/${room.name}\` | ${headers} | ${room.uses.join(', ') || '-'} |`;
  });
  const arrows = all.flatMap((room) => directly(rooms, room).map((used) => `  ${room.name} --> ${used}`));
  return `# Rooms of the native code

Written by \`scripts/generate-rooms.ts\` from \`native/*/CMakeLists.txt\`; \`make verify\` proves that it is current,
and refuses an include that a room does not offer or does not link. What each room is for stands in
[architecture](../architecture.md).

| room | offers | links |
|---|---|---|
${rows.join('\n')}

An arrow is what a room links, but for what it reaches through another:

\`\`\`mermaid
graph TD
${arrows.join('\n')}
\`\`\`
`;
}

/** Reads the rooms below \`native\`; \`files\` are the paths of its sources and CMakeLists.txt. */
export function readRooms(native: string, files: readonly string[]): { rooms: Room[]; sources: SourceFile[] } {
  const order = /foreach\(room ([^)]*)\)/.exec(readFileSync(join(native, 'CMakeLists.txt'), 'utf8'))?.[1] ?? '';
  const rooms = files
    .filter((path) => path.endsWith('/CMakeLists.txt') && dirname(path) !== '.')
    .flatMap((path) => parseRooms(readFileSync(join(native, path), 'utf8')));
  const place = ({ name }: Room): number => order.split(/\s+/).indexOf(name);
  const sources = files
    .filter((path) => /\.(h|cc)$/.test(path))
    .map((path) => ({ path, text: readFileSync(join(native, path), 'utf8') }));
  return { rooms: rooms.sort((a, b) => place(a) - place(b)), sources };
}
