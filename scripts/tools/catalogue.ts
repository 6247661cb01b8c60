import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Programs that come from one Go module, whose version (and that of all it needs) is in `folder`/go.mod and go.sum. */
export interface Module {
  /** Folder beside this file; also the first part of the cache folder's name. */
  folder: string;
  module: string;
  /** Program name -> package. */
  programs: Record<string, string>;
  /** Needs a C compiler and libraries (`packages` of scripts/setup.sh). */
  cgo?: boolean;
  tags?: string;
  /** Benchmarks or releases alone start it: tests do without. */
  notForTests?: true;
  /** Variables set at link time, for programs that do not take their version from the module. */
  variables?: (version: string) => Record<string, string>;
}

const kubernetes = (...names: string[]): Record<string, string> =>
  Object.fromEntries(names.map((name) => [name, `k8s.io/kubernetes/cmd/${name}`]));

function kubernetesVersion(version: string): Record<string, string> {
  const [major = '', minor = ''] = version.replace(/^v/, '').split('.');
  const values = { gitVersion: version, gitMajor: major, gitMinor: minor, gitTreeState: 'clean' };
  return Object.fromEntries(
    ['k8s.io/component-base/version', 'k8s.io/client-go/pkg/version'].flatMap((path) =>
      Object.entries(values).map(([name, value]) => [`${path}.${name}`, value]),
    ),
  );
}

export const modules: Module[] = [
  {
    folder: 'kubernetes',
    module: 'k8s.io/kubernetes',
    programs: kubernetes(
      'kube-apiserver',
      'kubectl',
      'kube-controller-manager',
      'kube-scheduler',
      'kube-proxy',
      'kubelet',
    ),
    variables: kubernetesVersion,
  },
  {
    folder: 'containerd',
    module: 'github.com/containerd/containerd/v2',
    programs: Object.fromEntries(
      ['containerd', 'containerd-shim-runc-v2', 'ctr'].map((name) => [
        name,
        `github.com/containerd/containerd/v2/cmd/${name}`,
      ]),
    ),
    variables: (version) => ({ 'github.com/containerd/containerd/v2/version.Version': version }),
  },
  {
    folder: 'runc',
    module: 'github.com/opencontainers/runc',
    programs: { runc: 'github.com/opencontainers/runc' },
    cgo: true,
    tags: 'seccomp',
  },
  {
    folder: 'helm',
    module: 'helm.sh/helm/v4',
    programs: { helm: 'helm.sh/helm/v4/cmd/helm' },
    variables: (version) => ({ 'helm.sh/helm/v4/internal/version.version': version }),
  },
  {
    folder: 'helm3',
    module: 'helm.sh/helm/v3',
    programs: { helm3: 'helm.sh/helm/v3/cmd/helm' },
    variables: (version) => {
      // Without these it takes every cluster that it cannot ask for Kubernetes 1.20.
      const [, minor = ''] = requiredVersion('helm3', 'k8s.io/client-go').split('.');
      const release = { k8sVersionMajor: '1', k8sVersionMinor: minor };
      return {
        'helm.sh/helm/v3/internal/version.version': version,
        ...Object.fromEntries(
          ['chartutil', 'lint/rules'].flatMap((path) =>
            Object.entries(release).map(([name, value]) => [`helm.sh/helm/v3/pkg/${path}.${name}`, value]),
          ),
        ),
      };
    },
  },
  {
    folder: 'registry',
    module: 'github.com/distribution/distribution/v3',
    programs: { registry: 'github.com/distribution/distribution/v3/cmd/registry' },
    variables: (version) => ({ 'github.com/distribution/distribution/v3/version.version': version }),
  },
  {
    folder: 'syft',
    module: 'github.com/anchore/syft',
    programs: { syft: 'github.com/anchore/syft/cmd/syft' },
    notForTests: true,
    variables: (version) => ({ 'main.version': version }),
  },
  {
    folder: 'csi-sanity',
    module: 'github.com/kubernetes-csi/csi-test/v5',
    programs: { 'csi-sanity': 'github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity' },
  },
  { folder: 'etcd', module: 'go.etcd.io/etcd/server/v3', programs: { etcd: 'go.etcd.io/etcd/server/v3' } },
  {
    folder: 'versitygw',
    module: 'github.com/versity/versitygw',
    programs: { versitygw: 'github.com/versity/versitygw/cmd/versitygw' },
  },
  {
    folder: 's5cmd',
    module: 'github.com/peak/s5cmd/v2',
    programs: { s5cmd: 'github.com/peak/s5cmd/v2' },
    notForTests: true,
  },
  { folder: 'kwok', module: 'sigs.k8s.io/kwok', programs: { kwok: 'sigs.k8s.io/kwok/cmd/kwok' } },
];

export const moduleFolder = (module: Module): string => join(import.meta.dirname, module.folder);

/** The version of the module that go.mod requires, with its `v`. */
export const versionOf = ({ folder, module }: Module): string => requiredVersion(folder, module);

function requiredVersion(folder: string, module: string): string {
  const lines = readFileSync(join(import.meta.dirname, folder, 'go.mod'), 'utf8').split('\n');
  for (const line of lines) {
    const [path, version] = line
      .replace(/^require /, '')
      .trim()
      .split(' ');
    if (path === module && version?.startsWith('v')) return version;
  }
  throw new Error(`${folder}/go.mod does not require ${module}`);
}

/** The Go version that the module's go.mod asks for, such as 1.26.0. */
export function goVersionOf(module: Module): string {
  const version = /^go (\S+)$/m.exec(readFileSync(join(moduleFolder(module), 'go.mod'), 'utf8'))?.[1];
  if (!version) throw new Error(`${module.folder}/go.mod says no Go version`);
  return version;
}
