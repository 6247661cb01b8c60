import { HearthError } from '@hearth/common';

/**
 * Chooses paths as .gitignore patterns do: `*` and `?` stay within a name, `**` crosses names, `[abc]` and
 * `{a,b}` choose; a pattern without '/' matches the name at any depth, one that names a folder everything
 * below it. No patterns choose everything; exclusion wins.
 */
export class PathFilter {
  readonly #include: RegExp[];
  readonly #exclude: RegExp[];

  /** `InvalidArgument` names a pattern that cannot be understood. */
  constructor(include: readonly string[], exclude: readonly string[] = []) {
    this.#include = include.map(compileGlob);
    this.#exclude = exclude.map(compileGlob);
  }

  get choosesAll(): boolean {
    return this.#include.length === 0 && this.#exclude.length === 0;
  }

  matches(path: string): boolean {
    const included = this.#include.length === 0 || this.#include.some((pattern) => pattern.test(path));
    return included && !this.#exclude.some((pattern) => pattern.test(path));
  }
}

/** The pattern as a regular expression over whole paths. */
export function compileGlob(pattern: string): RegExp {
  const trimmed = pattern.replace(/^\.?\//, '').replace(/\/$/, '');
  if (trimmed === '')
    throw new HearthError(
      'InvalidArgument',
      `the path pattern "${pattern}" is empty; leave it out to choose everything`,
    );
  const anchored = trimmed.includes('/') || pattern.startsWith('/');
  return new RegExp(`^${anchored ? '' : '(?:.*/)?'}${translate(trimmed, pattern)}(?:/.*)?$`, 's');
}

function translate(glob: string, whole: string): string {
  let regex = '';
  let braces = 0;
  for (let at = 0; at < glob.length; at++) {
    const char = glob[at] ?? '';
    if (char === '*' && glob[at + 1] === '*') {
      const followedBySlash = glob[at + 2] === '/';
      regex += followedBySlash ? '(?:.*/)?' : '.*';
      at += followedBySlash ? 2 : 1;
    } else if (char === '*') regex += '[^/]*';
    else if (char === '?') regex += '[^/]';
    else if (char === '[') {
      const end = glob.indexOf(']', at + 2);
      if (end < 0) throw malformed(whole, 'has "[" without "]"');
      const negated = glob[at + 1] === '!' || glob[at + 1] === '^';
      const set = glob.slice(at + (negated ? 2 : 1), end).replace(/[\\\][&~^]/g, '\\$&');
      regex += `(?!/)[${negated ? '^' : ''}${set}]`;
      at = end;
    } else if (char === '{') {
      braces++;
      regex += '(?:';
    } else if (char === '}' && braces > 0) {
      braces--;
      regex += ')';
    } else if (char === ',' && braces > 0) regex += '|';
    else if (char === '\\' && at + 1 < glob.length) regex += escapeRegex(glob[++at] ?? '');
    else regex += escapeRegex(char);
  }
  if (braces > 0) throw malformed(whole, 'has "{" without "}"');
  return regex;
}

function escapeRegex(char: string): string {
  return char.replace(/[\\^$.*+?()[\]{}|/-]/, '\\$&');
}

function malformed(pattern: string, reason: string): HearthError {
  return new HearthError(
    'InvalidArgument',
    `the path pattern "${pattern}" ${reason}; write a backslash before a literal one`,
  );
}
