import { healthPort } from '@hearth/common';
import { kinds, type Service } from '@hearth/common/kubernetes';
import { agentServiceName, etcdMemberName, etcdPeersName, etcdServiceName, labelsOf, selectorOf } from '../names.ts';
import { type BuildInput, type DesiredObject, desiredObject } from './desired_object.ts';

const memberPorts = [
  { name: 'client', port: 2379, targetPort: 'client', protocol: 'TCP' },
  { name: 'peer', port: 2380, targetPort: 'peer', protocol: 'TCP' },
];

/** Names every agent's metrics for whoever collects them; agents find one another by the store. */
export function agentService(input: BuildInput): DesiredObject<Service> {
  const { name } = input.cluster.metadata;
  return desiredObject(input, kinds.Service, agentServiceName(name), labelsOf(name, 'agent'), {
    spec: {
      clusterIP: 'None',
      selector: selectorOf(name, 'agent'),
      publishNotReadyAddresses: true,
      ports: [{ name: 'health', port: healthPort, targetPort: 'health', protocol: 'TCP' }],
    },
  });
}

/** The one address by which agents reach the store. */
export function etcdService(input: BuildInput): DesiredObject<Service> {
  const { name } = input.cluster.metadata;
  return desiredObject(input, kinds.Service, etcdServiceName(name), labelsOf(name, 'etcd'), {
    spec: {
      type: 'ClusterIP',
      selector: selectorOf(name, 'etcd'),
      ports: [{ name: 'client', port: 2379, targetPort: 'client', protocol: 'TCP' }],
    },
  });
}

/** The address of one of several members for the others, whatever pod it is and before it is ready. */
export function etcdMember(input: BuildInput, index: number): DesiredObject<Service> {
  const { name } = input.cluster.metadata;
  const member = etcdMemberName(name, index);
  return desiredObject(input, kinds.Service, member, labelsOf(name, 'etcd'), {
    spec: {
      type: 'ClusterIP',
      selector: { ...selectorOf(name, 'etcd'), 'statefulset.kubernetes.io/pod-name': member },
      publishNotReadyAddresses: true,
      ports: memberPorts,
    },
  });
}

/** Gives the pods of the StatefulSet names in DNS. Members find one another without: see `etcdMember`. */
export function etcdPeers(input: BuildInput): DesiredObject<Service> {
  const { name } = input.cluster.metadata;
  return desiredObject(input, kinds.Service, etcdPeersName(name), labelsOf(name, 'etcd'), {
    spec: {
      clusterIP: 'None',
      selector: selectorOf(name, 'etcd'),
      publishNotReadyAddresses: true,
      ports: memberPorts,
    },
  });
}
