import { healthPort } from '@hearth/common';
import { kinds, type Service } from '@hearth/common/kubernetes';
import {
  agentServiceName,
  type Component,
  etcdMemberName,
  etcdPeersName,
  etcdServiceName,
  labelsOf,
  selectorOf,
} from '../names.ts';
import { type BuildInput, type DesiredObject, desiredObject } from './desired_object.ts';

const port = (name: string, number: number) => ({ name, port: number, targetPort: name, protocol: 'TCP' });
const memberPorts = [port('client', 2379), port('peer', 2380)];
/** DNS resolves to all pods, ready or not. */
const headless = { clusterIP: 'None', publishNotReadyAddresses: true };

/** For collectors of metrics; agents find one another in the store. */
export function agentService(input: BuildInput): DesiredObject<Service> {
  return service(input, agentServiceName, 'agent', { ...headless, ports: [port('health', healthPort)] });
}

export function etcdService(input: BuildInput): DesiredObject<Service> {
  return service(input, etcdServiceName, 'etcd', { type: 'ClusterIP', ports: [port('client', 2379)] });
}

/** The stable address of one member for other members, before it is ready, too. */
export function etcdMember(input: BuildInput, index: number): DesiredObject<Service> {
  const name = (cluster: string) => etcdMemberName(cluster, index);
  const spec = { type: 'ClusterIP', publishNotReadyAddresses: true, ports: memberPorts };
  return service(input, name, 'etcd', spec, {
    'statefulset.kubernetes.io/pod-name': name(input.cluster.metadata.name),
  });
}

/** DNS names for the pods of the StatefulSet. Members do not depend on them: see `etcdMember`. */
export function etcdPeers(input: BuildInput): DesiredObject<Service> {
  return service(input, etcdPeersName, 'etcd', { ...headless, ports: memberPorts });
}

function service(
  input: BuildInput,
  nameOf: (cluster: string) => string,
  component: Component,
  spec: Service['spec'],
  selector: Record<string, string> = {},
): DesiredObject<Service> {
  const { name } = input.cluster.metadata;
  return desiredObject(input, kinds.Service, nameOf(name), labelsOf(name, component), {
    spec: { ...spec, selector: { ...selectorOf(name, component), ...selector } },
  });
}
