import type { Source } from '@hearth/common/generated/hearth/v1/control.ts';
import type { ProxyOptions } from '@hearth/engine';
import { checkEndpoint } from './source.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

const publicHub = 'https://huggingface.co';

/**
 * The source with what it leaves open filled in: the endpoint of S3 (`AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`)
 * and its region (`AWS_REGION`, `AWS_DEFAULT_REGION`), the endpoint of the hub (`HF_ENDPOINT`). Whoever
 * registers a dataset does this first, so that all agents read the same place.
 */
export function withEnvironment(source: Source, environment: Environment): Source {
  const kind = source.kind;
  if (kind?.$case === 's3') {
    const found = environment.AWS_ENDPOINT_URL_S3 || environment.AWS_ENDPOINT_URL || '';
    const endpoint = kind.value.endpoint || found;
    const region = kind.value.region || environment.AWS_REGION || environment.AWS_DEFAULT_REGION || '';
    // An endpoint that comes from the environment is a compatible server, as one in the source is.
    const pathStyle = kind.value.pathStyle || (kind.value.endpoint === '' && found !== '');
    const checked = endpoint === '' ? '' : checkEndpoint(endpoint);
    return { ...source, kind: { $case: 's3', value: { ...kind.value, endpoint: checked, region, pathStyle } } };
  }
  if (kind?.$case === 'hub') {
    const endpoint = checkEndpoint(kind.value.endpoint || environment.HF_ENDPOINT || publicHub);
    return { ...source, kind: { $case: 'hub', value: { ...kind.value, endpoint } } };
  }
  return source;
}

/** `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, of which the spelling in lower case is the first. */
export function proxiesOf(environment: Environment): ProxyOptions {
  const of = (name: string) => environment[name.toLowerCase()] || environment[name] || '';
  return { http: of('HTTP_PROXY'), https: of('HTTPS_PROXY'), none: of('NO_PROXY') };
}

/**
 * `HF_TOKEN`, for the hub that the environment itself means only: a source may name any endpoint, and
 * must not make us send the agent's own token there.
 */
export function hubToken(endpoint: string, environment: Environment): string | undefined {
  const own = checkEndpoint(environment.HF_ENDPOINT || publicHub);
  return endpoint === own && environment.HF_TOKEN ? environment.HF_TOKEN : undefined;
}
