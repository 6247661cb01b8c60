import { displayWidth } from './table.ts';

/** Lines of at most `width` columns, broken at blanks; a longer word gets an overlong line of its own. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    const longer = line === '' ? word : `${line} ${word}`;
    if (line !== '' && displayWidth(longer) > width) {
      lines.push(line);
      line = word;
    } else {
      line = longer;
    }
  }
  return [...lines, line];
}

export function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? '';
}
