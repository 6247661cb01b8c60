import { globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { root } from '@hearth/common/testing';

/** A page of Markdown of the repository. */
export class Page {
  /** Relative to the repository. */
  readonly path: string;
  readonly text: string;

  constructor(path: string) {
    this.path = path;
    this.text = readFileSync(join(root, path), 'utf8');
  }

  /** Without blocks of code, whose lines are no headings and no links. */
  get #prose(): string {
    return this.text.replaceAll(/^ *```.*?^ *```$/gms, '');
  }

  /** Anchors of its headings, as GitHub makes them. */
  get anchors(): Set<string> {
    const headings = [...this.#prose.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) => anchorOf(heading));
    return new Set(headings.map((anchor, index) => numbered(anchor, headings.slice(0, index))));
  }

  /** Links to other pages and files of the repository, with paths relative to the repository. */
  get links(): { target: string; anchor: string }[] {
    const text = this.#prose.replaceAll(/`[^`\n]+`/g, 'code');
    return [...text.matchAll(/\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)/g)].map(([, path = '', anchor = '']) => ({
      target: path === '' ? this.path : normalize(join(dirname(this.path), path)),
      anchor,
    }));
  }

  /** Spans of code outside of blocks. */
  get quotes(): string[] {
    return [...this.#prose.matchAll(/`([^`\n]+)`/g)].map(([, quote = '']) => quote);
  }
}

export function pages(): Page[] {
  return globSync(['*.md', 'docs/**/*.md', 'native/*/README.md', 'examples/**/*.md'], { cwd: root })
    .sort()
    .map((path) => new Page(path));
}

function anchorOf(heading: string): string {
  const text = heading
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .trim()
    .toLowerCase();
  return text.replaceAll(/[^\p{L}\p{N}\s_-]/gu, '').replaceAll(/\s/g, '-');
}

/** The second heading of a name has the anchor NAME-1. */
function numbered(anchor: string, before: readonly string[]): string {
  const count = before.filter((one) => one === anchor).length;
  return count === 0 ? anchor : `${anchor}-${count}`;
}
