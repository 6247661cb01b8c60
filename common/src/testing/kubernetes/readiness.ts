import { readFileSync } from 'node:fs';
import { request } from 'node:https';
import type { KeyPair } from '../authority.ts';

/** True when `/readyz` of an API server answers 200 to this client; false also while nothing listens. */
export function apiServerReady(url: string, client: KeyPair): Promise<boolean> {
  return new Promise((resolve) => {
    const asked = request(
      `${url}/readyz`,
      {
        ca: readFileSync(client.authorities),
        cert: readFileSync(client.certificate),
        key: readFileSync(client.key),
        agent: false,
        timeout: 5000,
      },
      (response) => {
        response.resume();
        resolve(response.statusCode === 200);
      },
    );
    asked.once('timeout', () => asked.destroy());
    asked.once('error', () => resolve(false));
    asked.end();
  });
}
