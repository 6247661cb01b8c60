import type { Source } from '@hearth/common/generated/hearth/v1/control.ts';
import type { ProxyOptions } from '@hearth/engine';
import { checkEndpoint } from './source.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

const publicHub = 'https://huggingface.co';

/**
 * Fills in what a source leaves open: S3 endpoint (`AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`) and region (`AWS_REGION`,
 * `AWS_DEFAULT_REGION`), hub endpoint (`HF_ENDPOINT`). Call before registering a dataset, so that all agents read the
 * same place.
 */
export function withEnvironment(source: Source, environment: Environment): Source {
  const kind = source.kind;
  if (kind?.$case === 's3') {
    const found = environment.AWS_ENDPOINT_URL_S3 || environment.AWS_ENDPOINT_URL || '';
    const endpoint = kind.value.endpoint || found;
    const region = kind.value.region || environment.AWS_REGION || environment.AWS_DEFAULT_REGION || '';
    // An endpoint from the environment is a compatible server, like one in the source.
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

/** `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`; lower-case spellings take precedence. */
export function proxiesOf(environment: Environment): ProxyOptions {
  const of = (name: string) => environment[name.toLowerCase()] || environment[name] || '';
  return { http: of('HTTP_PROXY'), https: of('HTTPS_PROXY'), none: of('NO_PROXY') };
}

/**
 * `HF_TOKEN`, only for the hub that the environment names: a source may name any endpoint, which must not receive the
 * agent's own token.
 */
export function hubToken(endpoint: string, environment: Environment): string | undefined {
  const own = checkEndpoint(environment.HF_ENDPOINT || publicHub);
  return endpoint === own && environment.HF_TOKEN ? environment.HF_TOKEN : undefined;
}
