export {
  authorityLifeMs,
  type CertificateAndKey,
  createAuthority,
  issueLeaf,
  type LeafRequest,
  leafLifeMs,
} from './authority.ts';
export {
  agentName,
  type CertificatePlan,
  etcdName,
  operatorName,
  type PlannedSecret,
  planCertificates,
  type SecretRole,
} from './cluster_certificates.ts';
export { authorityFault, expiryTime, leafFault, renewalTime, unexpired } from './inspect.ts';
