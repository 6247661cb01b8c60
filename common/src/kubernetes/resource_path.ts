import { HearthError } from '../error.ts';
import type { KubernetesObject, ResourceType } from './object.ts';

export interface ResourcePlace {
  namespace?: string | undefined;
  name?: string | undefined;
  subresource?: string | undefined;
}

/** API path, with query, of all objects of a type (in one or all namespaces), of one object or of its subresource. */
export function resourcePath<T extends KubernetesObject>(
  type: ResourceType<T>,
  { namespace, name, subresource }: ResourcePlace,
  query: Record<string, string | number | boolean | undefined> = {},
): string {
  if (type.namespaced && name !== undefined && !namespace) {
    throw new HearthError('InvalidArgument', `A ${type.kind} needs a namespace, and '${name}' has none`);
  }
  if (name === '') throw new HearthError('InvalidArgument', `The name of a ${type.kind} is empty`);
  const segments = type.group === '' ? ['api', type.version] : ['apis', type.group, type.version];
  if (type.namespaced && namespace) segments.push('namespaces', namespace);
  segments.push(type.plural);
  if (name !== undefined) segments.push(name);
  if (subresource !== undefined) segments.push(subresource);
  const parameters = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== undefined) parameters.set(key, String(value));
  }
  const search = parameters.size === 0 ? '' : `?${parameters}`;
  return `/${segments.map(encodeURIComponent).join('/')}${search}`;
}

/** For messages: `Pod default/web`. */
export function describeResource<T extends KubernetesObject>(type: ResourceType<T>, place: ResourcePlace): string {
  const { namespace, name, subresource } = place;
  const where = [type.namespaced ? namespace : undefined, name].filter(Boolean).join('/');
  return [subresource === undefined ? type.kind : `${subresource} of ${type.kind}`, where].filter(Boolean).join(' ');
}
