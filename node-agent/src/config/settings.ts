import { z } from 'zod';
import { configSchema } from './schema.ts';
import { type SettingNotes, settingNotes } from './setting.ts';

/** One leaf of the schema with its three spellings. */
export interface Setting extends SettingNotes {
  /** Key in the file, with dots: `control.socket`. */
  key: string;
  /** `HEARTH_CONTROL_SOCKET`. */
  variable: string;
  /** `control-socket`; absent for secrets, which other users of the machine could read in the process list. */
  flag?: string;
}

/** All settings in the order of the schema. */
export const settings: readonly Setting[] = collect(configSchema, []);

function collect(schema: z.ZodObject, path: string[]): Setting[] {
  return Object.entries(schema.shape).flatMap(([name, child]) => {
    const here = [...path, name];
    const notes = settingNotes.get(child as z.ZodType);
    if (notes !== undefined) return [named(here, notes)];
    const inner = child instanceof z.ZodPrefault ? child.unwrap() : child;
    if (!(inner instanceof z.ZodObject)) throw new TypeError(`the setting ${here.join('.')} has no notes`);
    return collect(inner, here);
  });
}

function named(path: string[], notes: SettingNotes): Setting {
  const words = path.flatMap((part) => part.split(/(?=[A-Z])/)).map((word) => word.toLowerCase());
  const variable = `HEARTH_${words.join('_').toUpperCase()}`;
  const base = { ...notes, key: path.join('.'), variable };
  return notes.secret === true ? base : { ...base, flag: words.join('-') };
}
