import { HearthError } from '@hearth/common';

/** Address of an etcd cluster and the agent's credentials for it, parsed from `etcd://`. */
export interface EtcdAddress {
  /** `host:port` of the members, in order of preference. */
  readonly endpoints: readonly string[];
  /** First part of all keys, so that several clusters may share an etcd. */
  readonly space: string;
  /** Undefined: plain text. */
  readonly tls: EtcdTls | undefined;
  readonly user: string | undefined;
  /** File with the user's password. */
  readonly passwordFile: string | undefined;
}

/** PEM files. */
export interface EtcdTls {
  /** CA of the members' certificates; undefined: the system's. */
  readonly ca: string | undefined;
  readonly cert: string | undefined;
  readonly key: string | undefined;
  /** Expected name in the members' certificates, when it differs from the endpoint. */
  readonly serverName: string | undefined;
}

const defaultPort = 2379;
const defaultSpace = 'hearth';
const form =
  'The form is etcd://HOST:PORT,HOST:PORT[/SPACE][?tls=true&ca=FILE&cert=FILE&key=FILE&serverName=NAME&user=NAME&passwordFile=FILE].';
const parameterNames = ['tls', 'ca', 'cert', 'key', 'serverName', 'user', 'passwordFile'] as const;

function refuse(sentence: string): never {
  throw new HearthError('InvalidArgument', `The store's address: ${sentence} ${form}`);
}

/** Throws `InvalidArgument` with the invalid part, without repeating user information or parameter values. */
export function parseEtcdAddress(text: string): EtcdAddress {
  const [, hosts = '', path = '', query = ''] = /^etcd:\/\/([^/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/.exec(text) ?? [];
  if (hosts.includes('@')) refuse('it holds a user or password; use user= and passwordFile=.');
  if (hosts === '') refuse('it names no host.');
  const space = path === '' ? defaultSpace : path;
  if (!/^[A-Za-z0-9._-]+$/.test(space)) refuse('SPACE may have letters, digits, dots, underscores and hyphens only.');

  const given = new URLSearchParams(query);
  for (const name of given.keys()) {
    if (!parameterNames.some((known) => known === name)) refuse(`it has the unknown parameter '${name}'.`);
    if (given.getAll(name).length > 1) refuse(`it has the parameter '${name}' more than once.`);
    if (given.get(name) === '') refuse(`its parameter '${name}' is empty.`);
  }
  const value = (name: (typeof parameterNames)[number]): string | undefined => given.get(name) ?? undefined;
  const [ca, cert, key, serverName] = [value('ca'), value('cert'), value('key'), value('serverName')];
  const [user, passwordFile, wantsTls] = [value('user'), value('passwordFile'), value('tls')];
  if ((cert === undefined) !== (key === undefined)) refuse('cert and key must be given together.');
  if ((user === undefined) !== (passwordFile === undefined)) refuse('user and passwordFile must be given together.');
  if (wantsTls !== undefined && wantsTls !== 'true' && wantsTls !== 'false') refuse('tls is either true or false.');
  const hasTls = wantsTls === 'true' || ca !== undefined || cert !== undefined || serverName !== undefined;
  if (hasTls && wantsTls === 'false') refuse('tls=false contradicts ca, cert, key or serverName.');
  return {
    endpoints: hosts.split(',').map(parseEndpoint),
    space,
    tls: hasTls ? { ca, cert, key, serverName } : undefined,
    user,
    passwordFile,
  };
}

/**
 * The address with these files instead of its own. Throws `InvalidArgument` when a certificate lacks its key or vice
 * versa.
 */
export function withTls(address: EtcdAddress, given: Partial<EtcdTls>): EtcdAddress {
  if (Object.values(given).every((value) => value === undefined)) return address;
  const own = address.tls;
  const tls = {
    ca: given.ca ?? own?.ca,
    cert: given.cert ?? own?.cert,
    key: given.key ?? own?.key,
    serverName: given.serverName ?? own?.serverName,
  };
  if ((tls.cert === undefined) !== (tls.key === undefined)) refuse('a certificate and its key must be given together.');
  return { ...address, tls };
}

function parseEndpoint(text: string): string {
  const [, host, port = String(defaultPort)] = /^(\[[0-9A-Fa-f:.]+\]|[^:[\]]+)(?::([0-9]+))?$/.exec(text) ?? [];
  if (host === undefined) refuse(`'${text}' is not HOST or HOST:PORT (IPv6 addresses in square brackets).`);
  if (Number(port) < 1 || Number(port) > 65535) refuse(`'${text}' has a port that is not between 1 and 65535.`);
  return `${host}:${Number(port)}`;
}
