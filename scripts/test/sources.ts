// What of the checkout is checked and tested. Nothing that git ignores: caches and models of `make run` hold files of
// every name, and mounts that must not be walked through.

/** Arguments of biome, whose configuration has it leave out what git ignores. */
export const styleCheck = ['check', '--error-on-warnings', '.'];

/** Pathspecs of git, which reads no directory but those in its index, and no untracked one that it ignores. */
export const generatedFiles = [':(glob)**/generated/**', 'crds', 'docs/reference'];

/** Globs of mocha, each below folders of sources. */
export const testFiles = {
  /** Its limits are of a processor's time, so nothing runs beside it. */
  measured: ['e2e/src/operator_scale.test.ts'],
  /** Of whole programs, those of `measured` among them. */
  programs: ['e2e/{src,soak}/**/*.test.ts'],
  /** Of single rooms; those `onApiServer` are not among them. */
  parts: [
    '{common,native/binding,node-agent,cli,csi-driver,operator}/src/**/*.test.ts',
    '{scripts,bench}/**/*.test.ts',
  ],
  /** Of controllers and of the client of Kubernetes, each beside what it tests: they need a real API server. */
  onApiServer: ['{common,operator}/src/**/*.kubernetes.test.ts'],
  /** Of Kubernetes. */
  kubernetes: ['e2e/{cluster,kubernetes}/**/*.test.ts'],
  /** Those of them that need nodes; an API server does for the others. */
  onNodes: [
    'e2e/cluster/kubernetes_cluster.test.ts',
    'e2e/cluster/leftovers.test.ts',
    'e2e/kubernetes/{csi_driver,image,journey_*,pull_secrets}.test.ts',
  ],
};
