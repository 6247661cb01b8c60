export { agentName, callerNames, namesOf } from './names.ts';
export { TlsFiles } from './tls_files.ts';
