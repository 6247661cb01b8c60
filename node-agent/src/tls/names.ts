import type { PeerCertificate } from 'node:tls';

/** The name in the certificate that all agents of a cluster share. */
export function agentName(cluster: string): string {
  return `agent.${cluster}.hearth`;
}

/** Callers that may use the control API over TCP: agents, the operator, and people with a certificate made for it. */
export function callerNames(cluster: string): string[] {
  return [agentName(cluster), `operator.${cluster}.hearth`, `client.${cluster}.hearth`];
}

/** DNS names that a certificate is for (subjectAltName). Its subject is no name. */
export function namesOf(certificate: PeerCertificate | undefined): string[] {
  const names = (certificate?.subjectaltname ?? '').split(', ');
  return names.flatMap((name) => (name.startsWith('DNS:') ? [name.slice('DNS:'.length)] : []));
}
