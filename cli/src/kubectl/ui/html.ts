/** Text that is already markup. */
export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Part = string | number | Markup | readonly Markup[];

/** A template that escapes its values, except markup. */
export function html(texts: TemplateStringsArray, ...parts: Part[]): Markup {
  return new Markup(String.raw({ raw: texts }, ...parts.map(textOf)));
}

function textOf(part: Part): string {
  if (part instanceof Markup) return part.text;
  if (Array.isArray(part)) return part.map((one: Markup) => one.text).join('');
  return String(part).replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
