import { paint, printable, type Tone } from './paint.ts';

export interface Column<Row> {
  title: string;
  value: (row: Row) => string;
  align?: 'left' | 'right';
  tone?: (row: Row) => Tone;
  /** The table may cut this column with an ellipsis to fit the terminal. */
  flexible?: boolean;
  /** Left out when no row has a value. */
  omitEmpty?: boolean;
  /** The table may drop this column to fit the terminal, higher numbers first. */
  dispensable?: number;
}

export interface TableStyle {
  columns: number;
  colour: boolean;
}

const gap = '  ';
const minFlexible = 8;

/** Aligned lines without line ends; the first line is the heading. */
export function renderTable<Row>(columns: Column<Row>[], rows: Row[], style: TableStyle): string[] {
  const measured = columns.map((column) => measure(column, rows));
  const shown = fit(
    measured.filter((one) => one.column.omitEmpty !== true || one.cells.some((cell) => cell !== '')),
    style.columns,
  );
  const line = (texts: (one: Measured<Row>) => string, tones: (one: Measured<Row>) => Tone) =>
    shown
      .map((one) => {
        const text = cut(texts(one), one.width);
        const blank = ' '.repeat(Math.max(0, one.width - displayWidth(text)));
        const painted = paint(text, tones(one), style.colour);
        return one.column.align === 'right' ? blank + painted : painted + blank;
      })
      .join(gap)
      .trimEnd();
  return [
    line(
      (one) => one.column.title,
      () => 'strong',
    ),
    ...rows.map((row, index) =>
      line(
        (one) => one.cells[index] ?? '',
        (one) => one.column.tone?.(row) ?? 'plain',
      ),
    ),
  ];
}

interface Measured<Row> {
  column: Column<Row>;
  cells: string[];
  width: number;
}

function measure<Row>(column: Column<Row>, rows: Row[]): Measured<Row> {
  const cells = rows.map((row) => printable(column.value(row)));
  const width = cells.reduce((most, cell) => Math.max(most, displayWidth(cell)), displayWidth(column.title));
  return { column, cells, width };
}

/** Cuts flexible columns first, then drops dispensable ones; a table that is still too wide wraps. */
function fit<Row>(columns: Measured<Row>[], limit: number): Measured<Row>[] {
  const over = () => columns.reduce((sum, one) => sum + one.width + gap.length, -gap.length) - limit;
  for (;;) {
    const excess = over();
    if (excess <= 0) return columns;
    const flexible = columns.filter((one) => one.column.flexible === true && one.width > minFlexible);
    const widest = flexible.sort((one, other) => other.width - one.width)[0];
    if (widest !== undefined) {
      widest.width = Math.max(minFlexible, widest.width - Math.min(excess, 4));
      continue;
    }
    const ranks = columns.map((one) => one.column.dispensable ?? 0);
    const highest = Math.max(0, ...ranks);
    if (highest === 0) return columns;
    columns = columns.filter((_, index) => ranks[index] !== highest);
  }
}

/** Limits the text to this many columns, ending in an ellipsis when cut. */
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

/** Terminal columns: East Asian wide characters and emoji take two, combining marks none. */
export function displayWidth(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length;
  let width = 0;
  for (const character of text) {
    if (/\p{M}|\u200d/u.test(character)) continue;
    width +=
      /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}|[\u{20000}-\u{3fffd}]/u.test(
        character,
      )
        ? 2
        : 1;
  }
  return width;
}
