import { readFileSync, writeFileSync } from 'node:fs';
import { KubeConfig } from '@kubernetes/client-node';
import { KubernetesApi, type KubernetesApiOptions } from '../../kubernetes/index.ts';
import type { KeyPair } from '../authority.ts';

/** Writes a kubeconfig with embedded credentials, usable from any folder. Returns its path. */
export function writeKubeconfig(path: string, server: string, client: KeyPair): string {
  const encode = (file: string) => readFileSync(file).toString('base64');
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'test', cluster: { server, 'certificate-authority-data': encode(client.authorities) } }],
    users: [
      {
        name: 'test',
        user: {
          'client-certificate-data': encode(client.certificate),
          'client-key-data': encode(client.key),
        },
      },
    ],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
    'current-context': 'test',
  };
  writeFileSync(path, `${JSON.stringify(config, null, 2)}\n`, { mode: 0o600 });
  return path;
}

/** An API client with the identity of a kubeconfig. */
export function apiOf(kubeconfig: string, options?: KubernetesApiOptions): KubernetesApi {
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  return KubernetesApi.fromKubeConfig(config, options);
}
