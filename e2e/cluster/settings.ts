import { writeFileSync } from 'node:fs';

/** Writes a configuration as JSON, which every reader of YAML takes, and which has no surprises (`y`, `N`). */
export function writeSettings(path: string, settings: object): string {
  writeFileSync(path, `${JSON.stringify(settings, null, 2)}\n`, { mode: 0o600 });
  return path;
}
