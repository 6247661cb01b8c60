import type { PeerCertificate } from 'node:tls';

/** The name in the certificate shared by all agents of a cluster. */
export function agentName(cluster: string): string {
  return `agent.${cluster}.hearth`;
}

/** Permitted callers of the control API over TCP: agents, the operator, and people with a client certificate. */
export function callerNames(cluster: string): string[] {
  return [agentName(cluster), `operator.${cluster}.hearth`, `client.${cluster}.hearth`];
}

/** DNS names of a certificate (subjectAltName); the subject is ignored. */
export function namesOf(certificate: PeerCertificate | undefined): string[] {
  const names = (certificate?.subjectaltname ?? '').split(', ');
  return names.flatMap((name) => (name.startsWith('DNS:') ? [name.slice('DNS:'.length)] : []));
}
