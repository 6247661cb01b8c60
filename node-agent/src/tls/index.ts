export { agentName, callerNames, namesOf } from './names.ts';
export { type NamedFile, type TlsFilePaths, TlsFiles } from './tls_files.ts';
