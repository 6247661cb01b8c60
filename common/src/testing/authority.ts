import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Paths of a certificate, its key and the authority that signed it, as PEM files. */
export interface KeyPair {
  certificate: string;
  key: string;
  authorities: string;
}

export interface Subject {
  commonName?: string;
  /** Kubernetes maps organizations to groups. */
  organizations?: readonly string[];
  /** DNS names and addresses. */
  names?: readonly string[];
  /** Expired long ago. */
  expired?: boolean;
  /** Base name of the files; default: a number. */
  file?: string;
}

/** A certificate authority for tests: ECDSA P-256 keys on disk, made by openssl; certificates are valid for a year. */
export class Authority {
  readonly folder: string;
  readonly certificate: string;
  #count = 0;

  private constructor(folder: string) {
    this.folder = folder;
    this.certificate = join(folder, 'ca.crt');
  }

  /** Opens an authority whose files `create` left in a folder. */
  static open(folder: string): Authority {
    return new Authority(folder);
  }

  /** Creates an authority in the given folder, or in a temporary folder that `remove` deletes. */
  static create({ folder = mkdtempSync(join(tmpdir(), 'hearth-ca-')), name = 'a test' } = {}): Authority {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const authority = new Authority(folder);
    authority.#makeKey('ca.key');
    const extensions = ['basicConstraints=critical,CA:TRUE', 'keyUsage=critical,keyCertSign,cRLSign,digitalSignature'];
    authority.#openssl([
      ...['req', '-x509', '-new', '-key', 'ca.key', '-subj', `/CN=${name}`, '-days', '365'],
      ...extensions.flatMap((extension) => ['-addext', extension]),
      ...['-out', 'ca.crt'],
    ]);
    return authority;
  }

  /** Issues a server and client certificate as FOLDER/FILE.crt and .key. */
  issue({ commonName = 'hearth', organizations = [], names = [], expired = false, file }: Subject): KeyPair {
    const id = file ?? `${++this.#count}`;
    this.#makeKey(`${id}.key`);
    const subject = [...organizations.map((group) => `/O=${group}`), `/CN=${commonName}`].join('');
    const alternatives = names.map((name) => `${isIP(name) === 0 ? 'DNS' : 'IP'}:${name}`).join();
    const lines = [
      'keyUsage=critical,digitalSignature',
      'extendedKeyUsage=serverAuth,clientAuth',
      ...(names.length > 0 ? [`subjectAltName=${alternatives}`] : []),
    ];
    writeFileSync(join(this.folder, `${id}.ext`), `${lines.join('\n')}\n`);
    this.#openssl(['req', '-new', '-key', `${id}.key`, '-subj', subject, '-out', `${id}.csr`]);
    const files = ['-in', `${id}.csr`, '-out', `${id}.crt`, '-extfile', `${id}.ext`];
    if (expired) this.#signExpired(files);
    // A random serial number avoids the serial file, over which concurrent issues would race.
    else
      this.#openssl([
        ...['x509', '-req', ...files, '-CA', 'ca.crt', '-CAkey', 'ca.key', '-days', '365'],
        ...['-set_serial', `0x01${randomBytes(15).toString('hex')}`],
      ]);
    const at = (name: string) => join(this.folder, name);
    return { certificate: at(`${id}.crt`), key: at(`${id}.key`), authorities: this.certificate };
  }

  /** A key pair that signs service account tokens. */
  serviceAccountKeys(): { privateKey: string; publicKey: string } {
    this.#openssl([
      ...['genpkey', '-algorithm', 'RSA', '-pkeyopt', 'rsa_keygen_bits:2048', '-out', 'service-accounts.key'],
    ]);
    this.#openssl(['pkey', '-in', 'service-accounts.key', '-pubout', '-out', 'service-accounts.pub']);
    const at = (name: string) => join(this.folder, name);
    return { privateKey: at('service-accounts.key'), publicKey: at('service-accounts.pub') };
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Older versions of openssl take dates in `ca` only, not in `x509 -req`. */
  #signExpired(files: readonly string[]): void {
    mkdirSync(join(this.folder, 'db'), { recursive: true });
    writeFileSync(join(this.folder, 'db', 'index.txt'), '');
    writeFileSync(
      join(this.folder, 'ca.cnf'),
      '[ca]\ndefault_ca=d\n[d]\ndatabase=db/index.txt\nnew_certs_dir=db\nrand_serial=yes\ndefault_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n',
    );
    const dates = ['-startdate', '20200101000000Z', '-enddate', '20200102000000Z'];
    const signer = ['-cert', 'ca.crt', '-keyfile', 'ca.key'];
    this.#openssl(['ca', '-batch', '-notext', '-config', 'ca.cnf', ...signer, ...dates, ...files]);
  }

  #makeKey(name: string): void {
    this.#openssl(['ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', name]);
  }

  #openssl(words: readonly string[]): void {
    try {
      execFileSync('openssl', words, { cwd: this.folder, stdio: 'pipe', timeout: 300_000 });
    } catch (error) {
      throw new Error(`openssl ${words[0]} failed: ${(error as { stderr?: Buffer }).stderr || error}`);
    }
  }
}
