import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

/**
 * Volumes (HOST:CONTAINER:OPTIONS) by which the RUN steps of an image reach the registries of packages as this machine does.
 * `folder` keeps a file for them.
 */
export const buildSettings = (folder: string): string[] => [...aptSettings(), ...npmSettings(folder)];

/** Where this machine gets Debian packages from. */
function aptSettings(): string[] {
  return ['/etc/apt/sources.list.d', '/etc/apt/apt.conf.d'].filter(existsSync).map((path) => `${path}:${path}:ro`);
}

/** How this machine reaches the npm registry, with the certificates that it trusts for it. */
function npmSettings(folder: string): string[] {
  const certificates = '/etc/ssl/certs/ca-certificates.crt';
  if (!existsSync(certificates)) return [];
  const own = join(homedir(), '.npmrc');
  const lines = existsSync(own) ? readFileSync(own, 'utf8').split('\n') : [];
  const settings = [...lines.filter((line) => !line.startsWith('cafile=')), 'cafile=/run/build-certificates.crt'];
  const file = join(folder, 'npmrc');
  writeFileSync(file, settings.join('\n'), { mode: 0o600 });
  return [`${file}:/root/.npmrc:ro`, `${certificates}:/run/build-certificates.crt:ro`];
}
