import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Paths of a certificate, its key and the authority that signed it, as a Secret has them. */
export interface IssuedFiles {
  folder: string;
  certificate: string;
  key: string;
  authorities: string;
}

export interface Wish {
  /** DNS names; IP addresses are recognised. */
  names: string[];
  /** Over since long ago. */
  expired?: boolean;
}

/** A certificate authority of a test, by openssl: files as they are mounted from a Secret. */
export class TestAuthority {
  readonly folder = mkdtempSync(join(tmpdir(), 'hearth-ca-'));
  #count = 0;

  constructor(name = 'a test') {
    this.#key('ca.key');
    const about = ['-subj', `/CN=${name}`, '-addext', 'basicConstraints=critical,CA:TRUE'];
    this.#openssl(['req', '-x509', '-new', '-key', 'ca.key', '-out', 'ca.crt', '-days', '10', ...about]);
  }

  get file(): string {
    return join(this.folder, 'ca.crt');
  }

  /** A new certificate, in files of its own. */
  issue({ names, expired = false }: Wish): IssuedFiles {
    const id = `${++this.#count}`;
    this.#key(`${id}.key`);
    const alternatives = names.map((name) => `${/^[\d.]+$/.test(name) ? 'IP' : 'DNS'}:${name}`).join();
    writeFileSync(join(this.folder, `${id}.ext`), `subjectAltName=${alternatives}\n`);
    this.#openssl(['req', '-new', '-key', `${id}.key`, '-subj', '/CN=hearth', '-out', `${id}.csr`]);
    if (expired) this.#expired(id);
    else {
      const signer = ['-CA', 'ca.crt', '-CAkey', 'ca.key', '-CAcreateserial', '-extfile', `${id}.ext`, '-days', '1'];
      this.#openssl(['x509', '-req', '-in', `${id}.csr`, '-out', `${id}.crt`, ...signer]);
    }
    const at = (name: string) => join(this.folder, name);
    return { folder: this.folder, certificate: at(`${id}.crt`), key: at(`${id}.key`), authorities: this.file };
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** `x509 -req` of older versions of openssl knows no dates: `ca` does. */
  #expired(id: string): void {
    mkdirSync(join(this.folder, 'db'), { recursive: true });
    writeFileSync(join(this.folder, 'db', 'index.txt'), '');
    writeFileSync(
      join(this.folder, 'ca.cnf'),
      '[ca]\ndefault_ca=d\n[d]\ndatabase=db/index.txt\nnew_certs_dir=db\nrand_serial=yes\ndefault_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n',
    );
    const dates = ['-startdate', '20200101000000Z', '-enddate', '20200102000000Z'];
    const files = ['-in', `${id}.csr`, '-out', `${id}.crt`, '-cert', 'ca.crt', '-keyfile', 'ca.key'];
    this.#openssl(['ca', '-batch', '-notext', '-config', 'ca.cnf', '-extfile', `${id}.ext`, ...dates, ...files]);
  }

  #key(name: string): void {
    this.#openssl(['ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', name]);
  }

  #openssl(words: string[]): void {
    execFileSync('openssl', words, { cwd: this.folder, stdio: 'pipe', timeout: 300_000 });
  }
}

/** A folder that changes as the kubelet changes that of a Secret: by one rename of the symlink `..data`. */
export class SecretFolder {
  readonly path: string;
  #count = 0;

  constructor(path: string, files: Record<string, string | Buffer>) {
    this.path = path;
    mkdirSync(path, { recursive: true });
    this.write(files);
    for (const name of Object.keys(files)) symlinkSync(join('..data', name), join(path, name));
  }

  write(files: Record<string, string | Buffer>): void {
    const version = `..version-${++this.#count}`;
    mkdirSync(join(this.path, version));
    for (const [name, contents] of Object.entries(files)) writeFileSync(join(this.path, version, name), contents);
    symlinkSync(version, join(this.path, '..data_tmp'));
    renameSync(join(this.path, '..data_tmp'), join(this.path, '..data'));
    if (this.#count > 1) rmSync(join(this.path, `..version-${this.#count - 1}`), { recursive: true });
  }
}
