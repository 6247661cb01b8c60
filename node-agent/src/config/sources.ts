import { HearthError } from '@hearth/common';
import { isMap, isScalar, LineCounter, type Node, parseDocument } from 'yaml';
import { splitList } from './setting.ts';
import { type Setting, settings } from './settings.ts';

/** A value and its source: `line 3 of agent.yaml`, `variable HEARTH_NODE`, `flag --node`. */
export interface Given {
  value: unknown;
  origin: string;
}

/** Values by setting key. */
export type Layer = Map<string, Given>;

/** Variables that begin with HEARTH_ and are not settings: used by the command line, tests and Kubernetes. */
const otherVariables =
  /^HEARTH_(CONFIG|SOCKET|CACHE|PROBE|ENGINE|HOLDER_PROGRAM|TEST_\w+)$|_(SERVICE_HOST|SERVICE_PORT|PORT)(_\w+)?$/;

/** The settings of a YAML text. Throws `InvalidArgument` with the line of an unknown key. */
export function layerFromFile(text: string, path: string): Layer {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const at = (offset: number | undefined) => `line ${lines.linePos(offset ?? 0).line} of ${path}`;
  const failure = document.errors[0];
  if (failure !== undefined) {
    throw new HearthError('InvalidArgument', `${at(failure.pos[0])} is not YAML (${failure.message}); correct it`);
  }
  const layer: Layer = new Map();
  if (document.contents === null) return layer;
  const visit = (node: Node, path_: string): void => {
    if (!isMap(node)) {
      throw new HearthError(
        'InvalidArgument',
        `${at(node.range?.[0])}: ${path_ || 'the file'} must be a mapping of settings`,
      );
    }
    for (const { key, value } of node.items) {
      const name = isScalar(key) ? String(key.value) : '';
      const full = path_ === '' ? name : `${path_}.${name}`;
      const origin = at(isScalar(key) ? key.range?.[0] : undefined);
      const setting = settings.find((one) => one.key === full);
      if (setting?.secret === true) {
        throw new HearthError(
          'InvalidArgument',
          `${origin}: ${full} is not allowed in the configuration file; put it into a file of its own and set secretFile to that file`,
        );
      }
      if (setting !== undefined) {
        const plain = (value as Node | null)?.toJS(document) ?? null;
        if (plain === null) throw new HearthError('InvalidArgument', `${full} (${origin}) must be ${setting.allowed}`);
        layer.set(full, { value: plain, origin });
      } else if (settings.some((one) => one.key.startsWith(`${full}.`))) {
        if (value !== null && !(isScalar(value) && value.value === null)) visit(value as Node, full);
      } else {
        throw new HearthError('InvalidArgument', `${origin}: there is no setting ${full}${suggestion(full)}`);
      }
    }
  };
  visit(document.contents as Node, '');
  return layer;
}

/** Settings from HEARTH_* variables, and a warning for each unknown one. Empty variables count as unset. */
export function layerFromEnvironment(environment: Record<string, string | undefined>): {
  layer: Layer;
  warnings: string[];
} {
  const layer: Layer = new Map();
  const warnings: string[] = [];
  for (const [name, text] of Object.entries(environment)) {
    if (!name.startsWith('HEARTH_') || text === undefined || text === '') continue;
    const setting = settings.find((one) => one.variable === name);
    if (setting !== undefined) layer.set(setting.key, { value: fromText(setting, text), origin: `variable ${name}` });
    else if (!otherVariables.test(name)) warnings.push(`the variable ${name} is not a setting and has no effect`);
  }
  return { layer, warnings };
}

/** Settings from parsed flags, by flag name without dashes. Repeated flags are lists. */
export function layerFromFlags(flags: Record<string, string | string[] | boolean | undefined>): Layer {
  const layer: Layer = new Map();
  for (const [flag, value] of Object.entries(flags)) {
    if (value === undefined) continue;
    const setting = settings.find((one) => one.flag === flag);
    if (setting === undefined)
      throw new HearthError('InvalidArgument', `there is no flag --${flag}; see hearth agent --help`);
    const given = Array.isArray(value)
      ? joined(setting, value)
      : typeof value === 'string'
        ? fromText(setting, value)
        : value;
    layer.set(setting.key, { value: given, origin: `flag --${flag}` });
  }
  return layer;
}

function fromText(setting: Setting, text: string): unknown {
  return setting.form === 'list' ? splitList(text) : text;
}

function joined(setting: Setting, values: string[]): unknown {
  if (setting.form === 'list') return values.flatMap(splitList);
  return setting.form === 'map' ? values.join(',') : values.at(-1);
}

function suggestion(key: string): string {
  const last = key.split('.').at(-1)?.toLowerCase();
  const near = settings.find((one) => one.secret !== true && one.key.toLowerCase().split('.').at(-1) === last);
  return near === undefined ? '; docs/configuration.md lists them' : `; did you mean ${near.key}?`;
}
