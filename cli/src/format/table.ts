import { paint, printable, type Tone } from './paint.ts';

export interface Column<Row> {
  title: string;
  value: (row: Row) => string;
  align?: 'left' | 'right';
  tone?: (row: Row) => Tone;
  /** May be cut with an ellipsis when the table is wider than the terminal; others never are. */
  flexible?: boolean;
}

export interface TableStyle {
  columns: number;
  colour: boolean;
}

const gap = '  ';
const leastFlexible = 8;

/** Aligned lines without line ends; the first is the heading. */
export function renderTable<Row>(columns: Column<Row>[], rows: Row[], style: TableStyle): string[] {
  const cells = rows.map((row) => columns.map((column) => printable(column.value(row))));
  const widths = columns.map((column, index) =>
    Math.max(displayWidth(column.title), ...cells.map((line) => displayWidth(line[index] ?? ''))),
  );
  shrink(columns, widths, style.columns);
  const line = (texts: string[], tones: Tone[]) =>
    columns
      .map((column, index) => {
        const width = widths[index] ?? 0;
        const text = cut(texts[index] ?? '', width);
        const blank = ' '.repeat(Math.max(0, width - displayWidth(text)));
        const painted = paint(text, tones[index] ?? 'plain', style.colour);
        return column.align === 'right' ? blank + painted : painted + blank;
      })
      .join(gap)
      .trimEnd();
  return [
    line(
      columns.map((column) => column.title),
      columns.map(() => 'strong'),
    ),
    ...rows.map((row, index) =>
      line(
        cells[index] ?? [],
        columns.map((column) => column.tone?.(row) ?? 'plain'),
      ),
    ),
  ];
}

/** Takes from the widest flexible column first until the table fits. */
function shrink<Row>(columns: Column<Row>[], widths: number[], limit: number): void {
  const total = () => widths.reduce((sum, width) => sum + width, 0) + gap.length * (widths.length - 1);
  for (;;) {
    const over = total() - limit;
    if (over <= 0) return;
    let widest = -1;
    columns.forEach((column, index) => {
      const width = widths[index] ?? 0;
      if (column.flexible === true && width > leastFlexible && (widest < 0 || width > (widths[widest] ?? 0))) {
        widest = index;
      }
    });
    if (widest < 0) return;
    widths[widest] = Math.max(leastFlexible, (widths[widest] ?? 0) - Math.min(over, 4));
  }
}

/** At most that many columns, the last one an ellipsis when something was cut. */
export function cut(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  let kept = '';
  let used = 0;
  for (const character of text) {
    const next = displayWidth(character);
    if (used + next > width - 1) break;
    kept += character;
    used += next;
  }
  return `${kept}…`;
}

/** Columns on a terminal: East Asian wide characters and emoji take two, combining marks none. */
export function displayWidth(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length;
  let width = 0;
  for (const character of text) {
    if (/\p{M}|\u200d/u.test(character)) continue;
    width += /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}|[\u{20000}-\u{3fffd}]/u.test(
      character,
    )
      ? 2
      : 1;
  }
  return width;
}
