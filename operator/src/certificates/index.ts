export { authorityLifeMs, type CertificateAndKey, leafLifeMs } from './authority.ts';
export {
  agentName,
  type CertificatePlan,
  type CertificateSubject,
  etcdName,
  operatorName,
  type PlannedSecret,
  planCertificates,
  type SecretRole,
  type SecretTexts,
} from './cluster_certificates.ts';
