import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

const execute = promisify(execFile);

export interface KeyPair {
  /** Paths of PEM files. */
  certificate: string;
  key: string;
}

export interface Subject {
  commonName: string;
  /** Kubernetes reads organizations as groups. */
  organizations?: string[];
  /** Subject alternative names, as in `IP:10.0.0.1` and `DNS:localhost`. */
  names?: string[];
}

/** A certificate authority in a folder, for tests only: keys on disk, ECDSA P-256, valid for a year, by openssl. */
export class Authority {
  readonly folder: string;
  readonly certificate: string;
  readonly #key: string;

  private constructor(folder: string) {
    this.folder = folder;
    this.certificate = join(folder, 'ca.crt');
    this.#key = join(folder, 'ca.key');
  }

  /** The authority whose files `create` left in a folder. */
  static open(folder: string): Authority {
    return new Authority(folder);
  }

  static async create(folder: string): Promise<Authority> {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const authority = new Authority(folder);
    await openssl(['ecparam', '-genkey', '-name', 'prime256v1', '-noout', '-out', authority.#key]);
    const extensions = ['basicConstraints=critical,CA:TRUE', 'keyUsage=critical,keyCertSign,cRLSign,digitalSignature'];
    await openssl([
      ...['req', '-x509', '-new', '-key', authority.#key, '-subj', '/CN=test-ca', '-days', '365'],
      ...extensions.flatMap((extension) => ['-addext', extension]),
      ...['-out', authority.certificate],
    ]);
    return authority;
  }

  /** For servers and clients alike; the files are FOLDER/NAME.crt and .key. */
  async issue(name: string, subject: Subject): Promise<KeyPair> {
    const pair = { certificate: join(this.folder, `${name}.crt`), key: join(this.folder, `${name}.key`) };
    const request = join(this.folder, `${name}.csr`);
    const extensions = join(this.folder, `${name}.ext`);
    const names = [...(subject.organizations ?? []).map((group) => `/O=${group}`), `/CN=${subject.commonName}`];
    const lines = ['keyUsage=critical,digitalSignature', 'extendedKeyUsage=serverAuth,clientAuth'];
    if (subject.names?.length) lines.push(`subjectAltName=${subject.names.join(',')}`);
    writeFileSync(extensions, `${lines.join('\n')}\n`);
    await openssl(['ecparam', '-genkey', '-name', 'prime256v1', '-noout', '-out', pair.key]);
    await openssl(['req', '-new', '-key', pair.key, '-subj', names.join(''), '-out', request]);
    await openssl([
      ...['x509', '-req', '-in', request, '-CA', this.certificate, '-CAkey', this.#key],
      // Its own numbering keeps a file that certificates issued at the same time would fight for.
      ...[
        '-set_serial',
        `0x01${randomBytes(15).toString('hex')}`,
        '-days',
        '365',
        '-extfile',
        extensions,
        '-out',
        pair.certificate,
      ],
    ]);
    return pair;
  }

  /** A key pair for signing service account tokens. */
  async serviceAccountKeys(): Promise<{ privateKey: string; publicKey: string }> {
    const privateKey = join(this.folder, 'service-accounts.key');
    const publicKey = join(this.folder, 'service-accounts.pub');
    await openssl(['genpkey', '-algorithm', 'RSA', '-pkeyopt', 'rsa_keygen_bits:2048', '-out', privateKey]);
    await openssl(['pkey', '-in', privateKey, '-pubout', '-out', publicKey]);
    return { privateKey, publicKey };
  }
}

/** Writes a kubeconfig that holds its credentials itself, so that it works from anywhere. Returns its path. */
export function writeKubeconfig(path: string, server: string, authority: Authority, client: KeyPair): string {
  const encode = (file: string) => readFileSync(file).toString('base64');
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'test', cluster: { server, 'certificate-authority-data': encode(authority.certificate) } }],
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

async function openssl(args: string[]): Promise<void> {
  try {
    await execute('openssl', args);
  } catch (error) {
    throw new Error(`openssl ${args[0]} failed: ${(error as { stderr?: string }).stderr || error}`);
  }
}
